"""Inference of several batches at once, also where TensorFlow has a single thread, as on machines with one core."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.integration.toy_data import ROOT, make_toy_data

PROGRAM = """
import sys
import numpy as np
from open_seq2seq import Run
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.run.training_setup import describe_sections

LINES = ["α β γ", "δ", "κ ι θ η ζ ε δ", "ω α β", "β", "γ γ", "α ε"]
SOUNDS = [np.sin(np.arange(1000 * number) / number) for number in range(2, 7)]
SMALL = {f"{part}_params/{name}": size for part in ("encoder", "decoder")
         for name, size in (("hidden_size", 16), ("filter_size", 32), ("num_heads", 2))}
REVERSAL = "text2text/toy-reversal/nmt-reversal-"
CASES = [
    (f"{REVERSAL}TT.py", {**SMALL, "decoder_params/n_best": 2, "save_alignments": True}, LINES),
    (f"{REVERSAL}TT.py", {**SMALL, "decoder_params/sampling_temperature": 1.0}, LINES),
    (f"{REVERSAL}CC.py", {}, LINES),
    (f"{REVERSAL}RR.py", {}, LINES),
    ("lm/toy-lm.py", {}, LINES),
    ("speech2text/digits-jca.py", {"data_layer_params/vocab_file": "toy_speech_data/vocab.txt"}, SOUNDS)]
for recipe, values, inputs in CASES:
    for size in (1, 3):
        run = Run(f"{sys.argv[1]}/{recipe}", {**values, "batch_size_per_gpu": size, "dtype": "float32"})
        (spec,) = describe_sections(run.options("interactive_infer")).values()
        model, results = TrainedModel(build_model(spec, seed=3)), []
        for number in (2, 1):
            model._pass._at_once = number
            results.append([(repr(one), getattr(getattr(one, "alignment", None), "source", None))
                            for one in model.infer(inputs)])
        assert results[0] == results[1], (recipe, size, results)
"""


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("threads", [1, 2])
def test_batches_that_are_searched_at_once_have_their_own_results(threads, tmp_path, monkeypatch):
    """With one thread, for example, loops within conditions within loops would wait forever for a second one."""
    monkeypatch.chdir(tmp_path)
    make_toy_data("--output_dir=toy_text_data")
    vocabulary = tmp_path / "toy_text_lm/processed/vocab.txt"
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_text("".join(f"{number}\t{token}\t1\n" for number, token in enumerate(
        ["<unk>", "<eos>", *"αβγδε"])) + "7\n", encoding="utf-8")
    write_toy_speech("toy_speech_data", {"train": 1}, rate=8000)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(ROOT / "example_configs")], capture_output=True,
                          text=True, check=False, timeout=1100,
                          env={**os.environ, "TF_NUM_INTEROP_THREADS": str(threads), "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
