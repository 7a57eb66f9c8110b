"""The application of the server: its APIs, its pages, its errors and its metrics in Prometheus' form."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from open_seq2seq.server import openai_api, other_apis, own_api
from open_seq2seq.server.guard import Guard, Key, error_of
from open_seq2seq.server.limits import Limits, Refused
from open_seq2seq.server.served import Models
from open_seq2seq.utils.errors import UserError
from open_seq2seq.version import __version__

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters of one server.

    Args:
      models: the models, whose waiting inputs are counted.

    Attributes:
      registry: what Prometheus reads.
      paths: the paths that are counted by name; others count together.
    """

    def __init__(self, models: Models) -> None:
        self.registry, self.paths = CollectorRegistry(), set[str]()
        self._requests = Counter("open_seq2seq_requests", "Requests by path and status.", ["path", "status"],
                                 registry=self.registry)
        self._seconds = Histogram("open_seq2seq_request_seconds", "Seconds until the end of the answer.", ["path"],
                                  buckets=_SECONDS, registry=self.registry)
        waiting = Gauge("open_seq2seq_waiting_inputs", "Inputs that wait or are being computed.", ["model"],
                        registry=self.registry)
        for name, one in models.by_name.items():
            waiting.labels(name).set_function(functools.partial(getattr, one.batcher, "count"))

    def count(self, path: str, status: int, seconds: float) -> None:
        """Counts a request."""
        path = path if path in self.paths else "other"
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)


def monitoring(metrics: Metrics) -> APIRouter:
    """Returns the routes ``/health``, ``/ready`` and ``/metrics``."""
    routes = APIRouter(tags=["monitoring"])

    @routes.get("/health")
    @routes.get("/ready")  # the server listens only after all models have been loaded and have answered once
    def health() -> dict[str, Any]:
        return {"status": "ok"}

    @routes.get("/metrics")
    def values() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes


STATIC = Path(__file__).parent / "static"


_UPLOADS = 8  # recordings and pictures that are in memory at a time


def make_app(models: Models, limits: Limits, api_key: str = "", log: bool = True,
             hosts: Collection[str] = ()) -> Any:
    """Returns the ASGI application of a server.

    Args:
      models: the models.
      limits: the limits.
      api_key: key that requests to the APIs must have; "" for none.
      log: whether to print a line for each request to standard error.
      hosts: names by which clients may address the server; empty for any.
    """
    app = FastAPI(title="OpenSeq2Seq", version=__version__, docs_url=None, redoc_url=None)
    uploads, key = asyncio.Semaphore(_UPLOADS), Key(api_key)
    app.include_router(openai_api.router(models, limits, uploads))
    app.include_router(own_api.router(models, limits, key.allows, uploads))
    app.include_router(other_apis.libre_translate(models, limits, key.allows))
    app.include_router(other_apis.piper(models, limits))
    metrics = Metrics(models)
    app.include_router(monitoring(metrics))
    metrics.paths = {*app.openapi()["paths"]}
    app.router.default = StaticFiles(directory=STATIC, html=True)  # mounted, it would hide wrong methods of the APIs
    for kind, refusal_of in _ERRORS.items():
        app.add_exception_handler(kind, functools.partial(_answer, refusal_of))
    return Guard(app, limits, key, metrics, log, hosts)


async def _answer(refusal_of: Callable[[Any], Refused], request: Request, error: Exception) -> JSONResponse:
    refused = refusal_of(error)
    headers = (getattr(error, "headers", None) if refused.retry_after is None else
               {"Retry-After": str(refused.retry_after)})
    return JSONResponse(error_of(request.url.path, refused), refused.status, headers)


def _wrong_request(error: HTTPException) -> Refused:
    what = str(error.detail).rstrip(".")
    return Refused(error.status_code, f"The body of the request cannot be read ({what}): check its form and its "
                   "encoding (UTF-8)." if error.status_code == 400 else f"{what}: see /openapi.json for what there is.")


def _wrong_field(error: Any) -> Refused:
    """Returns the error of a body with a wrong field, in one sentence, without the value that the client gave."""
    problem = error.errors()[0]
    place = ".".join(str(one) for one in problem["loc"] if one != "body")
    if problem["type"].startswith("json"):
        return Refused(400, "The body of the request is no JSON: check quotation marks and encoding (UTF-8).")
    what = problem["msg"][:1].lower() + problem["msg"][1:]
    return Refused(400, f"The field '{place}' is wrong: {what}." if place else f"The body is wrong: {what}.",
                   place or None)


# Handlers by exception class.
_ERRORS: dict[type[Exception], Callable[[Any], Refused]] = {
    Refused: lambda error: error, UserError: lambda error: Refused(400, str(error)),
    RequestValidationError: _wrong_field, ValidationError: _wrong_field, HTTPException: _wrong_request,
    Exception: lambda error: Refused(500, "The server failed at this request; its log says why.")}
