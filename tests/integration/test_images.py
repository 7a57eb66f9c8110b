"""Classification of images by the command line: resumed exactly, divided among devices, and applied to files."""

from __future__ import annotations

import csv

import pytest

from open_seq2seq.cli import main
from open_seq2seq.data.image2label.toy_images import SHAPES, write_toy_folders

CONFIG = """
base_model = "Image2Label"
base_params = {{
    "logdir": "unset", "random_seed": 1, "batch_size_per_gpu": 8, "max_steps": 12, "dtype": "float32",
    "print_samples_steps": 6, "save_summaries_steps": 6, "save_checkpoint_steps": 6, "eval_steps": 100,
    "optimizer": "Momentum", "optimizer_params": {{"momentum": 0.9}},
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.02}},
    "encoder": "CNNEncoder", "encoder_params": {{"cnn_layers": [
        ("conv2d", {{"filters": 8, "kernel_size": 3, "strides": 2, "activation": "relu"}})]}},
    "decoder": "FullyConnectedDecoder", "loss": "CrossEntropyLoss", "loss_params": {{"label_smoothing": 0.1}},
    "data_layer": "ImageFolderDataLayer",
    "data_layer_params": {{"classes": {classes}, "image_size": 16, "resize_size": 16, "train_crop": "resized",
                           "color_jitter": 0.2, "randaugment_layers": 1, "mixup": 0.2}},
}}
train_params = {{"data_layer_params": {{"folder": {folder!r} + "/train"}}}}
eval_params = {{"data_layer_params": {{"folder": {folder!r} + "/dev"}}}}
infer_params = {{"data_layer_params": {{"folder": {folder!r} + "/dev"}}}}
"""


@pytest.fixture
def config(tmp_path):
    write_toy_folders(str(tmp_path / "images"), {"train": 40, "dev": 8})
    (tmp_path / "config.py").write_text(CONFIG.format(classes=list(SHAPES), folder=str(tmp_path / "images")))
    return f"--config_file={tmp_path}/config.py"


@pytest.mark.long
def test_training_resumes_to_the_bit_and_classifies_files(tmp_path, config, capfd):
    assert main([config, "--mode=train_eval", f"--logdir={tmp_path}/whole"]) == 0
    out = capfd.readouterr().out
    assert "Eval top-1" in out and "Train batch top-5" in out
    assert list((tmp_path / "whole/samples").rglob("mistakes*.png"))
    assert (tmp_path / "whole/samples/step-12/confusion_matrix.png").stat().st_size
    assert main([config, f"--logdir={tmp_path}/parts", "--max_steps=7"]) == 0
    assert main([config, f"--logdir={tmp_path}/parts", "--continue_learning"]) == 0
    whole, parts = ((tmp_path / run / "model.ckpt-12/weights.safetensors").read_bytes() for run in ("whole", "parts"))
    assert whole == parts
    assert main([f"--logdir={tmp_path}/whole", "--mode=infer", "--infer_files", f"{tmp_path}/images/dev/cross",
                 f"{tmp_path}/images/dev/circle/", f"--infer_output_file={tmp_path}/out.csv"]) == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert len(rows) == 4 and {row["class"] for row in rows} <= set(SHAPES) and "cross" in rows[0]["example"]


@pytest.mark.long
def test_a_broken_file_is_named_and_skipped_by_choice(tmp_path, config, capfd):
    broken = sorted((tmp_path / "images/train/circle").iterdir())[0]
    broken.write_bytes(b"no picture")
    assert main([config, "--mode=train", "--check"]) == 2
    assert f"circle/{broken.name} cannot be read" in capfd.readouterr().err
    assert main([config, "--mode=train", f"--logdir={tmp_path}/stop"]) == 2
    words = capfd.readouterr().err
    assert f"circle/{broken.name} cannot be read" in words and "Traceback" not in words
    skip = "--data_layer_params/on_bad_example=skip"
    assert main([config, "--mode=train", skip, f"--logdir={tmp_path}/skip", "--max_steps=6"]) == 0
    assert capfd.readouterr().out.count(f"circle/{broken.name}, which cannot be read") == 1
