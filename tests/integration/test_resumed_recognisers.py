"""Recognisers with augmentation and dropout, stopped and continued: the bits of a run that was not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.cli import main
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.integration.conftest import ROOT
from tests.unit.example_configs.recipes import narrowed

RECIPES = {"joint": "digits-jca", "Deep Speech 2": "digits-ds2", "Listen, Attend and Spell": "digits-jca"}


def narrow(name: str, root: Path) -> dict[str, Any]:
    """Parameters of a recipe with few channels, on toy speech; augmentation and dropout as it has them."""
    params = resolve(load_config(ROOT / f"example_configs/speech2text/{RECIPES[name]}.py"), "train").params("train")
    for part in ("encoder_params", "decoder_params"):
        params[part] = narrowed(params.get(part) or {})
    if name == "Listen, Attend and Spell":
        params.update(decoder="ListenAttendSpellDecoder", loss="BasicSequenceLoss",
                      decoder_params=params["decoder_params"]["attn_decoder_params"],
                      loss_params=params["loss_params"]["seq_loss_params"])
    params["data_layer_params"] = {**params["data_layer_params"], "dataset_files": [str(root / "train.csv")],
                                   "vocab_file": str(root / "vocab.txt")}
    assert params["data_layer_params"]["augmentation"] and params["encoder_params"]["dropout_keep_prob"] < 1.0
    params.update(batch_size_per_gpu=8, num_epochs=None, max_steps=5, dtype="float32", save_checkpoint_steps=4,
                  save_summaries_steps=None, print_samples_steps=None, num_checkpoints=9)
    params.pop("best_metric")
    return params


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_stopped_run_ends_in_the_bits_of_the_whole_one(tmp_path, name):
    """Three batches an epoch: what goes on is the state in the second one."""
    write_toy_speech(str(tmp_path), {"train": 24}, rate=8000)
    (tmp_path / "config.yaml").write_text(
        to_yaml({"base_model": "Speech2Text", "base_params": narrow(name, tmp_path)}), encoding="utf-8")
    run = [f"--config_file={tmp_path}/config.yaml", "--mode=train"]
    assert main([*run, f"--logdir={tmp_path}/whole"]) == 0
    shutil.copytree(tmp_path / "whole/model.ckpt-4", tmp_path / "parts/model.ckpt-4")
    assert main([*run, f"--logdir={tmp_path}/parts", "--continue_learning"]) == 0
    for file in ("weights.safetensors", "optimizer.safetensors"):
        whole, parts = ((tmp_path / part / "model.ckpt-5" / file).read_bytes() for part in ("whole", "parts"))
        assert whole == parts, file
        assert file.startswith("optimizer") or b"moving_variance" in whole  # the header names what the file holds
