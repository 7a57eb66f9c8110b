"""Recordings, transcripts and settings that cannot be used: whole commands end with one sentence and exit code 2."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from open_seq2seq.cli import main
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.integration.test_speech_recognition import settings

RATE = 8000
AS_IS = "--data_layer_params/convert_audio=False"
COMMANDS = {"train": ["--mode=train", "--no_dir_check"], "check": ["--mode=train", "--check"], "eval": ["--mode=eval"],
            "infer": ["--mode=infer"], "files": ["--mode=infer"]}


def wav(audio: np.ndarray, rate: int = RATE, subtype: str | None = None) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, audio, rate, format="WAV", subtype=subtype)
    return out.getvalue()


def bad_recording(kind: str) -> tuple[bytes, str, str]:
    """(the file, its transcript, what is said); the data layer's unit tests have all kinds."""
    voice = np.sin(np.arange(6000) * 0.3).astype(np.float32) / 3
    broken = voice.copy()
    broken[100] = np.nan
    return {
        "truncated": (wav(voice)[:6000], "ad", "is truncated"),
        "another rate": (wav(voice, 11025), "ad", "has a rate of 11025 Hz instead of 8000"),
        "NaN": (wav(broken, subtype="FLOAT"), "ad", "has 1 NaN or infinite sample"),
        "silent": (wav(voice * 0), "ad", "is silent"),
        "characters": (wav(voice), "adç", "outside the alphabet: 'ç'"),
        "long label": (wav(voice[:1600]), "ad" * 10, "needs 20 CTC steps, but only"),
    }[kind]


KINDS = ["truncated", "another rate", "NaN", "silent", "characters", "long label"]
SHOWN_BY_DECODING = {"NaN", "silent"}
OF_TRANSCRIPTS = {"characters", "long label"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("speech")
    write_toy_speech(str(root), {"train": 6, "dev": 3}, rate=RATE)
    for name in ("train", "dev"):
        (root / f"good-{name}.csv").write_text((root / f"{name}.csv").read_text())
    assert main([*arguments(root), "--mode=train"]) == 0
    return root


def arguments(root: Path) -> list[str]:
    """Of a recogniser of one layer, whose frames are as long as the recipe's."""
    layer = {"type": "conv1d", "repeat": 1, "kernel_size": [7], "stride": [2], "num_channels": 16, "padding": "SAME",
             "dilation": [1], "dropout_keep_prob": 1.0}
    return [*settings(root), f"--encoder_params/convnet_layers={[layer]}", "--dtype=float32",
            "--num_epochs=None", "--max_steps=1", "--batch_size_per_gpu=4",
            "--eval_params/batch_size_per_gpu=4", "--save_summaries_steps=null"]


@pytest.fixture
def run(trained, tmp_path, capfd) -> Callable[..., tuple[int, str]]:
    """Runs a command on the trained recogniser: (exit code, what it says)."""
    def call(command: str, *more: str) -> tuple[int, str]:
        capfd.readouterr()
        where = [] if command in ("eval", "infer") else [f"--logdir={tmp_path}/run"]
        given = [*arguments(trained), *where]
        if command == "files":
            recordings = [str(trained / "wav/dev-0001.wav"), str(trained / "wav/bad.wav")]
            given = [f"--logdir={trained}/run", "--infer_files", *recordings]
        code = main([*given, *COMMANDS[command], f"--infer_output_file={tmp_path}/out.csv", *more])
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.err if code else captured.out

    yield call
    for name in ("train", "dev"):
        (trained / f"{name}.csv").write_text((trained / f"good-{name}.csv").read_text())


def put(root: Path, audio: bytes, text: str, recording: str = "bad") -> None:
    """Adds ``wav/bad.wav``, or another recording, to both lists, as their last row."""
    (root / f"wav/{recording}.wav").write_bytes(audio)
    for name in ("train", "dev"):
        with open(root / f"{name}.csv", "a", encoding="utf-8") as file:
            file.write(f"wav/{recording}.wav,1,{text}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_row_is_named_with_its_place(trained, run, kind):
    audio, text, said = bad_recording(kind)
    put(trained, audio, text)
    more = [AS_IS] if kind == "another rate" else []
    for command, place in {"train": "train.csv:8: ", "check": "train.csv:8: ", "eval": "dev.csv:5: ",
                           "infer": "dev.csv:5: ", "files": str(trained) + "/"}.items():
        if command in ("infer", "files") and kind in OF_TRANSCRIPTS:  # they are not read
            continue
        code, words = run(command, *more)
        if command in ("infer", "files") and kind == "silent":  # that may be so
            assert code == 0, words
            continue
        assert code == 2 and words.startswith("Error"), (command, words)
        assert f"{place}wav/bad.wav" in words, (command, words)
        assert said in words, (command, words)


@pytest.mark.long
def test_bad_rows_are_left_out_when_asked_for_and_named(trained, run):
    for kind in KINDS:
        audio, text, _ = bad_recording(kind)
        put(trained, audio, text, f"bad-{kind}")
    for name in ("train", "dev"):
        path = trained / f"{name}.csv"
        path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    for command, kinds in (("check", KINDS), ("eval", SHOWN_BY_DECODING)):
        code, words = run(command, AS_IS, "--data_layer_params/on_bad_example=skip")
        assert code == 0, (command, words)
        for kind in kinds:
            said = bad_recording(kind)[2]
            lines = [line for line in words.splitlines() if f"bad-{kind}.wav" in line]
            assert any(said in line for line in lines), (command, kind, words)
        assert "1 duplicate" in words


def test_files_that_are_no_recordings(trained, capfd, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "note.txt").write_text("No recording.\n")
    (tmp_path / "folder/readme.txt").write_text("Nor here.\n")
    for name, said in (("folder", "folder contains no recordings (.wav,"),
                       ("note.txt", "note.txt cannot be read as audio"),
                       ("nowhere.wav", "nowhere.wav, which does not exist")):
        assert main(["--mode=infer", f"--logdir={trained}/run", f"--infer_output_file={tmp_path}/out.csv",
                     "--infer_files", str(tmp_path / name)]) == 2
        err = capfd.readouterr().err
        assert said in err and "Traceback" not in err, err
