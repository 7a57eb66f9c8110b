"""Connections that send nothing or half a request, or whose client does not read its answer, end after a while."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol


class HttpServer(uvicorn.Server):
    """A server of HTTP, and perhaps one of another protocol that begins and ends together with it.

    Args:
      config: the configuration of uvicorn.
      other: the other one, with the methods of ``wyoming_api.WyomingServer``.
    """

    def __init__(self, config: uvicorn.Config, other: Any = None) -> None:
        super().__init__(config)
        self._other = other

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""
        if self._other is not None:
            await self._other.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends both within the time of ``Config.timeout_graceful_shutdown``, or at once after a second Ctrl+C."""
        if self._other is None:
            await super().shutdown(sockets)
            return
        ending = asyncio.ensure_future(self._other.stop(float(self.config.timeout_graceful_shutdown or 0)))
        await super().shutdown(sockets)
        if self.force_exit:
            ending.cancel()
        await asyncio.wait([ending])


def untaken(transport: Any) -> int:
    """Returns how many bytes of what was sent the client has not taken yet.

    They include those in the system's buffer, where it tells: it has megabytes, and takes more only when a good part of
    it is free, so that a client that reads slowly would seem to take nothing for a long time.
    """
    count = int(transport.get_write_buffer_size())
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):  # not every system has it
        import fcntl
        import termios

        answer = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        count += int.from_bytes(answer, sys.byteorder)
    return count


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """Returns the protocol of a server whose clients have to go on within this time.

    From the beginning of a connection, or from the end of an answer, the head of a request has to arrive in this time,
    and while an answer is sent, a part of it has to be read in each such time. Otherwise the connection is ended.
    Bodies are limited by ``guard.Guard``. A client that closes its half of a connection gets the answer to the request
    that it has sent; without a whole one, the connection ends.
    """
    return type("Impatient", (_Impatient,), {"seconds": seconds})


class _Impatient(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # which of two classes depends on what is installed
    seconds: float
    _awaited: Any = None  # what the client has to do, and at which request
    _timer: asyncio.TimerHandle | None = None
    _untaken = 0  # bytes, when the timer was set

    def _watch(self) -> None:
        """Sets the timer for what the client has to do now; it runs on if that is the same as before."""
        between = self.cycle is None or self.cycle.response_complete
        awaited = "read" if self.flow.write_paused else "ask" if between else None
        if awaited is None or (awaited, self.cycle) != self._awaited:
            self._unwatch()
            if awaited is not None:
                self._awaited = awaited, self.cycle
                self._set_timer()

    def _set_timer(self) -> None:
        self._untaken = untaken(self.transport)
        self._timer = self.loop.call_later(self.seconds, self._end)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._awaited = None

    def _end(self) -> None:
        if self.transport.get_protocol() is not self:  # but that of a WebSocket, which has limits of its own
            return
        if untaken(self.transport) < self._untaken:  # it reads, perhaps the end of an answer that is complete here
            self._set_timer()
        else:
            self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def eof_received(self) -> bool:
        """Returns whether the connection goes on: while the answer to a whole request is due."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        return True

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
