"""Wyoming, the protocol of voice assistants such as Home Assistant: recognition and speech over TCP.

An event is a line of JSON, possibly followed by data and audio; the package ``wyoming`` reads and writes them. The
protocol has no keys, so that this server only listens to its own machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from typing import Any

from wyoming.asr import Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_read_event, async_write_event
from wyoming.info import AsrModel, AsrProgram, Attribution, Info, TtsProgram, TtsVoice, TtsVoiceSpeaker
from wyoming.ping import Pong

from open_seq2seq.server.connections import untaken
from open_seq2seq.server.guard import log_line
from open_seq2seq.server.limits import Limits, Refused, check_texts
from open_seq2seq.server.openai_api import spoken
from open_seq2seq.server.served import Models, Served
from open_seq2seq.server.uploads import WIDTHS, most_samples, samples_of
from open_seq2seq.utils.errors import UserError
from open_seq2seq.version import __version__

_MOST_CLIENTS = 16  # at a time; each may be amid a recording
_PIECE_SAMPLES = 4096


class _Reader:
    """Reads from a stream what is not too large and arrives in time.

    Attributes:
      ended: whether the client has closed the connection between two events.
    """

    def __init__(self, stream: asyncio.StreamReader, limits: Limits) -> None:
        self._stream, self._seconds, self._most = stream, limits.seconds, int(limits.megabytes * 1e6)
        self.ended = False

    async def readline(self) -> bytes:
        line = await asyncio.wait_for(self._stream.readline(), self._seconds)
        self.ended = not line
        return line

    async def readexactly(self, count: int) -> bytes:
        if count > self._most:
            raise Refused(413, f"The event is larger than {self._most / 1e6:g} MB: send less at a time.")
        return await asyncio.wait_for(self._stream.readexactly(count), self._seconds)


_NO_EVENT = Refused(400, "This is no event of Wyoming: send a line of JSON with 'type', then its data and payload.")


class _Conversation:
    """The events of one client.

    Attributes:
      is_busy: whether an event is being answered, or a recording has begun.
      ends: whether the conversation ends as soon as it is not busy.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, models: Models, limits: Limits,
                 log: bool) -> None:
        self._reader, self._writer = _Reader(reader, limits), writer
        self._models, self._limits, self._log = models, limits, log
        self._asked: dict[str, Any] = {}  # name or language of the model
        self._audio: bytearray | None = None  # of the recording that has begun
        self._deadline = 0.0  # by when it has to be complete
        self._is_refused = False  # whether there was a mistake in it, so that the rest of it is left out
        self._format = (0, 0, 0)  # sampling rate, bytes of a sample, channels
        self._is_answering = self.ends = False
        self._answers = {"describe": self._describe, "ping": self._ping, "transcribe": self._choose,
                         "audio-start": self._begin, "audio-chunk": self._hear, "audio-stop": self._transcribe,
                         "synthesize": self._speak}

    @property
    def is_busy(self) -> bool:
        return self._is_answering or self._audio is not None

    async def run(self) -> None:
        """Answers events until the client closes the connection, goes silent, or sends what is none."""
        try:
            while not self.ends or self.is_busy:
                event = await async_read_event(self._reader)  # type: ignore[arg-type]
                if self._reader.ended:
                    break
                if event is None or not isinstance(event.data, dict):
                    raise _NO_EVENT
                self._is_answering = True
                await self._answer(event)
                self._is_answering = False
        except Refused as refused:
            await self.refuse(refused)
        except (AttributeError, KeyError, TypeError, RecursionError):  # of the package wyoming
            await self.refuse(_NO_EVENT)
        except (OSError, EOFError, TimeoutError):
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
        """Sends an event; raises TimeoutError if the client takes nothing of it in the time of the limit."""
        sending = asyncio.ensure_future(async_write_event(message.event(), self._writer))
        await asyncio.sleep(0)  # until it is in the buffer
        before = untaken(self._writer.transport)
        try:
            while not (await asyncio.wait([sending], timeout=self._limits.seconds))[0]:
                now = untaken(self._writer.transport)
                if now >= before:
                    raise TimeoutError
                before = now
            sending.result()
        finally:
            sending.cancel()

    async def _describe(self, data: dict[str, Any], payload: bytes) -> None:
        await self._send(described(self._models))

    async def _ping(self, data: dict[str, Any], payload: bytes) -> None:
        await self._send(Pong(str(data.get("text") or "")))

    async def _choose(self, data: dict[str, Any], payload: bytes) -> None:
        self._asked, self._audio, self._is_refused = data, None, False

    async def _begin(self, data: dict[str, Any], payload: bytes) -> None:
        self._audio, self._is_refused = bytearray(), False
        self._deadline = time.monotonic() + self._limits.audio_seconds + self._limits.seconds
        rate, width, channels = self._format = _number(data, "rate"), _number(data, "width"), _number(data, "channels")
        if not (1000 <= rate <= 192_000 and width in WIDTHS and 1 <= channels <= 16):
            raise self._mistake(400, "The audio must have a rate from 1,000 to 192,000 Hz, a width of 2 or 4 bytes, "
                                "and 1 to 16 channels.")

    def _mistake(self, status: int, message: str) -> Refused:
        """Returns the error of a recording, whose other events are left out."""
        self._audio, self._is_refused = None, True
        return Refused(status, message)

    async def _hear(self, data: dict[str, Any], payload: bytes) -> None:
        if self._is_refused:
            return
        if self._audio is None:
            raise self._mistake(400, "The event 'audio-chunk' came before 'audio-start'.")
        rate, width, channels = self._format
        if (_number(data, "rate"), _number(data, "width"), _number(data, "channels")) != self._format:
            raise self._mistake(400, "The audio changes its format within a recording: begin another one.")
        count = len(self._audio) + len(payload)
        if count > self._limits.megabytes * 1e6 or count > most_samples(self._limits, rate) * width * channels:
            raise self._mistake(413, f"The recording is longer than {most_samples(self._limits, rate) / rate:g} "
                                f"seconds, or larger than {self._limits.megabytes:g} MB: divide it.")
        if time.monotonic() > self._deadline:
            raise self._mistake(408, "The recording took too long: begin another one.")
        self._audio += payload

    async def _transcribe(self, data: dict[str, Any], payload: bytes) -> None:
        content, self._audio = self._audio, None
        if self._is_refused:
            self._is_refused = False
            return
        if content is None:
            raise Refused(400, "The event 'audio-stop' came before 'audio-start'.")
        rate, width, channels = self._format
        samples = await asyncio.to_thread(samples_of, content, width, channels)
        if not len(samples):
            raise Refused(400, "The recording has no samples.")
        served = self._served(self._asked, "transcribe")
        (result,) = await served.infer([(samples, rate)])
        await self._send(Transcript(result.text))

    def _served(self, asked: dict[str, Any], task: str) -> Served:
        """Returns the model that has the name in an event, or speaks the language in it."""
        name, language = asked.get("name"), asked.get("language")
        if name is None and language is not None:
            return self._models.speaking(str(language), task)
        return self._models.named(None if name is None else str(name), task)

    async def _speak(self, data: dict[str, Any], payload: bytes) -> None:
        text, voice = data.get("text"), data.get("voice")
        if not isinstance(text, str):
            raise Refused(400, "The event 'synthesize' has no text.")
        if data.get("text_format") not in (None, "text"):
            raise Refused(400, "Only the format 'text' is spoken.")
        check_texts([text], self._limits, "text")
        voice = voice if isinstance(voice, dict) else {}
        speech = await spoken(self._served(voice, "synthesize"), text, 1.0, voice.get("speaker"))
        samples = (speech.samples * 32767).clip(-32768, 32767).astype("<i2")
        await self._send(AudioStart(speech.rate, 2, 1))
        for start in range(0, len(samples), _PIECE_SAMPLES):
            piece = samples[start:start + _PIECE_SAMPLES].tobytes()
            await self._send(AudioChunk(speech.rate, 2, 1, piece))
        await self._send(AudioStop())


