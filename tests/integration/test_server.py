"""The command serve with trained models: what official clients get is what inference computes."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import soundfile

openai = pytest.importorskip("openai")
libretranslatepy = pytest.importorskip("libretranslatepy")
pytest.importorskip("fastapi")

import srt  # noqa: E402
import webvtt  # noqa: E402

import open_seq2seq  # noqa: E402
from open_seq2seq.cli import main  # noqa: E402
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech  # noqa: E402
from open_seq2seq.utils.shipped import TOY_MODELS  # noqa: E402
from tests.integration.toy_models import ENVIRONMENT, ROOT, train_toy  # noqa: E402

pytestmark = pytest.mark.long

# Name → toy model of the package.
MODELS = {"en-de": "reversal", "asr": "speech", "voice": "voice", "lm": "text"}
SENTENCES = ["α β γ", "δ", "ε ζ η θ ι κ", "β α", "γ γ γ γ", "κ ι θ η ζ ε δ γ β α", "α", "ζ η"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("served")
    for name, toy in MODELS.items():
        shutil.unpack_archive(TOY_MODELS / f"{toy}.zip", root / name)
    return root


def started(folder: Path, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """Starts the command; returns its process and its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(ROOT / "run.py"), "serve", *words, f"--port={port}", "--quiet"],
                               cwd=folder, env=ENVIRONMENT)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        assert process.poll() is None
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return process, url
        except OSError:
            time.sleep(0.2)
    raise AssertionError("The server did not start.")


@pytest.fixture(scope="module")
def url(folder) -> Iterator[str]:
    process, url = started(folder, *(f"{name}={name}" for name in MODELS))
    yield url
    process.send_signal(signal.SIGTERM)
    assert process.wait(200) in (0, -signal.SIGTERM)


@pytest.fixture(scope="module")
def client(url) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def recordings(folder) -> list[Path]:
    write_toy_speech(str(folder / "toy_speech_data"), {"dev": 4}, rate=8000)
    return sorted((folder / "toy_speech_data" / "wav").glob("dev-*"))


@pytest.fixture(scope="module")
def answers(url, recordings) -> dict[str, Any]:
    return every_answer(url, recordings[0])


def test_openai_transcribes(client, folder, recordings):
    assert [one.id for one in client.models.list()] == [*MODELS] and client.models.retrieve("asr").id == "asr"
    model = open_seq2seq.load(folder / "asr")
    for path, expected in zip(recordings, model.infer([str(path) for path in recordings]), strict=True):
        def asked(path=path, **more):
            with open(path, "rb") as file:
                return client.audio.transcriptions.create(model="asr", file=file, **more)

        assert asked().text == expected.text == asked(response_format="text").strip()
        verbose = asked(response_format="verbose_json", timestamp_granularities=["word", "segment"])
        frame = model.model.step_seconds
        assert [word.word for word in verbose.words or []] == [word.text for word in expected.words]
        for word, other in zip(verbose.words or [], expected.words, strict=True):
            assert abs(word.start - other.start) <= frame and abs(word.end - other.end) <= frame
        subtitles = [*srt.parse(asked(response_format="srt"))]
        captions = webvtt.from_string(asked(response_format="vtt")).captions
        assert " ".join(one.content for one in subtitles) == " ".join(one.text for one in captions) == expected.text
        events = [*asked(stream=True)]
        assert events[-1].type == "transcript.text.done"
        deltas = "".join(event.delta for event in events[:-1])
        assert deltas and events[-1].text.startswith(deltas)


def test_openai_speaks(client, folder):
    samples, rate = open_seq2seq.load(folder / "voice").synthesize("ae iou")
    answer = client.audio.speech.create(model="voice", voice="any", input="ae iou", response_format="flac")
    heard, heard_rate = soundfile.read(io.BytesIO(answer.content))
    assert heard_rate == rate and abs(heard - samples).max() < 1e-3
    slower = client.audio.speech.create(model="voice", voice="any", input="ae iou", response_format="wav", speed=0.5)
    assert len(soundfile.read(io.BytesIO(slower.content))[0]) > 1.5 * len(samples)
    with client.audio.speech.with_streaming_response.create(model="voice", voice="any", input="a",
                                                            response_format="mp3") as stream:
        assert len(b"".join(stream.iter_bytes())) > 500


