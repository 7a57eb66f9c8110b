"""The pages of the server in a browser: what people see, hear and type, and that nothing else is asked or executed."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.integration.toy_models import ENVIRONMENT, ROOT, train_toy

# Name of a model → task and updates; a recogniser must have learnt what it shall recognise.
MODELS = {"translator": ("translate", 60), "listener": ("transcribe", 300), "voice": ("speak", 20),
          "letters": ("classify", 20), "shapes": ("see", 20), "writer": ("generate", 20)}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
         "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
TASKS = ("translate", "transcribe", "synthesize", "classify", "generate")
MARKUP = "<img src=x onerror='window.broken=1'>&amp;"
pytestmark = [pytest.mark.outside, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the trained models, and with the speech that the microphone hears."""
    root = tmp_path_factory.mktemp("pages")
    for name, (task, steps) in MODELS.items():
        train_toy(root, name, task, steps, "--mode=train_eval")
    pieces = [soundfile.read(path)[0] for path in sorted((root / "toy_speech_data/wav").glob("dev-*"))[:5]]
    soundfile.write(root / "spoken.wav", np.concatenate(pieces), 8000, subtype="PCM_16")
    return root


@contextlib.contextmanager
def serving(folder: Path, *words: str, key: str = "") -> Iterator[str]:
    """Starts a server of models; yields its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "run.py"), "serve", *words, f"--port={port}"]
    with subprocess.Popen(command, cwd=folder, env={**ENVIRONMENT, "OPENSEQ2SEQ_API_KEY": key}) as process:
        try:
            for _ in range(600):
                assert process.poll() is None
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def server(folder) -> Iterator[str]:
    with serving(folder, *(f"{name}={name}" for name in MODELS)) as address:
        yield address


@pytest.fixture(scope="module")
def browser(folder) -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Chromium")
    microphone = f"--use-file-for-fake-audio-capture={folder}/spoken.wav%noloop"
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, microphone])


@pytest.fixture
def page(browser, server) -> Iterator[Any]:
    """A page that writes nothing to the console, and asks no other host."""
    problems: list[str] = []
    page = browser.new_page(viewport={"width": 900, "height": 700})
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url)
            if not request.url.startswith((server, "blob:", "data:")) else None)
    yield page
    page.close()
    assert problems == []


def open_task(page: Any, server: str, task: str) -> None:
    page.goto(f"{server}/#{task}")
    page.reload()
    page.wait_for_selector("main .about dl")


def wait_until(page: Any, condition: str) -> None:
    """Waits for a condition; the policy of the pages forbids Playwright's ``wait_for_function``."""
    deadline = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def submit(page: Any, text: str, done: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Control+Enter")
    wait_until(page, done)


def test_the_translation_appears(page, server):
    open_task(page, server, "translate")
    submit(page, "α β γ δ", "document.querySelector('#translation').textContent")
    assert len(page.query_selector_all("#alternatives li")) >= 1
    assert page.text_content("#source-words").split()[:4] == ["α", "β", "γ", "δ"]
    marked = "[...document.querySelectorAll('#source-words .token')].some(one => one.style.background)"
    assert not page.evaluate(marked)
    page.hover("#target-words .token >> nth=0")
    assert page.evaluate(marked)


def test_the_transcript_grows_while_the_microphone_records(page, server, folder):
    open_task(page, server, "transcribe")
    page.press("#record", "Enter")
    seen = [""]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        text = page.text_content("#transcript").strip()
        seen += [text] if text != seen[-1] else []
        time.sleep(0.05)
    assert page.text_content("#record") == "Stop"
    page.press("#record", "Enter")
    wait_until(page, "document.querySelector('#record').textContent === 'Record'")
    with open(folder / "toy_speech_data/dev.csv", encoding="utf-8") as file:
        spoken = " ".join(row["transcript"] for row in list(csv.DictReader(file))[:5])
    final = page.text_content("#transcript")
    lengths = [len(text) for text in seen]
    assert len(seen) > 8 and lengths[len(seen) // 2] < lengths[-1]
    assert len(final.split()) >= 4 and sum(letter in spoken for letter in final) > 0.9 * len(final)
    page.set_input_files("#file", str(folder / "spoken.wav"))
    wait_until(page, "document.querySelector('[role=status]').textContent.endsWith(' s')")
    assert abs(len(page.text_content("#transcript")) - len(spoken)) < 0.3 * len(spoken)


def test_the_sound_plays_with_its_spectrogram(page, server):
    open_task(page, server, "synthesize")
    with page.expect_response("**/v1/audio/speech") as answer:
        submit(page, "ae iou", "document.querySelector('[role=status]').textContent.includes('of speech')")
    assert answer.value.body()[:4] == b"RIFF" and len(answer.value.body()) > 1000
    assert page.evaluate("document.querySelector('#player').duration") > 0.1
    wait_until(page, "document.querySelector('#player').currentTime > 0")
    colours = page.evaluate("""() => {
        const canvas = document.querySelector('#spectrogram');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(data).size; }""")
    assert colours > 20


def test_a_speaker_is_chosen(page, server):
    open_task(page, server, "synthesize")
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None)
    page.select_option("#speaker", "high")
    submit(page, "ae iou", "!document.querySelector('#player').hidden")
    assert asked[-1]["voice"] == "high"


def test_a_server_with_a_key_asks_for_it(browser, folder):
    with serving(folder, "toy:reversal", key="secret") as address:
        page = browser.new_page()
        page.on("dialog", lambda dialog: dialog.accept("secret"))
        open_task(page, address, "translate")
        submit(page, "α β γ", "document.querySelector('#translation').textContent")
        assert page.text_content("#translation").split() == ["γ", "β", "α"]
        page.close()


def test_a_text_and_a_picture_have_classes(page, server, folder):
    open_task(page, server, "classify")
    page.select_option("#model", "letters")
    submit(page, "alpha beta alpha", "document.querySelector('.bar')")
    assert not page.is_visible(".drop img")
    page.select_option("#model", "shapes")
    picture = next((folder / "toy_image_data").glob("*/*/*.png"))
    page.evaluate("""bytes => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([new Uint8Array(bytes)], 'a.png', {type: 'image/png'}));
        document.querySelector('.drop').dispatchEvent(new DragEvent('drop', {dataTransfer, bubbles: true})); }""",
                  list(picture.read_bytes()))
    page.wait_for_selector(".bar", timeout=60_000)
    assert page.is_visible(".drop img")


def test_a_prompt_is_completed(page, server):
    open_task(page, server, "generate")
    submit(page, "lupi", "document.querySelector('#completion').textContent")
    assert page.text_content("#completion").startswith("lupi")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_scrolling_sideways(page, server, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 360, "height": 700})
    for task in TASKS:
        open_task(page, server, task)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, task
    text, ground = page.evaluate("(style => [style.color, style.backgroundColor])(getComputedStyle(document.body))")
    assert (min(map(int, text[4:-1].split(","))) > 128) == (scheme == "dark") and text != ground


