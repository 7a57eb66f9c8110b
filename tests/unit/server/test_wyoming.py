"""Wyoming by its official client: what recognisers and voices answer, limits, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("wyoming", reason="needs the package wyoming, of the extra wyoming")

from wyoming.asr import Transcribe, Transcript  # noqa: E402
from wyoming.audio import AudioChunk, AudioStart, AudioStop  # noqa: E402
from wyoming.client import AsyncTcpClient  # noqa: E402
from wyoming.error import Error  # noqa: E402
from wyoming.event import Event  # noqa: E402
from wyoming.info import Describe, Info  # noqa: E402
from wyoming.ping import Ping, Pong  # noqa: E402
from wyoming.tts import Synthesize, SynthesizeVoice  # noqa: E402

from open_seq2seq.models.speech2text.speech2text import Recognition  # noqa: E402
from open_seq2seq.models.text2speech.speech import Speech  # noqa: E402
from open_seq2seq.server import command  # noqa: E402
from open_seq2seq.server.command import serve  # noqa: E402
from open_seq2seq.utils.errors import UserError  # noqa: E402
from tests.unit.server.repeating import Repeating  # noqa: E402

SOUND = np.sin(np.arange(10_000) / 9).astype(np.float32)


def heard(recording: tuple[np.ndarray, int]) -> Recognition:
    samples, rate = recording
    return Recognition(f"{len(samples)} samples at {rate}, mean {samples.mean():.3f}")


def said(text: str, rate: int = 8000) -> Speech:
    if text == "a fault":
        raise ValueError(text)
    sound = np.tile(SOUND, 500) if text == "a long text" else SOUND
    return Speech(sound, rate, *[np.zeros([1, 1])] * 2, text, [])


MODELS = {"de-asr": Repeating("transcribe", heard, False), "other": Repeating("transcribe", heard, False),
          "voice": Repeating("synthesize", said), "pt_BR-voice": Repeating("synthesize", lambda text: said(text, 9000))}


@contextmanager
def serving(seconds: float) -> Iterator[int]:
    server = serve(MODELS, wyoming_port=0, seconds=seconds, audio_seconds=2.0, characters=100, megabytes=1.0)
    yield int(server.wyoming_uri.rsplit(":", 1)[1])
    server.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(60.0) as port:
        yield port


@pytest.fixture(scope="module")
def hasty() -> Iterator[int]:
    """The port of a server that waits for a second; a busy machine may need as long for what is no fault."""
    with serving(1.0) as port:
        yield port


class Client:
    """The official client, with events of this package's answers."""

    def __init__(self, client: AsyncTcpClient) -> None:
        self._client = client

    async def send(self, *messages: Any) -> None:
        for message in messages:
            await self._client.write_event(message if isinstance(message, Event) else message.event())

    async def answer(self) -> Event:
        event = await self._client.read_event()
        assert event is not None
        return event

    async def error(self) -> Error:
        event = await self.answer()
        assert Error.is_type(event.type), event
        return Error.from_event(event)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    async with AsyncTcpClient("127.0.0.1", port, 60.0, 60.0) as client:
        yield Client(client)


