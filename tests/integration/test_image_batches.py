"""Training on batches that ``tf.data`` makes: as by hand, resumed to the bit, with broken files named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.cli import main
from tests.integration.image_parts import write_images

pytestmark = pytest.mark.long

CONFIG = """
parts = {parts!r}
base_model = parts + ":ImageModel"
base_params = {{
    "logdir": "unset", "random_seed": 1, "batch_size_per_gpu": 7, "max_steps": 16, "dtype": "float32",
    "print_loss_steps": 1, "save_checkpoint_steps": 8, "eval_steps": 100,
    "optimizer": "Momentum", "optimizer_params": {{"momentum": 0.9}},
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.02}},
    "data_layer": parts + ":Images", "data_layer_params": {{"folder": {folder!r}}},
    "encoder": parts + ":Pixels", "decoder": parts + ":Classifier", "loss": parts + ":ClassLoss",
}}
eval_params = {{}}
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "images").mkdir()
    write_images(tmp_path / "images", 40)
    parts = str(Path(__file__).with_name("image_parts.py"))
    (tmp_path / "config.py").write_text(CONFIG.format(parts=parts, folder=str(tmp_path / "images")))
    return f"--config_file={tmp_path}/config.py"


def weights(folder: Path) -> bytes:
    return (folder / "model.ckpt-16" / "weights.safetensors").read_bytes()


def test_training_is_as_by_hand_and_resumes_to_the_bit(tmp_path, config, capfd):
    assert main([config, "--mode=train_eval", f"--logdir={tmp_path}/whole"]) == 0
    out, err = capfd.readouterr()
    assert "40 of 40 are right" in out and "WARNING" not in err
    assert main([config, f"--logdir={tmp_path}/parts", "--max_steps=9"]) == 0  # 5.7 batches an epoch
    assert main([config, f"--logdir={tmp_path}/parts", "--continue_learning"]) == 0
    by_hand = f"--data_layer={Path(__file__).with_name('image_parts.py')}:ImagesByHand"
    assert main([config, by_hand, f"--logdir={tmp_path}/by_hand"]) == 0
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts") == weights(tmp_path / "by_hand")


def test_static_shapes_change_no_more_than_the_grouping(tmp_path, config):
    settings = ["--data_layer_params/shuffle=False", "--max_steps=6", "--use_xla_jit"]
    assert main([config, *settings, f"--logdir={tmp_path}/plain"]) == 0
    assert main([config, *settings, "--xla_buckets=3", f"--logdir={tmp_path}/static"]) == 0
    plain, static = (load_file(tmp_path / run / "model.ckpt-6" / "weights.safetensors") for run in ("plain", "static"))
    for name, array in plain.items():
        np.testing.assert_allclose(static[name], array, rtol=1e-5, atol=1e-6)


def test_check_and_training_name_a_broken_file(tmp_path, config, capfd):
    assert main([config, "--mode=train_eval", "--check"]) == 0
    assert "the first 40 examples are readable: source shapes (40, 6, 6, 3)" in capfd.readouterr().out
    (tmp_path / "images" / "0023.png").write_bytes(b"no picture")
    for arguments in (["--mode=train", "--check"], ["--mode=train", f"--logdir={tmp_path}/run"]):
        assert main([config, *arguments]) == 2
        words = capfd.readouterr().err
        assert "0023.png cannot be read" in words and "Traceback" not in words and "{{" not in words