def test_the_keyboard_reaches_everything(page, server):
    open_task(page, server, "translate")
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("(document.activeElement.id || document.activeElement.textContent)"))
    assert {"Skip to the page", "Translate", "Transcribe", "Speak", "Classify", "Complete", "text"} <= {*reached}


def _answer(body: str, route: Any) -> None:
    route.fulfill(body=body, content_type="application/json")


def test_markup_in_any_text_is_text(page, server):
    """Every text of every answer is markup here; it must be shown, and not be part of the page."""
    about = {"id": MARKUP, "input": "text", "about": {MARKUP: MARKUP}}
    alignment = {"source": [MARKUP], "target": [MARKUP], "attention": [[1]]}
    answers = {
        "models": {"data": [{**about, "task": task} for task in ("translate", "classify", "generate")]},
        "infer": {"results": [{"hypotheses": [{"text": MARKUP, "score": 0}] * 2, "alignment": alignment,
                               "classes": [{"label": MARKUP, "score": 1}]}]},
        "completions": {"choices": [{"text": MARKUP}], "usage": {"completion_tokens": 1}},
    }
    for name, answer in answers.items():
        page.route(f"**/v1/{name}", functools.partial(_answer, json.dumps(answer)))
    for task, shown in (("translate", "#translation"), ("classify", "#classes"), ("generate", "#completion")):
        open_task(page, server, task)
        submit(page, MARKUP, f"document.querySelector('{shown}').textContent.includes('onerror')")
        assert page.query_selector("main [src=x]") is None and page.evaluate("window.broken") is None
