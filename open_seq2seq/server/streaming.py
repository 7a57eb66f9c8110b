"""Streaming recognition over a WebSocket: audio goes in as it is spoken, and the transcript so far comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from open_seq2seq.inference.speech2text.frame_asr import FrameASR, Partial
from open_seq2seq.models.model import Model
from open_seq2seq.utils.errors import DataError, UserError

if TYPE_CHECKING:
    from fastapi import WebSocket

MOST_STREAMS = 4
"""Number of streams of a model at a time; each keeps the state of an utterance."""
_REFUSED, _TRY_LATER = 1008, 1013  # codes with which a WebSocket is closed


class Busy(UserError):
    """All streams of a model are in use."""


class Streams:
    """The streams of one model, which are used again after an utterance, because each compiles the network once.

    Args:
      model: the attribute ``model`` of a loaded recogniser.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._free: list[FrameASR] = []
        self._count = 0
        self._bookkeeping = threading.Lock()
        self._computing = threading.Lock()  # one step at a time, because each uses all processors

    @contextlib.contextmanager
    def stream(self, rate: int | None = None) -> Iterator[FrameASR]:
        """Context manager of a stream for one utterance at this sampling rate in Hz; None for that of the model.

        Raises:
          Busy: there are ``MOST_STREAMS`` streams already.
          ConfigError: the model cannot be streamed.
          DataError: the rate is out of range.
        """
        with self._bookkeeping:
            if self._count >= MOST_STREAMS:
                raise Busy(f"All {MOST_STREAMS} streams of this model are in use: try again later.")
            self._count += 1
            asr = self._free.pop() if self._free else None
        try:
            if asr is None:
                with self._computing:
                    asr = FrameASR(self._model)
            asr.reset(asr.model.data_layer.settings.sample_freq if rate is None else rate)
            yield asr
        finally:
            with self._bookkeeping:
                self._count -= 1
                self._free += [] if asr is None else [asr]

    def hear(self, asr: FrameASR, audio: np.ndarray) -> Partial:
        """Adds a piece of audio ``[samples]``, as ``FrameASR.transcribe`` reads it; returns the transcript so far."""
        with self._computing:
            return asr.transcribe(audio)

    def finish(self, asr: FrameASR) -> str:
        """Returns the transcript of the whole utterance."""
        with self._computing:
            return asr.finish()


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function in a thread; if the caller is cancelled, waits for the thread, because it uses a stream."""
    import anyio

    task = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


async def first_message(socket: WebSocket, seconds: float) -> dict[str, Any]:
    """Returns the first message of a client, an object with ``model``, ``rate`` and, if needed, ``api_key``.

    Raises:
      DataError: it is something else, or did not come in this time.
    """
    try:
        message = json.loads(await asyncio.wait_for(socket.receive_text(), seconds))
    except (ValueError, KeyError, RecursionError, TimeoutError):
        message = None
    if not isinstance(message, dict):
        raise DataError('The first message must be an object such as {"model": "asr", "rate": 16000}.')
    return message


async def recognize(socket: WebSocket, streams: Streams, rate: Any, idle_seconds: float, most_seconds: float) -> None:
    """Recognises one utterance: pieces of audio as binary messages, until a text message or the end of the connection.

    After each piece, the answer is ``{"text", "stable"}`` (see ``Partial``), after the end ``{"text", "final": true}``.

    Args:
      socket: the accepted connection.
      streams: the streams of the model.
      rate: sampling rate of the audio in Hz, as the client gave it; None for that of the model.
      idle_seconds: how long the server waits for a message.
      most_seconds: the longest utterance.

    Raises:
      UserError: the audio cannot be used, is too long, or did not come in time.
    """
    with contextlib.ExitStack() as stack:
        asr = await in_thread(stack.enter_context, streams.stream(rate))
        samples = 0
        while (piece := await _piece(socket, idle_seconds)) is not None:
            if len(piece) % 2:
                raise DataError(f"A piece of audio has {len(piece):,} bytes: send 16-bit samples, two bytes for each.")
            samples += len(piece) // 2
            if samples > most_seconds * asr.rate:
                raise DataError(f"The utterance is longer than {most_seconds:g} s: start another one.")
            partial = await in_thread(streams.hear, asr, np.frombuffer(piece, "<i2"))
            await socket.send_json({"text": partial.text, "stable": partial.stable})
        await socket.send_json({"text": await in_thread(streams.finish, asr), "final": True})


async def _piece(socket: WebSocket, idle_seconds: float) -> bytes | None:
    """Returns the next piece of audio; None at the end of the utterance."""
    from fastapi import WebSocketDisconnect

    try:
        message = await asyncio.wait_for(socket.receive(), idle_seconds)
    except TimeoutError as error:
        raise DataError(f"No audio came for {idle_seconds:g} s.") from error
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code") or 1000)
    return message.get("bytes")


async def refuse(socket: WebSocket, error: Exception) -> None:
    """Sends an error as ``{"error"}``, and closes the connection."""
    await socket.send_json({"error": str(error)})
    await socket.close(_TRY_LATER if isinstance(error, Busy) else _REFUSED)
