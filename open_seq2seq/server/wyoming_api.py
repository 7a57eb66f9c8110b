"""Wyoming, the protocol of voice assistants such as Home Assistant: recognition and speech over TCP.

An event is a line of JSON, possibly followed by data and audio; the package ``wyoming`` reads and writes them. The
protocol has no keys, so that this server only listens to its own machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from wyoming.asr import Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_read_event, async_write_event
from wyoming.info import AsrModel, AsrProgram, Attribution, Info, TtsProgram, TtsVoice, TtsVoiceSpeaker
from wyoming.ping import Pong

from open_seq2seq.server.guard import log_line
from open_seq2seq.server.limits import Limits, Refused, check_texts
from open_seq2seq.server.openai_api import spoken
from open_seq2seq.server.served import Models, Served
from open_seq2seq.utils.errors import UserError
from open_seq2seq.version import __version__

_MOST_CLIENTS = 16  # at a time; each may be amid a recording
_WIDTHS = {2: "<i2", 4: "<i4"}  # bytes of a sample
_PIECE_SAMPLES = 4096
_LANGUAGE = re.compile(r"([a-z]{2})([_.-].*)?")


class _Reader:
    """Reads from a stream what is not too large and arrives in time."""

    def __init__(self, stream: asyncio.StreamReader, limits: Limits) -> None:
        self._stream, self._seconds, self._most = stream, limits.seconds, int(limits.megabytes * 1e6)

    async def readline(self) -> bytes:
        return await asyncio.wait_for(self._stream.readline(), self._seconds)

    async def readexactly(self, count: int) -> bytes:
        if count > self._most:
            raise Refused(413, f"The event is larger than {self._most / 1e6:g} MB: send less at a time.")
        return await asyncio.wait_for(self._stream.readexactly(count), self._seconds)


class _Conversation:
    """The events of one client.

    Attributes:
      is_answering: whether an event is being answered.
      ends: whether the conversation ends after this answer.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, models: Models, limits: Limits,
                 log: bool) -> None:
        self._reader, self._writer = _Reader(reader, limits), writer
        self._models, self._limits, self._log = models, limits, log
        self._model: str | None = None
        self._audio: bytearray | None = bytearray()  # of the recording; None after a mistake in it
        self._format = (0, 0, 0)  # sampling rate, bytes of a sample, channels
        self.is_answering = self.ends = False
        self._answers = {"describe": self._describe, "ping": self._ping, "transcribe": self._choose,
                         "audio-start": self._begin, "audio-chunk": self._hear, "audio-stop": self._transcribe,
                         "synthesize": self._speak}

    async def run(self) -> None:
        """Answers events until the client closes the connection, goes silent, or sends what is none."""
        try:
            while not self.ends and (event := await async_read_event(self._reader)) is not None:  # type: ignore[arg-type]
                self.is_answering = True
                await self._answer(event)
                self.is_answering = False
        except Refused as refused:
            await self.refuse(refused)
        except (OSError, EOFError, TimeoutError, AttributeError, KeyError, TypeError, RecursionError):
            pass
        finally:
            self._writer.close()

    async def refuse(self, refused: Refused) -> None:
        """Sends an error, if the client still reads."""
        with contextlib.suppress(OSError, TimeoutError):
            await self._send(Error(refused.message, str(refused.status)))

    async def _answer(self, event: Event) -> None:
        answer = self._answers.get(event.type)
        if answer is None:  # events of later versions are to be ignored
            return
        begin, status = time.perf_counter(), 200
        try:
            await answer(event.data, event.payload or b"")
        except (Refused, UserError) as error:
            refused = error if isinstance(error, Refused) else Refused(400, str(error))
            status = refused.status
            await self.refuse(refused)
        except (OSError, EOFError, TimeoutError):  # of the client
            raise
        except Exception:  # of the model
            status = 500
            logging.getLogger("uvicorn.error").exception("The answer to the event %s failed.", event.type)
            await self.refuse(Refused(status, "The answer failed: the server's log says why."))
        if self._log and (status != 200 or event.type not in ("audio-start", "audio-chunk")):
            log_line("WYOMING", event.type, status, begin, self._writer.get_extra_info("peername"))

    async def _send(self, message: Eventable) -> None:
        await asyncio.wait_for(async_write_event(message.event(), self._writer), self._limits.seconds)

    async def _describe(self, data: dict[str, Any], payload: bytes) -> None:
        await self._send(described(self._models))

    async def _ping(self, data: dict[str, Any], payload: bytes) -> None:
        await self._send(Pong(str(data.get("text") or "")))

    async def _choose(self, data: dict[str, Any], payload: bytes) -> None:
        self._model, self._audio = _name(data), bytearray()

    async def _begin(self, data: dict[str, Any], payload: bytes) -> None:
        self._audio = bytearray()

    async def _hear(self, data: dict[str, Any], payload: bytes) -> None:
        if self._audio is None:
            return
        audio, self._audio = self._audio, None
        rate, width, channels = _number(data, "rate"), _number(data, "width"), _number(data, "channels")
        if not (1000 <= rate <= 192_000 and width in _WIDTHS and 1 <= channels <= 16):
            raise Refused(400, "The audio must have a rate from 1,000 to 192,000 Hz, a width of 2 or 4 bytes, and 1 to "
                          "16 channels.")
        if audio and (rate, width, channels) != self._format:
            raise Refused(400, "The audio changes its format within a recording: begin another one.")
        count = len(audio) + len(payload)
        if count > self._limits.megabytes * 1e6 or count > self._limits.audio_seconds * rate * width * channels:
            raise Refused(413, f"The recording is longer than {self._limits.audio_seconds:g} seconds, or larger than "
                          f"{self._limits.megabytes:g} MB: divide it.")
        audio += payload
        self._audio, self._format = audio, (rate, width, channels)

    async def _transcribe(self, data: dict[str, Any], payload: bytes) -> None:
        content, self._audio = self._audio, bytearray()
        if content is None:
            return
        rate, width, channels = self._format
        if len(content) < width * channels or not content:
            raise Refused(400, "The recording has no samples.")
        samples = np.frombuffer(content[:len(content) // (width * channels) * width * channels], _WIDTHS[width])
        mono = (samples.reshape(-1, channels).mean(1) / 256.0 ** width * 2.0).astype(np.float32)
        (result,) = await self._models.named(self._model, "transcribe").infer([(mono, rate)])
        await self._send(Transcript(result.text))

    async def _speak(self, data: dict[str, Any], payload: bytes) -> None:
        text, voice = data.get("text"), data.get("voice")
        if not isinstance(text, str):
            raise Refused(400, "The event 'synthesize' has no text.")
        check_texts([text], self._limits, "text")
        voice = voice if isinstance(voice, dict) else {}
        served = self._models.named(_name(voice), "synthesize")
        speech = await spoken(served, text, 1.0, voice.get("speaker"))
        samples = (speech.samples * 32767).clip(-32768, 32767).astype("<i2")
        await self._send(AudioStart(speech.rate, 2, 1))
        for start in range(0, len(samples), _PIECE_SAMPLES):
            piece = samples[start:start + _PIECE_SAMPLES].tobytes()
            await self._send(AudioChunk(speech.rate, 2, 1, piece))
        await self._send(AudioStop())


def _name(data: dict[str, Any]) -> str | None:
    return None if data.get("name") is None else str(data["name"])


def _number(data: dict[str, Any], name: str) -> int:
    """Returns a whole number of an event; 0 if it is none."""
    return data[name] if isinstance(data.get(name), int) else 0


def described(models: Models) -> Info:
    """Returns the recognisers and voices of a server; names such as ``en`` and ``en_voice`` begin with a language."""
    def facts(served: Served) -> dict[str, Any]:
        match = _LANGUAGE.fullmatch(served.name)
        return {**program, "name": served.name, "description": str(served.about.get("Task", served.name)),
                "languages": [match[1]] if match else []}

    program: dict[str, Any] = {"name": "OpenSeq2Seq", "attribution": Attribution("OpenSeq2Seq", ""), "installed": True,
                               "description": "Models of this server", "version": __version__}
    recognizers = [AsrModel(**facts(one)) for one in models.of_task("transcribe")]
    voices = [TtsVoice(**facts(one), speakers=[TtsVoiceSpeaker(name) for name in one.speakers] or None)
              for one in models.of_task("synthesize")]
    return Info(asr=[AsrProgram(**program, models=recognizers)] if recognizers else [],
                tts=[TtsProgram(**program, voices=voices)] if voices else [])


@contextlib.asynccontextmanager
async def listening(bound: socket.socket, models: Models, limits: Limits, log: bool) -> AsyncIterator[None]:
    """Context manager within which clients are answered; at its end, answers that have begun are completed.

    Args:
      bound: the socket to listen on.
      models: the models.
      limits: the limits.
      log: whether to print a line for each answer to standard error.
    """
    conversations: dict[asyncio.Task[None] | None, _Conversation] = {}

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation, task = _Conversation(reader, writer, models, limits, log), asyncio.current_task()
        if len(conversations) >= _MOST_CLIENTS:
            await conversation.refuse(Refused(503, f"There are {_MOST_CLIENTS} clients already: try again later."))
            writer.close()
            return
        conversations[task] = conversation
        try:
            await conversation.run()
        finally:
            del conversations[task]

    server = await asyncio.start_server(converse, sock=bound)
    try:
        yield
    finally:
        server.close()
        running = {task: one for task, one in conversations.items() if task is not None}
        for task, one in running.items():
            one.ends = True
            if not one.is_answering:
                task.cancel()
        if running:
            await asyncio.wait([*running], timeout=limits.seconds)