@pytest.mark.parametrize("kind", ["wav", "pcm", "flac", "mp3", "opus"])
def test_openai_speaks_in_every_format(client, folder, kind):
    samples, rate = open_seq2seq.load(folder / "voice").synthesize("ae iou")
    content = client.audio.speech.create(model="voice", voice="any", input="ae iou", response_format=kind).content
    raw = {"samplerate": 24_000, "channels": 1, "format": "RAW", "subtype": "PCM_16"} if kind == "pcm" else {}
    heard, heard_rate = soundfile.read(io.BytesIO(content), **raw)
    assert len(heard) / heard_rate == pytest.approx(len(samples) / rate, abs=0.15) and abs(heard).max() > 0


def test_openai_completes(client, folder):
    greedy = client.completions.create(model="lm", prompt="bago", max_tokens=8, temperature=0)
    assert greedy.usage.completion_tokens == 8 and greedy.choices[0].text
    again = client.completions.create(model="lm", prompt=["bago", "gode"], max_tokens=8, temperature=0)
    assert again.choices[0].text == greedy.choices[0].text and len(again.choices) == 2
    streamed = client.completions.create(model="lm", prompt="bago", max_tokens=8, temperature=0, stream=True)
    assert "".join(event.choices[0].text for event in streamed) == greedy.choices[0].text
    drawn = [client.completions.create(model="lm", prompt="bago", max_tokens=12, temperature=1.0, seed=seed)
             .choices[0].text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_openai_errors(client):
    with pytest.raises(openai.NotFoundError, match="There is no model 'none'"):
        client.completions.create(model="none", prompt="a")
    with pytest.raises(openai.BadRequestError, match="no recording that can be read"):
        client.audio.transcriptions.create(model="asr", file=("x.wav", b"nothing"))


def test_libretranslate(url, folder):
    client = libretranslatepy.LibreTranslateAPI(f"{url}/")
    model = open_seq2seq.load(folder / "en-de")
    assert [client.translate(text, "en", "de") for text in SENTENCES] == model.translate(SENTENCES)
    assert [one["code"] for one in client.languages()] == ["en", "de"]


def test_values_of_the_command_replace_those_of_configs(folder):
    process, url = started(folder, "en-de=en-de", "asr=asr", "--dtype=float32", "--en-de/decoder_params/beam_size=1")
    models = json.load(urllib.request.urlopen(f"{url}/v1/models"))["data"]
    assert [one["about"]["Precision"] for one in models] == ["float32"] * 2
    body = json.dumps({"model": "en-de", "inputs": SENTENCES, "n_best": 4}).encode()
    results = json.load(urllib.request.urlopen(urllib.request.Request(f"{url}/v1/infer", body)))["results"]
    expected = open_seq2seq.load(folder / "en-de", dtype="float32", beam_size=1).translate(SENTENCES)
    assert [[one["text"] for one in result["hypotheses"]] for result in results] == [[text] for text in expected]
    process.terminate()
    process.wait(200)


def test_answers_in_common_batches_are_those_of_single_calls(url, folder):
    expected = open_seq2seq.load(folder / "en-de").translate(SENTENCES)
    client = libretranslatepy.LibreTranslateAPI(f"{url}/")
    with ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(lambda text: client.translate(text, "en", "de"), SENTENCES * 8)]
    assert answers == expected * 8


def test_a_server_that_was_killed_leaves_everything_and_starts_again(folder):
    before = {path: path.stat().st_mtime_ns for path in (folder / "en-de").rglob("*")}
    for signum in (signal.SIGKILL, signal.SIGTERM):
        process, url = started(folder, "en-de=en-de")
        client = libretranslatepy.LibreTranslateAPI(f"{url}/")
        expected = client.translate("α β γ", "en", "de")
        process.send_signal(signum)
        process.wait(200)
        assert expected
    assert {path: path.stat().st_mtime_ns for path in (folder / "en-de").rglob("*")} == before