def talk(port: int, talking: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with connected(port) as client:
            await talking(client)

    asyncio.run(run())


def recording(samples: np.ndarray, rate: int, width: int = 2, channels: int = 1) -> list[Any]:
    """Returns the events of a recording, in pieces of any length."""
    content = samples.astype({2: "<i2", 4: "<i4"}.get(width, "<i2")).tobytes()
    pieces = [content[start:start + 999] for start in range(0, len(content), 999)]
    return [AudioStart(rate, width, channels), *(AudioChunk(rate, width, channels, piece) for piece in pieces),
            AudioStop()]


def test_models_are_described(port):
    async def talking(client: Client) -> None:
        await client.send(Ping("a"), Event("of-a-later-version"), Describe())
        assert Pong.from_event(await client.answer()).text == "a"
        info = Info.from_event(await client.answer())
        assert [(one.name, one.languages) for one in info.asr[0].models] == [("de-asr", ["de"]), ("other", [])]
        assert [(one.name, one.languages) for one in info.tts[0].voices] == [("voice", []), ("pt_BR-voice", ["pt"])]

    talk(port, talking)


def test_recordings_are_transcribed(port):
    async def talking(client: Client) -> None:
        for name, samples, rate, width, channels, text in (
                (None, np.full(3000, 1 << 13), 16_000, 2, 1, "3000 samples at 16000, mean 0.250"),
                ("other", np.full(3000, 1 << 29), 8000, 4, 2, "1500 samples at 8000, mean 0.250")):
            await client.send(Transcribe(name), *recording(samples, rate, width, channels))
            assert Transcript.from_event(await client.answer()).text == text

    talk(port, talking)


@pytest.mark.parametrize(("asked", "name"), [
    ({}, "voice"), ({"language": "pt"}, "pt_BR-voice"), ({"language": "pt-BR"}, "pt_BR-voice"),
    ({"language": "fr"}, "voice"), ({"name": "pt_BR-voice"}, "pt_BR-voice")])
def test_the_voice_of_a_language_speaks(port, asked, name):
    async def talking(client: Client) -> None:
        await client.send(Synthesize("which", SynthesizeVoice(**asked)))
        assert AudioStart.from_event(await client.answer()).rate == (8000 if name == "voice" else 9000)

    talk(port, talking)


def test_a_language_that_no_model_is_for_is_refused():
    server = serve({"de": MODELS["de-asr"], "en-ears": MODELS["de-asr"]}, wyoming_port=0)

    async def talking(client: Client) -> None:
        for language, code in (("en", ""), ("de_AT", ""), ("fr", "404")):
            await client.send(Transcribe(language=language), *recording(np.zeros(9), 8000))
            event = await client.answer()
            assert event.data.get("code", "") == code and ("'fr'" in event.data["text"]) == bool(code)

    talk(int(server.wyoming_uri.rsplit(":", 1)[1]), talking)
    server.stop()


def test_a_voice_speaks(port):
    async def talking(client: Client) -> None:
        await client.send(Synthesize("a text", SynthesizeVoice("voice")))
        start, chunks = AudioStart.from_event(await client.answer()), []
        assert (start.rate, start.width, start.channels) == (8000, 2, 1)
        while not AudioStop.is_type((event := await client.answer()).type):
            chunks.append(AudioChunk.from_event(event).audio)
        samples = np.frombuffer(b"".join(chunks), "<i2") / 32767
        assert len(chunks) > 1 and np.abs(samples - SOUND).max() < 1e-4

    talk(port, talking)


MISTAKES: dict[str, tuple[list[Any], str, str]] = {
    "no such model": ([Transcribe("<none>"), *recording(np.zeros(9), 8000)], "404", "There is no model"),
    "no such voice": ([Synthesize("a", SynthesizeVoice("asr"))], "404", "There is no model 'asr'"),
    "too long a recording": (recording(np.zeros(17_000), 8000), "413", "longer than 2 seconds"),
    "too long a text": ([Synthesize("a" * 101)], "413", "101 characters"),
    "no text": ([Event("synthesize", {"text": 3})], "400", "no text"),
    "nothing said": ([AudioStart(8000, 2, 1), AudioStop()], "400", "no samples"),
    "half a sample": ([AudioStart(8000, 2, 1), AudioChunk(8000, 2, 1, b"x"), AudioStop()], "400", "no samples"),
    "samples of 3 bytes": (recording(np.zeros(9), 8000, 3), "400", "a width of 2 or 4 bytes"),
    "no rate": ([Event("audio-start", {"width": 2, "channels": 1})], "400", "must have a rate"),
    "a rate that changes": ([AudioStart(8000, 2, 1), AudioChunk(8000, 2, 1, b"ab"), AudioChunk(9000, 2, 1, b"ab")],
                            "400", "changes its format"),
    "a rate above that of sound": (recording(np.zeros(2 * 48_000 + 1), 192_000), "413", "longer than 0.5 seconds"),
    "no beginning": ([AudioChunk(8000, 2, 1, b"ab"), AudioChunk(8000, 2, 1, b"ab"), AudioStop()], "400",
                     "'audio-chunk' came before 'audio-start'"),
    "an end alone": ([AudioStop()], "400", "'audio-stop' came before 'audio-start'"),
    "another format of text": ([Synthesize("<speak>a</speak>", text_format="ssml")], "400", "Only the format 'text'")}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_the_conversation_goes_on(port, name):
    async def talking(client: Client) -> None:
        messages, code, text = MISTAKES[name]
        await client.send(*messages)
        error = await client.error()
        assert error.code == code and text in error.text and "\n" not in error.text
        await client.send(Transcribe(), *recording(np.zeros(9), 8000))
        assert Transcript.from_event(await client.answer()).text.startswith("9 samples")

    talk(port, talking)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]\n", b"3\n", b"{}\n", b"[" * 50_000 + b"\n", b"\xff\n", b"x" * 100_000 + b"\n",
    b'{"type": "describe", "data_length": "a"}\n', b'{"type": "describe", "data_length": 5}\n[1,2]',
    b'{"type": "audio-chunk", "payload_length": 10}\nab', b'{"type": "audio-chunk", "data": 3}\n',
    b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_event_ends_the_connection(hasty, content):
    with socket.create_connection(("127.0.0.1", hasty), timeout=60) as connection:
        connection.sendall(content)
        received = b""
        while piece := connection.recv(1 << 16):  # until the server ends the connection
            received += piece
        assert b"Traceback" not in received and (b"This is no event" in received) == (
            b"\n" in content and b"payload_length" not in content)
    talk(hasty, lambda client: client.send(Describe()))


def test_an_event_that_is_too_large_is_refused_before_it_is_read(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(json.dumps({"type": "audio-chunk", "payload_length": 10**12}).encode() + b"\n")
        received = b""
        while piece := connection.recv(1 << 16):
            received += piece
        assert b"larger than 1 MB" in received


def test_too_many_clients_are_refused(port):
    async def run() -> None:
        async with connected(port) as first, connected(port) as second:
            clients = [first, second]
            others = [AsyncTcpClient("127.0.0.1", port) for _ in range(15)]
            for one in others:
                await one.connect()
            clients += [Client(one) for one in others]
            for client in clients[:16]:
                await client.send(Ping())
                assert (await client.answer()).type == "pong"
            assert (await clients[16].error()).code == "503"
            for one in others:
                await one.disconnect()

    asyncio.run(run())


def test_a_model_that_fails_gives_an_error_and_the_next_event_is_answered(port):
    async def talking(client: Client) -> None:
        await client.send(Synthesize("a fault"), Ping("on"))
        assert (await client.error()).code == "500"
        assert Pong.from_event(await client.answer()).text == "on"

    talk(port, talking)


def asking_for_much(port: int) -> socket.socket:
    """Returns the connection of a client that is owed 10 MB, and whose system takes little of them."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    slow.connect(("127.0.0.1", port))
    slow.settimeout(60)
    slow.sendall(json.dumps(Synthesize("a long text").event().to_dict()).encode() + b"\n")
    return slow


def test_a_client_that_reads_slowly_gets_all_of_its_speech(hasty):
    with asking_for_much(hasty) as slow:
        tail, count = b"", 0
        while b"audio-stop" not in tail:
            piece = slow.recv(1 << 13)
            assert piece
            tail, count = tail[-100:] + piece, count + len(piece)
            time.sleep(0.02 if count < 800_000 else 0.0)  # for more than twice the second that the server waits


def test_stopping_does_not_wait_for_a_client_that_does_not_read(monkeypatch):
    monkeypatch.setattr(command, "_GRACE_SECONDS", 1)
    server = serve(MODELS, wyoming_port=0, seconds=300.0)
    with asking_for_much(int(server.wyoming_uri.rsplit(":", 1)[1])) as deaf:
        assert deaf.recv(100)  # the answer has begun
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(100)
        assert not stopping.is_alive()


def test_a_recording_that_has_begun_is_transcribed_before_the_end():
    server = serve(MODELS, wyoming_port=0)
    port = int(server.wyoming_uri.rsplit(":", 1)[1])

    async def talking(client: Client) -> None:
        events = recording(np.zeros(3000), 8000)
        await client.send(*events[:2], Ping("heard"))
        assert (await client.answer()).type == "pong"
        stopping = asyncio.ensure_future(asyncio.to_thread(server.stop))
        while not server_ends(port):
            await asyncio.sleep(0.05)
        await client.send(*events[2:])
        assert Transcript.from_event(await client.answer()).text.startswith("3000 samples")
        await stopping

    talk(port, talking)


def server_ends(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return True
    return False


def test_a_port_that_is_taken_leaves_no_socket_behind():
    caught = []  # an error keeps what its functions had
    with socket.socket() as taken, socket.socket() as free, socket.socket() as again:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (taken, free)]
        free.close()
        for port, wyoming_port, option in ((ports[0], ports[1], "--port"), (ports[1], ports[0], "--wyoming_port")):
            with pytest.raises(UserError, match=f"choose another {option}") as error:
                serve(MODELS, port=port, wyoming_port=wyoming_port)
            caught.append(error)
        again.bind(("127.0.0.1", ports[1]))