def _number(data: dict[str, Any], name: str) -> int:
    """Returns a whole number of an event; 0 if it is none."""
    return data[name] if isinstance(data.get(name), int) else 0


def described(models: Models) -> Info:
    """Returns the recognisers and voices of a server."""
    def facts(served: Served) -> dict[str, Any]:
        return {**program, "name": served.name, "description": str(served.about.get("Task", served.name)),
                "languages": [served.language] if served.language else []}

    program: dict[str, Any] = {"name": "OpenSeq2Seq", "attribution": Attribution("OpenSeq2Seq", ""), "installed": True,
                               "description": "Models of this server", "version": __version__}
    recognizers = [AsrModel(**facts(one)) for one in models.of_task("transcribe")]
    voices = [TtsVoice(**facts(one), speakers=[TtsVoiceSpeaker(name) for name in one.speakers] or None)
              for one in models.of_task("synthesize")]
    return Info(asr=[AsrProgram(**program, models=recognizers)] if recognizers else [],
                tts=[TtsProgram(**program, voices=voices)] if voices else [])


class WyomingServer:
    """Answers clients on a socket.

    Args:
      bound: the socket to listen on.
      models: the models.
      limits: the limits.
      log: whether to print a line for each answer to standard error.
    """

    def __init__(self, bound: socket.socket, models: Models, limits: Limits, log: bool) -> None:
        self._bound, self._models, self._limits, self._log = bound, models, limits, log
        self._conversations: dict[Any, _Conversation] = {}  # by their tasks
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begins to answer clients."""
        self._server = await asyncio.start_server(self._converse, sock=self._bound)

    async def stop(self, seconds: float) -> None:
        """Ends when recordings and answers that have begun are complete, at the latest after these seconds."""
        if self._server is not None:
            self._server.close()
        running = dict(self._conversations)
        for task, one in running.items():
            one.ends = True
            if not one.is_busy:
                task.cancel()
        if running:
            _, late = await asyncio.wait([*running], timeout=seconds)
            for task in late:
                task.cancel()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = _Conversation(reader, writer, self._models, self._limits, self._log)
        if len(self._conversations) >= _MOST_CLIENTS:
            await conversation.refuse(Refused(503, f"There are {_MOST_CLIENTS} clients already: try again later."))
            writer.close()
            return
        task = asyncio.current_task()
        self._conversations[task] = conversation
        try:
            await conversation.run()
        finally:
            del self._conversations[task]
