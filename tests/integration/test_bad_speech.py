"""Recordings, transcripts and settings that cannot be used: whole commands end with one sentence and exit code 2."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def bad_recording(kind: str) -> tuple[bytes | None, str, str]:
    """(the file, its transcript, what is said)."""
    voice = np.sin(np.arange(6000) * 0.3).astype(np.float32) / 3
    broken = voice.copy()
    broken[100] = np.nan
    return {
        "missing": (None, "ad", "does not exist"),
        "zero length": (b"", "ad", "is an empty file"),
        "truncated": (wav(voice)[:6000], "ad", "is truncated"),
        "text": (b"This is no audio.\n" * 40, "ad", "cannot be read as audio"),
        "another rate": (wav(voice, 11025), "ad", "has a rate of 11025 Hz instead of 8000"),
        "stereo": (wav(np.stack([voice, voice], 1)), "ad", "has 2 channels instead of one"),
        "NaN": (wav(broken, subtype="FLOAT"), "ad", "has 1 NaN or infinite sample"),
        "silent": (wav(voice * 0), "ad", "is silent"),
        "characters": (wav(voice), "adç", "outside the alphabet: 'ç'"),
        "long label": (wav(voice[:1600]), "ad" * 10, "needs 20 CTC steps, but only"),
        "empty transcript": (wav(voice), "", "has an empty transcript"),
    }[kind]


KINDS = ["missing", "zero length", "truncated", "text", "another rate", "stereo", "NaN", "silent", "characters",
         "long label", "empty transcript"]
SHOWN_BY_DECODING = {"NaN", "silent"}
OF_TRANSCRIPTS = {"characters", "long label", "empty transcript"}


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


def put(root: Path, audio: bytes | None, text: str, recording: str = "bad") -> None:
    """Adds ``wav/bad.wav``, or another recording, to both lists, as their last row."""
    path = root / f"wav/{recording}.wav"
    path.unlink(missing_ok=True)
    if audio is not None:
        path.write_bytes(audio)
    for name in ("train", "dev"):
        with open(root / f"{name}.csv", "a", encoding="utf-8") as file:
            file.write(f"wav/{recording}.wav,1,{text}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_row_is_named_with_its_place(trained, run, kind):
    audio, text, said = bad_recording(kind)
    put(trained, audio, text)
    more = [AS_IS] if kind in ("another rate", "stereo") else []
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


def changed(root: Path, kind: str) -> None:
    """Spoils both lists."""
    for name in ("train", "dev"):
        path = root / f"{name}.csv"
        lines = path.read_text().splitlines()
        rows = {"no header": lines[1:], "duplicate": [*lines, lines[2]], "columns": [*lines, "wav/x.wav"],
                "quote": [*lines, '"wav/x.wav,1,' + "a" * 200000], "header alone": lines[:1]}[kind]
        path.write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("kind, said", [
    ("no header", ":1: the header"), ("duplicate", "is already in line 3 of the list"),
    ("columns", "the row has 1 columns, but the header has 3"), ("quote", "an unclosed double quote"),
    ("header alone", "lists no recordings")])
def test_a_bad_list_is_named_with_its_line(trained, run, kind, said):
    changed(trained, kind)
    for command in ("train", "check", "eval", "infer"):
        code, words = run(command)
        if command == "infer" and kind == "duplicate":
            assert code == 0
        else:
            assert code == 2 and said in words and ".csv" in words, (command, words)
    if kind != "duplicate":  # which test_bad_rows_are_left_out_when_asked_for_and_named has
        assert run("check", "--data_layer_params/on_bad_example=skip")[0] == 2


def spoiled(root: Path, kind: str) -> str:
    """Writes a language model that is none; returns its path."""
    whole = ("\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1 <unk>\n-1 <s> -0.3\n-1 </s>\n-1 ad -0.3\n\n"
             "\\2-grams:\n-0.1 <s> ad\n\n\\end\\\n")
    packed = gzip.compress(whole.encode())
    content: Any = {"line": whole[:60], "section": whole[:whole.index("\\2-grams")], "end": whole[:-7], "empty": "",
                    "count": whole.replace("1=4", "1=5"), "gz": packed[:len(packed) // 2],
                    "bits": packed[:12] + bytes(10) + packed[22:]}[kind]
    path = root / f"{kind}.arpa{'.gz' if kind in ('gz', 'bits') else ''}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize("kind", ["line", "section", "end", "empty", "count", "gz", "bits"])
def test_a_language_model_cut_short(trained, run, tmp_path, kind):
    path = spoiled(tmp_path, kind)
    code, words = run("eval", "--decoder_params/use_language_model=True", f"--decoder_params/lm_path={path}")
    assert code == 2 and words.startswith("Error") and path in words, words


@pytest.mark.parametrize("arguments, said", [
    (["--data_layer_params/backend=librossa"], "'librossa' but has to be one of 'psf', 'librosa', 'tf'"),
    *((["--data_layer_params/input_type=spectrogram", "--data_layer_params/num_audio_features=5000",
        f"--data_layer_params/backend={backend}"], "num_audio_features") for backend in ("psf", "librosa", "tf")),
    (["--data_layer_params/vocab_file={root}/twice.txt"], "twice.txt:19: 'a' is already in the alphabet"),
    (["--data_layer_params/vocab_file={root}/nowhere.txt"], "nowhere.txt does not exist"),
    (["--decoder_params/use_language_model=True", "--decoder_params/lm_path={root}/nowhere.arpa"], "nowhere.arpa"),
])
def test_settings_that_do_not_fit(trained, run, arguments, said):
    (trained / "twice.txt").write_text((trained / "vocab.txt").read_text() + "a\n")
    for command in ("eval", "infer"):
        code, words = run(command, *(argument.format(root=trained) for argument in arguments))
        assert code == 2 and said in words, words


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
