"""Recognition over a WebSocket: the transcript of a stream is that of its recording, and mistakes are sentences."""

from __future__ import annotations

import asyncio
import threading
import types
from typing import Any

import numpy as np
import pytest

fastapi = pytest.importorskip("fastapi")

from fastapi.testclient import TestClient  # noqa: E402

from open_seq2seq.server.served import Served  # noqa: E402
from open_seq2seq.server.streaming import MOST_STREAMS, Busy, Streams, first_message, recognize, refuse  # noqa: E402
from open_seq2seq.utils.errors import ConfigError, DataError, UserError  # noqa: E402
from tests.unit.inference.speech2text.test_frame_asr import RATE, make, offline, speech, toy  # noqa: E402

__all__ = ["make", "speech", "toy"]


@pytest.fixture(scope="module")
def streams(make) -> Streams:
    return Streams(make())


@pytest.fixture(scope="module")
def client(streams) -> TestClient:
    app = fastapi.FastAPI()

    @app.websocket("/stream")
    async def stream(socket: fastapi.WebSocket) -> None:
        await socket.accept()
        try:
            first = await first_message(socket, 60.0)
            await recognize(socket, streams, first.get("rate"), first.get("idle", 60.0), 20.0)
        except UserError as error:
            await refuse(socket, error)
        except fastapi.WebSocketDisconnect:
            pass

    return TestClient(app)


def test_the_transcript_grows_to_that_of_the_recording(client, streams, speech):
    whole = np.round(speech * 32767).astype("<i2")
    with client.websocket_connect("/stream") as socket, streams.stream(RATE) as other:
        socket.send_json({"rate": RATE})
        texts = []
        for start in range(0, len(whole), RATE // 2):
            socket.send_bytes(whole[start:start + RATE // 2].tobytes())
            found = socket.receive_json()
            assert set(found) == {"text", "stable"}, found
            texts.append(found["text"])
            streams.hear(other, np.zeros(800, "<i2"))  # streams do not disturb one another
        socket.send_text("end")
        last = socket.receive_json()
    with streams.stream(RATE) as asr:
        assert last == {"text": offline(asr, whole), "final": True} and len(last["text"]) > 5
    assert len(set(texts)) > 3


def test_the_last_transcript_of_a_file_is_that_of_inference(streams, speech):
    async def last() -> str:
        server = types.SimpleNamespace(streams=streams)
        return [text async for text in Served.heard(server, speech, RATE, RATE // 2)][-1]  # type: ignore[arg-type]

    with streams.stream(RATE) as asr:
        expected = offline(asr, speech)
    assert asyncio.run(last()) == expected and len(expected) > 5


@pytest.mark.parametrize(("first", "then", "said"), [
    ("[1]", b"", "The first message must be an object"), ("no json", b"", "The first message must be"),
    ('{"rate": 1}', b"", "sampling rate from 1,000"), ('{"rate": "<b>"}', b"", "must have a sampling rate"),
    ("{}", b"odd", "has 3 bytes"), ('{"rate": 8000}', b"odd", "has 3 bytes: send 16-bit samples"),
    ('{"rate": 8000}', bytes(8000 * 2 * 21), "longer than 20 s"), ('{"rate": 8000, "idle": 0.5}', None,
                                                                              "No audio came for 0.5 s"),
])
def test_mistakes_are_sentences(client, first, then, said):
    with client.websocket_connect("/stream") as socket:
        socket.send_text(first)
        if then is not None:
            socket.send_bytes(then)
        found: dict[str, Any] = {"text": ""}
        while "text" in found:
            found = socket.receive_json()
        assert said in found["error"]
        assert socket.receive()["type"] == "websocket.close"


def test_streams_are_bounded_and_given_back(streams):
    entered = [streams.stream(RATE) for _ in range(MOST_STREAMS)]
    used = [one.__enter__() for one in entered]
    with pytest.raises(Busy, match="try again later"), streams.stream(RATE):
        pass
    for one in entered:
        one.__exit__(None, None, None)
    with pytest.raises(DataError), streams.stream(-1):
        pass
    with streams.stream(RATE) as again:
        assert again in used


def test_a_client_that_leaves_gives_its_stream_back(client, streams):
    before = threading.active_count()
    for _ in range(MOST_STREAMS + 1):
        with client.websocket_connect("/stream") as socket:
            socket.send_json({"rate": RATE})
            socket.send_bytes(bytes(1600))
            socket.receive_json()
    assert threading.active_count() <= before + MOST_STREAMS  # and its thread
    with streams.stream(RATE) as asr:
        assert asr.rate == RATE


def test_what_cannot_be_streamed_says_so():
    with pytest.raises(ConfigError, match="does not recognise speech"), Streams(object()).stream(RATE):  # type: ignore[arg-type]
        pass
