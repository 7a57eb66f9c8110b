"""What every request passes: key, limits, the whole body in time, metrics and the access log."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from open_seq2seq.server.limits import Limits, Refused

# With everything below /v1/, what needs a key in the head; the key of LibreTranslate's /translate is in its body.
_APIS = ("/languages", "/synthesize", "/voices", "/info")
_MONITORING = ("/health", "/ready", "/metrics")  # also answered by a busy server, which must not seem to be down
_SECURITY = [
    (b"content-security-policy", b"default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
     b"connect-src 'self'; worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class Key:
    """The key that requests to the APIs must have.

    Args:
      key: the key; "" if none is needed.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    def allows(self, key: str) -> bool:
        """Returns whether a request with this key may use the APIs."""
        return not self._key or hmac.compare_digest(key.encode("utf-8", "replace"), self._key.encode())


class Gone(Exception):
    """The client has closed the connection."""


class Guard:
    """ASGI middleware: reads the body of each request within the limits before the application sees it.

    Args:
      app: the application.
      limits: the limits.
      key: the key that requests to the APIs must have.
      metrics: counters of requests and of their seconds; see ``app.Metrics``.
      log: whether to print a line for each request to standard error.
      hosts: names by which clients may address the server; empty for any. Others are those of pages of the web whose
        name was made to point here.
    """

    def __init__(self, app: Any, limits: Limits, key: Key, metrics: Any, log: bool,
                 hosts: Collection[str] = ()) -> None:
        self._app, self._limits, self._key, self._metrics, self._log = app, limits, key, metrics, log
        self._hosts = hosts
        self._count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket" and not self._may_open(scope):
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status, path = time.perf_counter(), 499, scope["path"]

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *_SECURITY]}
            await send(message)

        self._count += 1
        try:
            await self._answer(scope, receive, sent)
        except Refused as refused:
            await respond(sent, path, refused)
        except Gone:
            pass
        finally:
            self._count -= 1
            seconds = time.perf_counter() - begin
            self._metrics.count(path, status, seconds)
            if self._log:
                log_line(scope["method"], path, status, begin, scope.get("client"))

    def _may_open(self, scope: Any) -> bool:
        """Returns whether a WebSocket is of this host's own pages, or of a program, which names no origin."""
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")  # "null" for pages in a sandbox
        return self._is_addressed(scope) and (origin is None or origin.partition(b"://")[2] == headers.get(b"host"))

    def _is_addressed(self, scope: Any) -> bool:
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        return not self._hosts or re.sub(r":\d+$", "", host).strip("[]") in self._hosts

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if self._count > self._limits.requests and path not in _MONITORING:
            raise Refused(429, f"{self._limits.requests:,} requests are being answered already: try again later.",
                          retry_after=1)
        if not self._is_addressed(scope):
            raise Refused(403, f"This server is only addressed as {', '.join(self._hosts)}.")
        if (path.startswith("/v1/") or path in _APIS) and not self._key.allows(key_in(scope)):
            raise Refused(401, "The key is missing or wrong: send it as Authorization: Bearer KEY.")
        body = await self._body(scope, receive)
        delivered = False

        async def replay() -> Any:
            nonlocal delivered
            if delivered:  # the application waits for the end of the connection
                return await receive()
            delivered = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    async def _body(self, scope: Any, receive: Callable[[], Awaitable[Any]]) -> bytes:
        most = int(self._limits.megabytes * 1e6)
        if not scope["path"].startswith("/v1/"):  # texts alone, and paths that need no key
            most = min(most, 1_000_000 + 8 * self._limits.characters)
        too_large = Refused(413, f"The body of the request is larger than {most / 1e6:g} MB: send less at a time.")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            raise too_large
        pieces, size, end = [], 0, time.monotonic() + self._limits.seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(end - time.monotonic(), 0.001))
            except TimeoutError as error:
                raise Refused(408, f"The request did not arrive within {self._limits.seconds:g} seconds.") from error
            if message["type"] == "http.disconnect":
                raise Gone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > most:
                raise too_large
            if not message.get("more_body"):
                return b"".join(pieces)


def log_line(method: str, path: str, status: int, begin: float, client: Sequence[Any] | None) -> None:
    """Prints a line of the access log to standard error.

    Args:
      method, path, status: what was asked, and the status of the answer.
      begin: when the request came, by ``time.perf_counter``.
      client: address and port of the client, if they are known.
    """
    line = {"time": round(time.time(), 3), "method": method, "path": path, "status": status,
            "seconds": round(time.perf_counter() - begin, 4), "client": (client or ("",))[0]}
    print(json.dumps(line), file=sys.stderr, flush=True)


def key_in(scope: Any) -> str:
    """Returns the key in the headers of a request; "" if there is none."""
    headers = dict(scope["headers"])
    bearer = headers.get(b"authorization", b"").decode("utf-8", "replace")
    return bearer[7:] if bearer[:7].lower() == "bearer " else headers.get(b"x-api-key", b"").decode("utf-8", "replace")


def error_of(path: str, refused: Refused) -> Any:
    """Returns the body of an error, in the form of the API that the path belongs to."""
    if not path.startswith("/v1/"):
        return {"error": refused.message}
    kind = "server_error" if refused.status >= 500 else "invalid_request_error"
    return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": None}}


async def respond(send: Any, path: str, refused: Refused) -> None:
    """Sends an error."""
    body = json.dumps(error_of(path, refused)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
               (b"connection", b"close")]
    if refused.retry_after is not None:
        headers.append((b"retry-after", str(refused.retry_after).encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
