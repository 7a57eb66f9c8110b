"""Connections that send nothing or half a request, or whose client does not read its answer, end after a while."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """Returns the protocol of a server whose clients have to go on within this time.

    From the beginning of a connection, or from the end of an answer, the head of a request has to arrive in this time,
    and while an answer is sent, some of it has to be read in each such time. Otherwise the connection is ended.
    Bodies are limited by ``guard.Guard``. A client that closes one half of a connection ends all of it.
    """
    return type("Impatient", (_Impatient,), {"seconds": seconds})


class _Impatient(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # which of two classes depends on what is installed
    seconds: float
    _awaited: Any = None  # what the client has to do, and at which request
    _timer: asyncio.TimerHandle | None = None

    def _watch(self) -> None:
        """Sets the timer for what the client has to do now; it runs on if that is the same as before."""
        between = self.cycle is None or self.cycle.response_complete
        awaited = "read" if self.flow.write_paused else "ask" if between else None
        if awaited is None or (awaited, self.cycle) != self._awaited:
            self._unwatch()
            if awaited is not None:
                self._awaited = awaited, self.cycle
                self._timer = self.loop.call_later(self.seconds, self._end)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._awaited = None

    def _end(self) -> None:
        if self.transport.get_protocol() is self:  # not that of a WebSocket, which has limits of its own
            self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)
