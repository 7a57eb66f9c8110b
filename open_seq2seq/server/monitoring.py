"""Metrics of the server in Prometheus' form, health and readiness."""

from __future__ import annotations

import functools
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from open_seq2seq.server.served import Models

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


def router(metrics: Metrics) -> APIRouter:
    """Returns the routes ``/health``, ``/ready`` and ``/metrics``."""
    routes = APIRouter(tags=["monitoring"])

    @routes.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok"}

    @routes.get("/ready")
    def ready() -> dict[str, Any]:
        return {"status": "ok"}  # the server listens only after all models have been loaded and have answered once

    @routes.get("/metrics")
    def values() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
