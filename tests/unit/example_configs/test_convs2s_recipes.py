"""The convolutional recipes have the published size and numbers, and train at toy size."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.decoders import ConvS2SDecoder
from open_seq2seq.encoders import ConvS2SEncoder
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.tree import described_variables
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer

TEXT = Path(__file__).parents[3] / "example_configs/text2text"
NAMES = ["en-de/convs2s-8-gpu", "toy-reversal/nmt-reversal-CC"]


def params_of(name: str) -> dict:
    return resolve(load_config(TEXT / f"{name}.py"), "train").params("train")


class Parts(tf.Module):
    """An encoder and a decoder whose variables are only described."""

    def __init__(self, params: dict, vocab_size: int) -> None:
        super().__init__()
        sizes = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size, "batch_size": 1}
        with creating_variables(shared=True):
            for part, cls in (("encoder", ConvS2SEncoder), ("decoder", ConvS2SDecoder)):
                derived = {key: value for key, value in sizes.items() if key in cls.get_required_params()}
                setattr(self, part, cls({**params[f"{part}_params"], **derived}, self, part))


def test_size_as_published():
    shapes = described_variables(Parts(params_of(NAMES[0]), 32768))
    assert abs(sum(map(math.prod, shapes.values())) / 135.5e6 - 1) < 0.005


def test_published_numbers():
    params = params_of(NAMES[0])
    assert params["max_grad_norm"] == 0.1 and params["max_steps"] == 310000 and params["batch_size_per_gpu"] == 64
    assert params["lr_policy_params"] == {"learning_rate": 9, "max_lr": 1e-3, "warmup_steps": 4000, "d_model": 512}
    layers = [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2
    assert params["encoder_params"]["conv_nchannels_kwidth"] == params["decoder_params"]["conv_nchannels_kwidth"] \
        == layers
    assert params["encoder_params"]["att_layer_num"] == 15


@pytest.mark.long
@pytest.mark.parametrize("name", [*NAMES, "en-de/convs2s-multi30k"])
def test_recipe_trains(name: str, tmp_path: Path):
    """On toy text and at toy size, with everything else as the recipe has it, as it is kept beside checkpoints."""
    (tmp_path / "vocab.txt").write_text("\n".join(["<PAD>", "</S>", "<S>", "<UNK>", *"abcdef"]) + "\n")
    (tmp_path / "text").write_text("a b c\nd e f a\nb c\nf f e d\n", encoding="utf-8")
    recipe = resolve(load_config(TEXT / f"{name}.py"), "train")
    (tmp_path / "config.yaml").write_text(to_yaml(recipe.as_sections()), encoding="utf-8")
    config = resolve(load_config(tmp_path / "config.yaml"), "train")
    params = config.params("train")
    params.update(logdir=str(tmp_path / "run"), batch_size_per_gpu=4, max_steps=3, save_summaries_steps=None)
    layers = {"conv_nchannels_kwidth": [[16, 3], [24, 1]]}
    params["encoder_params"] = {**params["encoder_params"], "src_emb_size": 16, **layers}
    params["decoder_params"] = {**params["decoder_params"], "tgt_emb_size": 16, "out_emb_size": 16, **layers}
    vocab, text = str(tmp_path / "vocab.txt"), str(tmp_path / "text")
    params["data_layer_params"] = {
        **params["data_layer_params"], "src_vocab_file": vocab, "tgt_vocab_file": vocab, "source_file": text,
        "target_file": text, "special_tokens_already_in_vocab": True, "batch_size_unit": "sentences"}
    params["data_layer_params"].pop("tokenizer", None)
    trainer = Trainer(build_model(describe_model(config.base_model, params, "train"), seed=1), None, Runner(), seed=1)
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(3):
        trainer.try_batch(np.arange(4))
    assert int(trainer.optimizer.updates) == 3
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name
