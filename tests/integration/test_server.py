"""The command serve with trained models: what official clients get is what inference computes."""

from __future__ import annotations

import io
import json
import os
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
from tests.integration.test_pages import ENVIRONMENT, ROOT, python  # noqa: E402

pytestmark = pytest.mark.long

MODELS = {
    "en-de": ("create_toy_data --output_dir=toy_text_data", "text2text/toy-reversal/nmt-reversal-TT.py", 60),
    "asr": ("create_toy_speech --output_dir=toy_speech_data --sample_freq=8000", "speech2text/toy-w2l.py", 120),
    "voice": ("create_toy_voice --output_dir=toy_voice_data", "text2speech/toy-durations.py", 10),
    "lm": ("create_toy_text --output_dir=toy_text_lm", "lm/toy-lm.py", 20),
}
SENTENCES = ["a b c", "d", "e f g h i j", "b a", "c c c c", "j i h g f e d c b a", "a", "f g"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("served")
    for name, (data, recipe, steps) in MODELS.items():
        script, *words = data.split()
        python(root, str(ROOT / "scripts" / f"{script}.py"), *words)
        python(root, str(ROOT / "run.py"), f"--config_file={ROOT}/example_configs/{recipe}", "--mode=train",
               f"--logdir={name}", f"--max_steps={steps}", "--save_checkpoint_steps=1000")
    return root


def started(folder: Path, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """Starts the command; returns its process and its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(ROOT / "run.py"), "serve", *words, f"--port={port}", "--quiet"],
                               cwd=folder, env=ENVIRONMENT)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
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
    assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.fixture(scope="module")
def client(url) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def recordings(folder) -> list[Path]:
    return sorted((folder / "toy_speech_data" / "wav").glob("dev-*"))[:4]


def test_openai_transcribes(client, folder, recordings):
    assert [one.id for one in client.models.list()] == [*MODELS]
    model = open_seq2seq.load(folder / "asr")
    for path, expected in zip(recordings, model.infer([str(path) for path in recordings]), strict=True):
        def asked(path=path, **more):
            with open(path, "rb") as file:
                return client.audio.transcriptions.create(model="asr", file=file, **more)

        assert asked().text == expected.text
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
        expected = client.translate("a b c", "en", "de")
        process.send_signal(signum)
        process.wait(60)
        assert expected
    assert {path: path.stat().st_mtime_ns for path in (folder / "en-de").rglob("*")} == before


def test_a_model_whose_folder_disappears_goes_on(folder, tmp_path):
    import shutil

    shutil.copytree(folder / "en-de", tmp_path / "moved")
    shutil.copytree(folder / "toy_text_data", tmp_path / "toy_text_data")
    server = open_seq2seq.serve({"en-de": tmp_path / "moved"})
    client = libretranslatepy.LibreTranslateAPI(f"{server.url}/")
    before = client.translate("a b c", "en", "de")
    shutil.rmtree(tmp_path / "moved")
    assert client.translate("a b c", "en", "de") == before
    body = json.dumps({"model": "en-de", "inputs": ["a b c"], "n_best": 2, "alignment": True}).encode()
    asked = urllib.request.Request(f"{server.url}/v1/infer", body)
    (result,) = json.load(urllib.request.urlopen(asked, timeout=60))["results"]
    assert len(result["hypotheses"]) == 2 and result["alignment"]["target"]
    server.stop()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{server.url}/health", timeout=5)


def test_connections_that_send_nothing_do_not_keep_others_waiting(url):
    host, port = url.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(200)]
    half = socket.create_connection((host, int(port)))
    half.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    half.shutdown(socket.SHUT_WR)
    assert urllib.request.urlopen(f"{url}/health", timeout=10).read() == b'{"status":"ok"}'
    for one in [*idle, half]:
        one.close()


def test_mistakes_end_with_code_2(folder):
    for words, message in ((["none"], "none"), (["en-de=en-de", "--port=99999"], "cannot listen"), ([], "LOGDIR"),
                           (["en-de=en-de", "--host=0.0.0.0"], "without a key")):
        done = subprocess.run([sys.executable, str(ROOT / "run.py"), "serve", *words], cwd=folder,
                              env={**ENVIRONMENT, "OPENSEQ2SEQ_API_KEY": ""}, capture_output=True, text=True,
                              timeout=300)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert os.path.isdir(folder / "en-de")