def every_answer(url: str, recording: Path) -> dict[str, Any]:
    """Asks every model for everything, also for what needs other compiled functions than the first answer."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def transcript(**more: Any) -> Any:
        with open(recording, "rb") as file:
            return client.audio.transcriptions.create(model="asr", file=file, **more)

    body = json.dumps({"model": "en-de", "inputs": ["α β γ"], "n_best": 2, "alignment": True}).encode()
    answers = {"all": json.load(urllib.request.urlopen(urllib.request.Request(f"{url}/v1/infer", body), timeout=300)),
               "best": libretranslatepy.LibreTranslateAPI(f"{url}/").translate("α β γ", "en", "de"),
               "text": transcript().text, "stream": [event.model_dump() for event in transcript(stream=True)],
               "sound": [client.audio.speech.create(model="voice", voice="any", input="ae", response_format="pcm",
                                                    speed=speed).content for speed in (1.0, 0.5)]}
    for settings in ({"temperature": 0}, {"temperature": 0.7}, {"temperature": 1.5, "top_p": 0.8}):
        completion = client.completions.create(model="lm", prompt="bago", max_tokens=9, **settings)
        answers[str(settings)] = completion.choices[0].text
    return answers


@pytest.mark.parametrize("what", ["disappears", "is replaced by another", "is damaged"])
def test_models_whose_folder_changes_go_on(folder, recordings, answers, tmp_path, what):
    """Nothing is asked before, so that everything that the folders are needed for would be missed."""
    names = {"all": tmp_path / "all", "other": tmp_path / "other"}
    shutil.copytree(folder, names["all"])
    server = open_seq2seq.serve({name: names["all"] / name for name in MODELS})
    if what == "is damaged":
        for path in filter(Path.is_file, names["all"].rglob("*")):
            path.write_bytes(b"x" * 100)
    else:
        names["all"].rename(names["other"])
    if what == "is replaced by another":
        for name in MODELS:
            shutil.copytree(folder / ("en-de" if name != "en-de" else "asr"), names["all"] / name)
    for _ in range(2):
        assert every_answer(server.url, recordings[0]) == answers
    server.stop()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{server.url}/health", timeout=5)


def test_the_next_start_serves_a_model_that_has_replaced_another(folder, tmp_path):
    train_toy(tmp_path, "other", "translate", 5, "--mode=train", "--save_checkpoint_steps=1000")
    expected = {name: open_seq2seq.load(path).translate("α β γ")
                for name, path in (("old", folder / "en-de"), ("new", tmp_path / "other"))}
    shutil.copytree(folder / "en-de", tmp_path / "run")
    for name in ("old", "new"):
        server = open_seq2seq.serve({"en-de": tmp_path / "run"})
        client = libretranslatepy.LibreTranslateAPI(f"{server.url}/")
        assert client.translate("α β γ", "en", "de") == expected[name]
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        (tmp_path / "other").rename(tmp_path / "run") if name == "old" else None
        assert client.translate("α β γ", "en", "de") == expected[name]
        server.stop()
    assert expected["old"] != expected["new"]


def test_connections_that_send_nothing_do_not_keep_others_waiting(url):
    host, port = url.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(200)]
    half = socket.create_connection((host, int(port)))
    half.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    half.shutdown(socket.SHUT_WR)
    assert urllib.request.urlopen(f"{url}/health", timeout=100).read() == b'{"status":"ok"}'
    for one in [*idle, half]:
        one.close()


def test_mistakes_end_with_code_2(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENSEQ2SEQ_API_KEY", "")
    for words, message in ((["none"], "none"), (["en-de=en-de", "--port=99999"], "cannot listen"), ([], "LOGDIR"),
                           (["en-de=en-de", "--host=0.0.0.0"], "without a key"),
                           (["en-de=en-de", "--prot=1"], "Did you mean '--port'"),
                           (["en-de=en-de", "--en-de/decoder_params/beam_siz=1"], "beam_size")):
        assert main(["serve", *words]) == 2
        error = capfd.readouterr().err
        assert message in error and error.count("\n") == 1, error
    assert os.path.isdir(folder / "en-de")
