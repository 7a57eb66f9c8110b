"""Classification on the encoder of a language model: weights by ``load_model``, rows matched by token."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.integration.ranks import ran

WORDS = ["good", "fine", "bad", "poor", "film", "the", "a", "plot"]
CONFIG = """
root = {root!r}
base_model = "LSTMLM"
base_params = {{
    "logdir": root + "/lm", "random_seed": 1, "batch_size_per_gpu": 4, "max_steps": 30, "print_loss_steps": None,
    "save_checkpoint_steps": 30, "eval_steps": 30, "optimizer": "Adam",
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.03}},
    "processed_data_folder": root + "/processed",
    "encoder": "LMEncoder",
    "encoder_params": {{"core_cell": "LSTMCell", "core_cell_params": {{"num_units": 8}}, "encoder_layers": 1,
                       "emb_size": 8, "weight_tied": True}},
    "decoder": "FakeDecoder", "loss": "BasicSequenceLoss",
    "loss_params": {{"offset_target_by_one": False, "average_across_timestep": True}},
    "data_layer": "WKTDataLayer",
    "data_layer_params": {{"data_root": root + "/text", "bptt": 6, "min_count": 1}},
}}
"""
CLASSIFIER = """
from language import base_model, base_params, root
base_params = {{
    **base_params, "logdir": root + "/classifier", "load_model": root + "/lm", "batch_size_per_gpu": 8,
    "loss": "CrossEntropyLoss", "loss_params": {{}}, "decoder": {decoder},
    "encoder_params": {{**base_params["encoder_params"], "use_cell_state": {cell}}},
    "data_layer": "SSTDataLayer", "data_layer_params": {{"data_root": root + "/sst", "max_length": 12}},
    "best_metric": "Eval_accuracy", "best_metric_mode": "max",
}}
infer_params = {{"data_layer_params": {{"data_root": root + "/sst"}}}}
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, count in (("train", 120), ("valid", 20)):
        (tmp_path / "text").mkdir(exist_ok=True)
        lines = [" ".join(rng.choice(WORDS, 6)) for _ in range(count)]
        (tmp_path / "text" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "sst").mkdir()
    for name, count in (("train", 60), ("dev", 20), ("test", 3)):
        rows = []
        for number in range(count):
            word = rng.choice(WORDS[:2] if number % 2 else WORDS[2:4])
            rows.append(f"{number % 2},the {word} film")
        (tmp_path / "sst" / f"{name}.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "config.py").write_text(CONFIG.format(root=str(tmp_path)), encoding="utf-8")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(("decoder", "cell", "not_loaded"), [
    ('"FakeDecoder"', True, "encoder/output_layer/bias"),
    ('"SoftmaxDecoder", "decoder_params": {"pooling": ["last", "max", "mean"]}', False, "encoder/output_layer/bias"),
    ('"SoftmaxDecoder", "lm_loss_weight": 0.2', False, "decoder/kernel")])
def test_from_a_language_model_to_sentiment(workspace, command, decoder, cell, not_loaded):
    ran(command, "--mode=train")
    (workspace / "language.py").write_text((workspace / "config.py").read_text())
    (workspace / "config.py").write_text(CLASSIFIER.format(decoder=decoder, cell=cell), encoding="utf-8")
    output = ran(command, "--mode=train_eval")
    assert "Loading model from" in output and not_loaded in output
    assert re.search(r"[4-9] of \d+ variables loaded", output)
    assert float(re.findall(r"accuracy: ([\d.]+)", output)[-1]) > 0.9
    assert "Confusion matrix" in output and "F1: " in output
    ran(command, "--mode=infer", f"--infer_output_file={workspace}/out")
    found = [line.split("\t")[0] for line in (workspace / "out").read_text().splitlines()]
    assert found == ["negative", "positive", "negative"]
