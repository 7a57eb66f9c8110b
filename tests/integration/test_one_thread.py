"""Inference where TensorFlow has a single thread, as on machines with one core."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.integration.toy_data import ROOT

PROGRAM = """
import numpy as np
from open_seq2seq import Run
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.run.training_setup import describe_sections
values = {"data_layer_params/vocab_file": "toy_speech_data/vocab.txt", "dtype": "float32"}
spec = describe_sections(Run(RECIPE, values).options("interactive_infer"))["interactive_infer"]
print(TrainedModel(build_model(spec), spec).transcribe(np.sin(np.arange(3000) / 5)))
"""


@pytest.mark.long
def test_joint_search_of_one_recording_ends(tmp_path, monkeypatch):
    """Loops within conditions within loops would wait for a second thread."""
    monkeypatch.chdir(tmp_path)
    write_toy_speech("toy_speech_data", {"train": 1}, rate=8000)
    program = f"RECIPE = {str(ROOT / 'example_configs/speech2text/digits-jca.py')!r}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "TF_NUM_INTEROP_THREADS": "1", "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
