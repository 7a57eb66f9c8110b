"""The APIs of the server with models that only repeat what they read: forms, limits, keys, and bad requests."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("fastapi")

from fastapi import WebSocketDisconnect  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402

from open_seq2seq.cli import main  # noqa: E402
from open_seq2seq.config.overrides import parse_overrides  # noqa: E402
from open_seq2seq.decoding.n_best import Candidate  # noqa: E402
from open_seq2seq.models.speech2text.speech2text import Recognition  # noqa: E402
from open_seq2seq.models.speech2text.subtitles import SpokenWord  # noqa: E402
from open_seq2seq.models.text2speech.speech import Speech, Timing  # noqa: E402
from open_seq2seq.models.text2text.translations import Translation, Translations  # noqa: E402
from open_seq2seq.parts.speakers import Speakers  # noqa: E402
from open_seq2seq.report import content  # noqa: E402
from open_seq2seq.server import app as app_module  # noqa: E402
from open_seq2seq.server import openai_api  # noqa: E402
from open_seq2seq.server.app import make_app  # noqa: E402
from open_seq2seq.server.command import about_logdir, parse_key, serve, values_of  # noqa: E402
from open_seq2seq.server.limits import Limits, Refused  # noqa: E402
from open_seq2seq.server.served import Models, Served, parse_names  # noqa: E402
from open_seq2seq.utils.errors import DataError, UserError  # noqa: E402
from tests.unit.server.repeating import Repeating  # noqa: E402

MARKUP = "<script>alert(1)</script>"
STATIC = Path(app_module.__file__).parent / "static"
LIMITS = Limits(megabytes=0.2, audio_seconds=2.0, characters=200, spoken_characters=100, inputs=4, seconds=5.0)


def translated(text):
    if text == "wrong":
        raise DataError("wrong is wrong")
    return Translations([Translation(-1.0, text.upper()), Translation(-2.0, text.title())], [1, 1], None)


def recognized(recording):
    samples, rate = recording
    words = [SpokenWord("some", 0.1, 0.3, 0.9), SpokenWord("words", 0.4, len(samples) / rate, 0.8)]
    n_best = [Candidate(text, score, score, 0.0) for text, score in (("some words", -1.0), ("sum words", -2.5))]
    return Recognition("some words", words, None, n_best)


def spoken(text):
    size = 1600 if text.startswith("[speaker high] ") else 800
    sound = np.sin(np.arange(size) / 9).astype(np.float32)
    return Speech(sound, 8000, np.zeros([3, 4]), np.zeros([3, 2]), "stop token", [Timing("a", 0.0, 0.1)])


TWO = Speakers(["low", "high"], "speakers")


def by_speaker(text, speaker):
    TWO.number(speaker)
    return f"[speaker {speaker}] {text}"


def completed(text, count=8):
    return np.arange(len(text.split()) + count)


MODELS = {
    "en-de": Repeating("translate", translated), "asr": Repeating("transcribe", recognized, False),
    "voice": Repeating("synthesize", spoken),
    "two": Repeating("synthesize", spoken, speakers=TWO, by_speaker=by_speaker),
    "labels": Repeating("classify", lambda text: ("cat", 0.75)),
    "images": Repeating("classify", lambda pixels: types.SimpleNamespace(classes=[1]), False, interactive_pixels=None),
    "lm": Repeating("generate", completed, False)}


def client_of(key="", **changes):
    models = Models([Served(name, model, {"Task": MARKUP}, LIMITS) for name, model in MODELS.items()])
    limits = Limits(**{**vars(LIMITS), **changes})
    return TestClient(make_app(models, limits, key, log=False), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client():
    return client_of()


def wav(seconds=0.5, rate=8000, kind="WAV", subtype="PCM_16", value=0.1):
    content = io.BytesIO()
    soundfile.write(content, np.full(int(seconds * rate), value), rate, subtype, format=kind)
    return content.getvalue()


def test_libretranslate(client):
    for body in ({"json": {"q": "a b", "source": "en", "target": "de"}},
                 {"data": {"q": "a b", "source": "en", "target": "de"}}):
        assert client.post("/translate", **body).json() == {"translatedText": "A B"}
    for body in ("q=αä &source=en&target=de", "q=%CE%B1%C3%A4+&source=en&target=de"):  # as curl sends it, and quoted
        answer = client.post("/translate", content=body.encode(), headers={
            "Content-Type": "application/x-www-form-urlencoded"})
        assert answer.json() == {"translatedText": "ΑÄ "}
    asked = {"q": ["a", "b"], "source": "auto", "target": "de", "alternatives": 1}
    assert client.post("/translate", json=asked).json() == {
        "translatedText": ["A", "B"], "alternatives": [["A"], ["B"]],
        "detectedLanguage": [{"confidence": 0, "language": "en"}] * 2}
    assert client.get("/languages").json() == [{"code": "en", "name": "en", "targets": ["de"]},
                                               {"code": "de", "name": "de", "targets": []}]


def test_recordings_of_streamed_answers_are_bounded(monkeypatch):
    read, go_on = [], threading.Event()

    def recording_of(content, limits):
        read.append(content)
        return np.zeros(800, np.float32), 8000

    def slowly(recording):
        assert go_on.wait(60)
        return recognized(recording)

    monkeypatch.setattr(app_module, "_UPLOADS", 1)
    monkeypatch.setattr(openai_api, "recording_of", recording_of)
    limits = Limits(**{**vars(LIMITS), "seconds": 60.0})
    models = Models([Served("asr", Repeating("transcribe", slowly, False), {}, limits)])
    with TestClient(make_app(models, limits, log=False)) as client, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(client.post, "/v1/audio/transcriptions", files={"file": ("x.wav", b"x")},
                               data={"model": "asr", "stream": "true"}) for _ in range(3)]
        while not read:
            time.sleep(0.01)
        time.sleep(0.5)
        assert len(read) == 1  # the others wait until the recording of the first is no longer needed
        go_on.set()
        assert all('"text": "some words"' in answer.result().text for answer in answers) and len(read) == 3


def test_transcriptions(client):
    def asked(**fields):
        return client.post("/v1/audio/transcriptions", files={"file": ("x.wav", wav())},
                           data={"model": "asr", **fields})

    assert asked().json() == {"text": "some words"}
    assert asked(response_format="text").text == "some words\n"
    assert asked(response_format="srt").text == "1\n00:00:00,100 --> 00:00:00,500\nsome words\n"
    assert asked(response_format="vtt").text.startswith("WEBVTT\n\n00:00:00.100 --> ")
    verbose = asked(response_format="verbose_json", language="en").json()
    assert verbose["words"] == [{"word": "some", "start": 0.1, "end": 0.3}, {"word": "words", "start": 0.4, "end": 0.5}]
    assert (verbose["duration"], verbose["language"], verbose["segments"][0]["text"]) == (0.5, "en", "some words")
    assert "words" not in asked(response_format="verbose_json", **{"timestamp_granularities[]": "segment"}).json()


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "opus"])
def test_speech_in_formats_that_can_be_read(client, kind):
    asked = {"model": "voice", "input": "a", "voice": "x", "response_format": kind}
    samples, rate = soundfile.read(io.BytesIO(client.post("/v1/audio/speech", json=asked).content))
    assert rate >= 8000 and len(samples) >= 800 * rate / 8000


def test_pcm_and_piper(client):
    answer = client.post("/v1/audio/speech", json={"model": "voice", "input": "a", "response_format": "pcm"})
    assert len(answer.content) == 2 * 3 * 800  # 24,000 Hz
    answer = client.post("/synthesize", json={"text": "a", "length_scale": 0.5})
    assert soundfile.read(io.BytesIO(answer.content))[1] == 8000
    assert client.get("/voices").json()["voice"]["audio"] == {"sample_rate": 8000}


def test_speakers_by_name(client):
    def answer(path, **asked):
        return client.post(path, json={"response_format": "wav", **asked})

    def size(answer):
        return len(soundfile.read(io.BytesIO(answer.content))[0])

    openai, piper = {"model": "two", "input": "a"}, {"voice": "two", "text": "a"}
    for asked, expected in (({}, 800), ({"voice": "low"}, 800), ({"voice": "high", "speed": 2.0}, 1600)):
        assert size(answer("/v1/audio/speech", **openai, **asked)) == expected
    for asked, expected in (({}, 800), ({"speaker": "high"}, 1600), ({"speaker_id": 1}, 1600),
                            ({"speaker_id": 0}, 800),
                            ({"speaker_id": 1, "speaker": "low"}, 800)):
        assert size(answer("/synthesize", **piper, **asked)) == expected
    longest = {"input": "a" * LIMITS.spoken_characters, "voice": "high", "speed": 1.5}
    assert size(answer("/v1/audio/speech", model="two", **longest)) == 1600
    wrong = answer("/v1/audio/speech", **openai, voice="alloy")
    assert wrong.status_code == 400 and wrong.json()["error"] == {
        "message": "There is no speaker 'alloy': the model has low, high.", "type": "invalid_request_error",
        "param": "voice", "code": None}
    assert answer("/synthesize", **piper, speaker="x").json() == {
        "error": "There is no speaker 'x': the model has low, high."}
    assert "from 0 to 1" in answer("/synthesize", **piper, speaker_id=2).json()["error"]
    assert size(answer("/synthesize", voice="voice", text="a", speaker="x", speaker_id=7)) == 800
    described = client.get("/voices").json()
    assert described["two"]["num_speakers"] == 2 and described["two"]["speaker_id_map"] == {"low": 0, "high": 1}
    assert described["voice"]["num_speakers"] == 1 and not described["voice"]["speaker_id_map"]
    assert client.get("/v1/models/two").json()["speakers"] == ["low", "high"]


def test_completions(client):
    asked = {"model": "lm", "prompt": ["a b", "c"], "max_tokens": 5, "temperature": 0}
    answer = client.post("/v1/completions", json=asked).json()
    assert [one["text"] for one in answer["choices"]] == [" w2 w3 w4 w5 w6", " w1 w2 w3 w4 w5"]
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 10, "total_tokens": 13}
    stopped = client.post("/v1/completions", json={**asked, "stop": ["w4"], "echo": True, "n": 2}).json()["choices"]
    assert [(one["index"], one["text"], one["finish_reason"]) for one in stopped][:2] == [
        (0, "w0 w1 w2 w3 ", "stop"), (1, "w0 w1 w2 w3 ", "stop")]
    lines = client.post("/v1/completions", json={**asked, "stream": True}).text.split("\n\n")
    assert json.loads(lines[0][6:])["choices"][0]["text"] == " w2 w3 w4 w5 w6" and lines[2:] == ["data: [DONE]", ""]


def test_null_stands_for_a_field_that_is_left_out(client):
    asked = {"model": "lm", "prompt": "a", "temperature": 0}
    nulls = dict.fromkeys(("max_tokens", "top_p", "n", "seed", "stop", "stream", "echo", "logprobs"))
    answers = [client.post("/v1/completions", json=body).json() for body in (asked, asked | nulls)]
    assert answers[0]["choices"] == answers[1]["choices"] and answers[0]["usage"]["completion_tokens"] == 16


def test_completions_with_any_settings_need_three_compilations():
    lm = Repeating("generate", completed, False)
    served = Served("lm", lm, {}, LIMITS)
    served.warm()
    built = [*lm.variants]
    client = TestClient(make_app(Models([served]), LIMITS, log=False))
    for count in (1, 7, 100):
        for settings in ({"temperature": 0}, {"temperature": 0.01}, {"temperature": 1.37}, {},
                         {"temperature": 0.5, "top_p": 0.123}, {"top_p": 0.99}):
            body = {"model": "lm", "prompt": "a", "max_tokens": count, **settings}
            answer = client.post("/v1/completions", json=body)
            assert answer.json()["usage"]["completion_tokens"] == count
    assert lm.variants == built and len(built) == 4  # one is that of /v1/infer


def test_own_form_for_every_task(client):
    def asked(model, **more):
        return client.post("/v1/infer", json={"model": model, "inputs": ["a"], **more}).json()["results"][0]

    assert asked("en-de", n_best=2)["hypotheses"] == [{"text": "A", "score": -1.0}, {"text": "A", "score": -2.0}]
    assert asked("labels") == {"classes": [{"label": "cat", "score": 0.75}]}
    assert asked("voice")["sampling_rate"] == 8000
    answer = client.post("/v1/infer", data={"model": "asr"}, files={"file": ("x.wav", wav())}).json()
    assert answer["results"][0]["words"][0]["word"] == "some" and "hypotheses" not in answer["results"][0]
    answer = client.post("/v1/infer", data={"model": "asr", "n_best": 2}, files={"file": ("x.wav", wav())}).json()
    assert answer["results"][0]["hypotheses"] == [{"text": "some words", "score": -1.0},
                                                  {"text": "sum words", "score": -2.5}]


def test_metrics_health_and_pages(client):
    assert client.get("/health").json() == client.get("/ready").json() == {"status": "ok"}
    assert 'open_seq2seq_requests_total{path="/health",status="200"}' in client.get("/metrics").text
    for method, path, status in (("GET", "/v1/infer", 405), ("HEAD", "/health", 405), ("POST", "/app.js", 405),
                                 ("GET", "/v1/none", 404)):
        assert client.request(method, path).status_code == status, path
    assert client.get("/translate").headers["allow"] == "POST"
    page = client.get("/")
    assert page.status_code == 200 and "script-src" not in page.text and "frame-ancestors" in page.headers[
        "content-security-policy"]
    assert client.get("/openapi.json").json()["paths"].keys() >= {"/v1/infer", "/translate", "/synthesize"}


BAD = {
    "no JSON": ("/v1/infer", {"content": b"{"}, 400, "is no JSON"),
    "no JSON for LibreTranslate": ("/translate", {"content": b"{", "headers": {"content-type": "application/json"}},
                                   400, "is no JSON"),
    "invalid UTF-8": ("/v1/infer", {"content": b'{"model": "en-de", "inputs": ["\xff"]}'}, 400, "is no JSON"),
    "a form that is not UTF-8": ("/translate", {"content": b"q=\xff&target=de", "headers": {
        "content-type": "application/x-www-form-urlencoded"}}, 400, "no form in UTF-8"),
    "a form that is none": ("/v1/audio/transcriptions", {"content": b"x", "headers": {
        "content-type": "multipart/form-data; boundary=b"}}, 400, "cannot be read (|has no file"),
    "invalid UTF-8 for OpenAI": ("/v1/completions", {"content": b'{"model": "lm", "prompt": "\xff"}', "headers": {
        "content-type": "application/json"}}, 400, "check its form and its encoding"),
    "a long speech": ("/v1/audio/speech", {"json": {"model": "voice", "input": "a" * 101}}, 413, "at most 100 are"),
    "a long speech for Piper": ("/synthesize", {"json": {"text": "a" * 101}}, 413, "101 characters"),
    "half a surrogate pair": ("/v1/infer", {"content": b'{"model": "en-de", "inputs": ["\\ud800"]}'}, 400,
                              "Unicode|JSON"),
    "a list": ("/translate", {"json": [1]}, 400, "must be an object"),
    "no inputs": ("/v1/infer", {"json": {"model": "en-de", "inputs": []}}, 400, "field 'inputs' is wrong"),
    "inputs of numbers": ("/v1/infer", {"json": {"model": "en-de", "inputs": [3]}}, 400, "field 'inputs.0' is wrong"),
    "a mistake of the model": ("/v1/infer", {"json": {"model": "en-de", "inputs": ["wrong"]}}, 400, "wrong is wrong"),
    "unknown model": ("/v1/infer", {"json": {"model": MARKUP, "inputs": ["a"]}}, 404, "There is no model"),
    "model of another task": ("/v1/audio/speech", {"json": {"model": "lm", "input": "a"}}, 404, "does not do this"),
    "unknown languages": ("/translate", {"json": {"q": "a", "source": "fr", "target": "de"}}, 400,
                          "not translate from"),
    "10,000 tokens": ("/translate", {"json": {"q": "a " * 10_000, "source": "en", "target": "de"}}, 413, "characters"),
    "many inputs": ("/v1/infer", {"json": {"model": "en-de", "inputs": ["a"] * 5}}, 413, "5 inputs, but at most 4"),
    "large body": ("/v1/infer", {"content": b"x" * 300_000}, 413, "larger than 0.2 MB"),
    "a recording in JSON": ("/v1/infer", {"json": {"model": "asr", "inputs": ["/etc/passwd"]}}, 400,
                            "reads a recording"),
    "no file": ("/v1/audio/transcriptions", {"data": {"model": "asr"}}, 400, "has no file"),
    "text as sound": ("/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {"file": b"no sound"}}, 400,
                      "no recording that can be read"),
    "a path as the name of the file": ("/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {
        "file": ("../../etc/passwd", b"")}}, 400, "no recording that can be read"),
    "sound without samples": ("/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {"file": wav(0.0)}}, 400,
                              "has no samples"),
    "samples that are not finite": ("/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {
        "file": wav(subtype="FLOAT", value=np.nan)}}, 400, "not finite"),
    "silence that unpacks to a minute": ("/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {
        "file": wav(60.0, kind="FLAC", value=0.0)}}, 413, "longer than 2 seconds"),
    "a rate above that of sound": ("/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {
        "file": wav(1.0, 192_000, kind="FLAC", value=0.0)}}, 413, "longer than 0.5 seconds"),
    "unknown format": ("/v1/audio/transcriptions", {"data": {"model": "asr", "response_format": "doc"}, "files": {
        "file": wav()}}, 400, "use json, text, srt"),
    "a number of transcripts": ("/v1/infer", {"data": {"model": "asr", "n_best": "0"}, "files": {"file": wav()}}, 400,
                                "'n_best' must be"),
    "no picture": ("/v1/infer", {"data": {"model": "images"}, "files": {"file": b"GIF89a"}}, 400, "JPEG or PNG"),
    "a damaged picture": ("/v1/infer", {"data": {"model": "images"}, "files": {
        "file": b"\x89PNG\r\n\x1a\n" + b"\0" * 20}}, 400, "damaged"),
    "a huge picture": ("/v1/infer", {"data": {"model": "images"}, "files": {
        "file": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff"}}, 413, "pixels"),
    "speed": ("/v1/audio/speech", {"json": {"model": "voice", "input": "a", "speed": 9}}, 400,
              "field 'speed' is wrong"),
    "length scale": ("/synthesize", {"json": {"text": "a", "length_scale": True}}, 400, "'length_scale' must be"),
    "a number that no float holds": ("/synthesize", {"json": {"text": "a", "length_scale": 10**400}}, 400,
                                     "'length_scale' must be"),
    "a null in the place of a prompt": ("/v1/completions", {"json": {"model": "lm", "prompt": None}}, 400,
                                       "field 'prompt' is wrong"),
    "alternatives": ("/translate", {"json": {"q": "a", "source": "en", "target": "de", "alternatives": -1}}, 400,
                     "'alternatives' must be"),
    "log probabilities": ("/v1/completions", {"json": {"model": "lm", "prompt": "a", "logprobs": 2}}, 400, "logprobs"),
    "a path outside": ("/../../setup.py", {}, 405, ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_one_sentence(client, name):
    path, request, status, message = BAD[name]
    answer = client.post(path, **request)
    assert answer.status_code == status
    error = answer.json()["error"]
    text = error["message"] if path.startswith("/v1/") else error
    assert set(message.split("|")) & {one for one in message.split("|") if one in text} or not message
    assert "\n" not in text and "/tmp" not in text and "Traceback" not in text
    assert client.get("/health").json() == {"status": "ok"}


def test_files_of_the_host_are_not_read(client):
    for path in ("/../command.py", "/%2e%2e/command.py", "/..%2fcommand.py", "//etc/passwd", "/static/../../app.py"):
        answer = client.get(path)
        assert answer.status_code == 404 and "import" not in answer.text


def test_keys():
    client = client_of("secret")
    asked = {"model": "en-de", "inputs": ["a"]}
    assert client.post("/v1/infer", json=asked).status_code == 401
    assert client.post("/v1/infer", json=asked, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.post("/v1/infer", json=asked, headers={"Authorization": "Bearer secret"}).status_code == 200
    translation = {"q": "a", "source": "en", "target": "de"}
    assert client.post("/translate", json=translation).status_code == 403
    assert client.post("/translate", json={**translation, "api_key": "secret"}).status_code == 200
    public = {"/health", "/ready", "/metrics", "/openapi.json", "/translate"}  # the last has its key in the body
    guarded = {path: methods for path, methods in client.get("/openapi.json").json()["paths"].items()
               if path not in public}
    assert {"/v1/models", "/languages", "/synthesize", "/voices", "/info"} <= {*guarded}
    for path, methods in guarded.items():
        for method in methods:
            assert client.request(method, path).status_code == 401, path
    for path in ("/health", "/", *(f"/{file.name}" for file in STATIC.iterdir())):
        assert client.get(path).status_code == 200, path
    with client.websocket_connect("/v1/stream") as socket:
        socket.send_json({"model": "asr", "api_key": "wrong"})
        assert "key is missing or wrong" in socket.receive_json()["error"]


def test_a_body_that_does_not_arrive_and_a_client_that_goes_away():
    models = Models([Served("en-de", MODELS["en-de"], {}, LIMITS)])
    app = make_app(models, Limits(seconds=0.1), log=False)

    def answered(receive):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/infer", "headers": [], "query_string": b"",
                 "raw_path": b"/v1/infer", "root_path": "", "http_version": "1.1", "scheme": "http"}
        asyncio.run(app(scope, receive, send))
        return sent

    async def slow():
        await asyncio.sleep(5)

    async def gone():
        return {"type": "http.disconnect"}

    assert answered(slow)[0]["status"] == 408
    assert answered(gone) == []


def test_a_client_that_leaves_before_its_error_is_no_failure_of_the_server():
    app = make_app(Models([Served("en-de", MODELS["en-de"], {}, LIMITS)]), LIMITS, log=False)
    received = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "no JSON"}])

    async def receive():
        return next(received)

    async def send(message):
        if message["type"] != "websocket.accept":
            raise OSError  # as uvicorn does

    scope = {"type": "websocket", "path": "/v1/stream", "raw_path": b"/v1/stream", "headers": [], "query_string": b"",
             "root_path": "", "scheme": "ws", "subprotocols": []}
    asyncio.run(app(scope, receive, send))
    assert next(received, None) is None


def test_too_many_requests_at_a_time():
    client = client_of(requests=1)
    client.app._count = 1
    answer = client.get("/languages")
    assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
    assert [client.get(path).status_code for path in ("/health", "/ready", "/metrics")] == [200] * 3


def test_pages_of_the_web_cannot_use_a_server_without_a_key():
    models = Models([Served("en-de", MODELS["en-de"], {}, LIMITS)])
    app = make_app(models, LIMITS, log=False, hosts=("127.0.0.1", "localhost"))
    for base, status in (("http://127.0.0.1:8000", 200), ("http://localhost", 200), ("http://evil.example:8000", 403)):
        assert TestClient(app, base_url=base).get("/v1/models").status_code == status
    client = TestClient(app, base_url="http://localhost:8000")
    for origin in ("http://evil.example", "null"):  # null: a page in a sandbox
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(
                "/v1/stream", headers={"Host": "localhost:8000", "Origin": origin}):
            pass
    with client.websocket_connect("/v1/stream", headers={"Host": "localhost:8000",
                                                         "Origin": "http://localhost:8000"}) as socket:
        socket.send_json({"model": ["a"]})
        assert "There is no model" in socket.receive_json()["error"]


def test_paths_of_the_host_are_never_inputs():
    with pytest.raises(UserError, match="cannot be served"):
        Served("wavenet", Repeating("synthesize", spoken, False), {}, LIMITS)
    with pytest.raises(Refused, match="reads a recording, not a text"):
        asyncio.run(Served("asr", MODELS["asr"], {}, LIMITS).infer(["/etc/passwd"]))


def test_limits_are_positive_numbers():
    for name, value in (("seconds", 0), ("requests", -1), ("megabytes", float("nan"))):
        with pytest.raises(UserError, match=f"The limit {name} is"):
            Limits(**{name: value})


def test_an_answer_that_takes_too_long():
    slow = Repeating("translate", lambda text: time.sleep(1.0) or translated(text))
    app = make_app(Models([Served("en-de", slow, {}, Limits(seconds=0.2))]), LIMITS, log=False)
    answer = TestClient(app).post("/translate", json={"q": "a", "source": "en", "target": "de"})
    assert answer.status_code == 408 and "took longer" in answer.json()["error"]


def test_names_of_models():
    assert parse_names(["en-de=x/y", "/a/my_run", "b.zip", "toy:reversal"]) == {
        "en-de": "x/y", "my_run": "/a/my_run", "b": "b.zip", "reversal": "toy:reversal"}
    for words, message in ((["a=x", "a=y"], "Two models"), (["a b=x"], "cannot be the name"), (["=x"], "cannot be")):
        with pytest.raises(UserError, match=message):
            parse_names(words)


def test_a_folder_may_have_an_equals_sign_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("my_sweep/learning_rate=0.1", "my run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a=b.zip").write_bytes(b"")
    assert parse_names(["my_sweep/learning_rate=0.1", "best=my_sweep/learning_rate=0.1", "my run", "a=b.zip"]) == {
        "learning_rate-0.1": "my_sweep/learning_rate=0.1", "best": "my_sweep/learning_rate=0.1", "my-run": "my run",
        "a-b": "a=b.zip"}
    with pytest.raises(UserError, match="no folder or file 'my_sweep/learning_rate=0.2'"):
        parse_names(["my_sweep/learning_rate=0.2"])


def test_values_of_the_command_are_for_all_models_or_for_one():
    overrides = parse_overrides(["--dtype=float32", "--asr/decoder_params/beam_width=4", "--en-de/beam_size=2",
                                 "--decoder_params/alpha=1", "--infer_params/asr/x=1", "--asr=3"])
    paths = {name: [one.name for one in values_of(overrides, name, ["en-de", "asr"])] for name in ("en-de", "asr")}
    common = ["--dtype", "--decoder_params/alpha", "--infer_params/asr/x", "--asr"]
    assert paths == {"en-de": [*common, "--beam_size"], "asr": [*common, "--decoder_params/beam_width"]}


def test_a_port_that_is_taken_is_a_sentence_before_models_are_loaded(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1, port {port} .*: choose another --port, or 0"):
            serve({"a": tmp_path / "none"}, port=port)
        assert main(["serve", "a=b", f"--port={port}"]) == 2
        taken.close()
        serve({"en-de": MODELS["en-de"]}, port=port).stop()


def test_what_the_pages_say_of_a_model_names_no_folder_of_this_machine(tmp_path, monkeypatch):
    files = {"training": "/home/somebody/toy/train.csv", "evaluation": "toy/dev.csv"}
    monkeypatch.setattr(content, "read_content", lambda path: types.SimpleNamespace(
        facts=lambda: {"Task": "recognition", "Data": str(files), "Precision": "mixed"}, data_files=lambda: files))
    trained = types.SimpleNamespace(model=types.SimpleNamespace(precision=types.SimpleNamespace(label="float32")))
    about = about_logdir(tmp_path, trained)
    assert about.pop("Date") and about == {
        "Task": "recognition", "Data": "training: train.csv, evaluation: dev.csv", "Precision": "float32"}


def test_mistakes_of_the_command(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENSEQ2SEQ_API_KEY", raising=False)
    with pytest.raises(UserError, match="without a key"):
        serve({"a": "x"}, host="0.0.0.0")
    with pytest.raises(UserError, match="no limit 'speed'"):
        serve({"a": "x"}, speed=3)
    (tmp_path / "empty").write_text("\n")
    for name in ("empty", "none"):
        with pytest.raises(UserError, match="file of the key"):
            parse_key(str(tmp_path / name))
    for key in ("abc", "abc\n"):  # as of a file that became a secret
        monkeypatch.setenv("OPENSEQ2SEQ_API_KEY", key)
        assert parse_key(None) == "abc"
