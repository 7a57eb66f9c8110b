"""The walk of docs/speech-recognition.md, at toy size: from one's own recordings to a logdir that is enough."""

from __future__ import annotations

import csv
import shutil

import pytest

from open_seq2seq.cli import main
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.integration.conftest import ROOT
from tests.unit.scripts.running import ok

RECIPE = ROOT / "example_configs/speech2text/own-speech.py"


@pytest.mark.long
def test_from_recordings_to_transcripts(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    write_toy_speech("given", {"recordings": 17}, rate=16000)
    ok("prepare_speech", "--table=given/recordings.csv", "--lower_case", "--remove_characters=.,?!", "--dev_share=0.2",
       "--test_share=0.1", cwd=tmp_path)
    (tmp_path / "my_speech.py").write_text(f"base_config = {str(RECIPE)!r}\n")
    narrow = "{type: conv1d, repeat: 1, kernel_size: [5], stride: [2], num_channels: 8, padding: SAME}"
    assert main(["--config_file=my_speech.py", "--mode=train_eval", "--max_steps=2", "--batch_size_per_gpu=6",
                 "--dtype=float32", f"--encoder_params/convnet_layers=[{narrow}]"]) == 0, capfd.readouterr().err
    out = capfd.readouterr().out
    assert "12 training examples, 3 validation examples" in out and "Logdir: own-speech-model" in out
    assert "Evaluation at step 2 on 3 examples" in out and "WARNING: warmup" not in out  # however short the training
    shutil.move("own-speech-model", "elsewhere")
    shutil.move("given/wav", "recordings")
    shutil.rmtree("given")
    shutil.rmtree("my_speech")
    assert main(["transcribe", "elsewhere", "recordings"]) == 0
    rows = list(csv.DictReader(capfd.readouterr().out.splitlines()))
    assert len(rows) == 17 and rows[0].keys() == {"wav_filename", "predicted_transcript"}
