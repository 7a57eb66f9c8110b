"""scripts/stream.py on a recogniser that the command trained: recordings, microphone, mistakes."""

from __future__ import annotations

import signal
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.inference.speech2text.frame_asr import FrameASR
from open_seq2seq.utils.script import run_script
from scripts import stream
from tests.unit.decoding.arpa_text import arpa_text

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]

@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with toy speech, and a run of a few steps."""
    root = tmp_path_factory.mktemp("streaming")
    write_toy_speech(str(root), {"train": 32, "dev": 3}, rate=8000)
    words = sorted({word for row in read_manifests([f"{root}/train.csv"], None, True) for word in row.text.split()})
    (root / "words.arpa").write_text(arpa_text("\n".join(f"-2.0\t{word}" for word in ["<s>", "</s>", "<unk>", *words])))
    assert main([f"--config_file={ROOT}/example_configs/speech2text/toy-w2l.py", "--mode=train",
                 f"--logdir={root}/run", f"--train_params/data_layer_params/dataset_files=['{root}/train.csv']",
                 f"--data_layer_params/vocab_file={root}/vocab.txt", "--dtype=float32", "--num_epochs=None",
                 f"--decoder_params/lm_path={root}/words.arpa",
                 "--max_steps=4", "--lr_policy_params/warmup_steps=0"]) == 0
    for name in ("vocab.txt", "words.arpa"):
        (root / name).unlink()  # the checkpoint has a copy
    return root


def failing(*argv: Any) -> int:
    with pytest.raises(SystemExit) as end:
        run_script(lambda: stream.main([str(argument) for argument in argv]))
    return end.value.code


def test_recordings_give_the_transcripts_of_inference(trained: Path, capfd):
    audio, rate = soundfile.read(trained / "wav" / "dev-0001.wav")
    soundfile.write(trained / "wav" / "stereo.flac", np.stack([audio, audio], 1), 2 * rate)
    names = [str(trained / "wav" / name) for name in ("dev-0000.wav", "dev-0001.wav", "stereo.flac")]
    stream.main(["--logdir", str(trained / "run"), "--step_ms=150", "--compare", "--files", *names])
    out = capfd.readouterr().out
    assert "transcripts compared with those of whole recordings: WER 0.00%, CER 0.00%, 3 of 3 equal" in out
    assert "latency per step: mean" in out and "p95" in out and "real-time factor" in out
    assert "   0.15 s  " in out or "   0.30 s  " in out
    shown = {line.split(": ", 1)[0][4:]: line.split(": ", 1)[1] for line in out.splitlines() if line[4:] and any(
        line.startswith(f"*** {name}: ") for name in names)}
    assert main(["--mode=infer", f"--logdir={trained}/run", f"--infer_output_file={trained}/few.csv",
                 "--infer_files", *names]) == 0
    lines = (trained / "few.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert {line.split(",")[0]: line.split(",")[1] for line in lines} == shown


def test_a_logdir_and_config_values_are_enough(trained: Path):
    asr = FrameASR(open_seq2seq.load(trained / "run", use_language_model=True).model, rate=16000)
    audio = soundfile.read(trained / "wav" / "dev-0002.wav", dtype="float32")[0]
    assert asr.model.beam_search is not None and asr.rate == 16000
    assert Path(asr.model.beam_search.params["lm_path"]).is_relative_to(trained / "run")
    asr.transcribe(np.repeat(audio, 2))
    search = asr.finish()
    plain = FrameASR(open_seq2seq.load(trained / "run").model)
    plain.transcribe(audio)
    assert search.split() and plain.finish().split() and search == " ".join(search.split())


def fake_microphone(monkeypatch, blocks: int) -> list[dict[str, Any]]:
    """Puts a package in the place of sounddevice whose microphone gives some blocks, and then Ctrl-C."""
    opened: list[dict[str, Any]] = []

    class InputStream:
        def __init__(self, **settings: Any) -> None:
            opened.append(settings)

        def __enter__(self) -> InputStream:
            rng, settings = np.random.default_rng(0), opened[-1]
            for _ in range(blocks):
                block = rng.normal(0, 0.1, (settings["blocksize"], 1)).astype(np.float32)
                settings["callback"](block, len(block), None, None)
            return self

        def __exit__(self, *exception: object) -> None:
            pass

    module = types.SimpleNamespace(InputStream=InputStream, PortAudioError=RuntimeError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return opened


def test_the_microphone_is_heard_until_it_is_interrupted(trained: Path, capfd, monkeypatch):
    opened = fake_microphone(monkeypatch, 4)
    heard = []

    def transcribe(self: FrameASR, audio: np.ndarray, plain: Any = FrameASR.transcribe) -> Any:
        heard.append(len(audio))
        if len(heard) == 4:
            signal.raise_signal(signal.SIGINT)
        return plain(self, audio)

    monkeypatch.setattr(FrameASR, "transcribe", transcribe)
    before = signal.getsignal(signal.SIGINT)
    stream.main(["--logdir", str(trained / "run"), "--microphone", "--step_ms=100"])
    assert heard == [800] * 4 and opened[0]["samplerate"] == 8000 and opened[0]["channels"] == 1
    assert "latency per step" in capfd.readouterr().out and signal.getsignal(signal.SIGINT) is before


def test_a_microphone_without_its_package_or_without_a_device_is_one_sentence(trained: Path, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert failing("--logdir", trained / "run", "--microphone") == 2
    assert "--microphone needs the package sounddevice" in capfd.readouterr().err
    fake_microphone(monkeypatch, 0)

    def no_device(**settings: Any) -> None:
        raise RuntimeError("no default input device")

    monkeypatch.setattr(sys.modules["sounddevice"], "InputStream", no_device)
    assert failing("--logdir", trained / "run", "--microphone") == 2
    assert "The microphone cannot be used (no default input device)" in capfd.readouterr().err


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "Give either --files or --microphone"),
    (["--microphone", "--files", "{wav}"], "Give either --files or --microphone"),
    (["--files", "{root}/none.wav"], "none.wav does not exist"),
    (["--files", "{root}/train.csv"], "train.csv cannot be read as audio"),
    (["--files", "{root}/nan.wav"], "nan.wav has 1 NaN or infinite sample"),
    (["--files", "{wav}", "--step_ms=0"], "--step_ms is 0"),
    (["--files", "{wav}", "--step_ms=nan"], "--step_ms is nan"),
    (["--files", "{wav}", "--history_seconds=0"], "history_seconds must be greater than 0"),
    (["--files", "{wav}", "--decoder_params/beam_with=3"], "beam_width"),
    (["--microphone", "--compare"], "--compare works only with --files"),
    (["--files", "{wav}", "--logdir", "{root}/wav"], "has no checkpoint"),
])
def test_mistakes_are_one_sentence(trained: Path, capfd, arguments: list[str], message: str):
    bad = np.zeros(4000, np.float32)
    bad[7] = np.nan
    soundfile.write(trained / "nan.wav", bad, 8000, subtype="FLOAT")
    places = {"wav": trained / "wav" / "dev-0000.wav", "root": trained}
    given = [argument.format(**places) for argument in arguments]
    assert failing("--logdir", trained / "run", *given) == 2
    err = capfd.readouterr().err
    assert message in err and err.startswith("Error: ") and "Traceback" not in err
