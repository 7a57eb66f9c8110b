"""Recipes of recurrent translation: they train and translate at toy size, and have the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.decoders import RNNDecoderWithAttention
from open_seq2seq.encoders import GNMTLikeEncoderWithEmbedding
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.optimizers.lr_policies import make_schedule
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.tree import described_variables
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer

FOLDER = Path(__file__).parents[3] / "example_configs" / "text2text"
GNMT = "en-de/en-de-gnmt-like-4GPUs"
RECIPES = ("toy-reversal/nmt-reversal-RR", "en-de/en-de-nmt-small", GNMT, "en-de/en-de-gnmt-like-weight-tied-2GPUs")
NVIDIA = "en-de/gnmt-v2-4-layers"
SMALL = "en-de/gnmt-multi30k"


def shrunken(params: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same at toy size and on toy text."""
    small = {**params, "logdir": str(folder / "run"), "batch_size_per_gpu": 4, "max_steps": 3,
             "save_summaries_steps": None}
    if params.get("initializer_params"):  # so that the query's gradient is not lost in the epsilon of Adam at this size
        small["initializer_params"] = {"minval": -0.7, "maxval": 0.7}
    emb = 8 if params["decoder_params"].get("weight_tied") else 16
    sizes = {"core_cell_params": {"num_units": 16}}
    encoder, decoder = params["encoder_params"], params["decoder_params"]
    small["encoder_params"] = {**encoder, **sizes, "src_emb_size": emb,
                               "encoder_layers": min(encoder["encoder_layers"], 2)}
    small["decoder_params"] = {**decoder, **sizes, "tgt_emb_size": emb, "attention_layer_size": 16,
                               "decoder_layers": min(decoder["decoder_layers"], 3)}
    vocab, text = str(folder / "vocab.txt"), str(folder / "text")
    data = {**params["data_layer_params"], "src_vocab_file": vocab, "tgt_vocab_file": vocab, "source_file": text,
            "target_file": text, "special_tokens_already_in_vocab": True, "batch_size_unit": "sentences"}
    data.pop("tokenizer", None)
    return {**small, "iter_size": 1, "data_layer_params": data}


@pytest.mark.long
@pytest.mark.parametrize("name", [*RECIPES, NVIDIA, SMALL])
def test_it_trains(name: str, tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("\n".join(["<PAD>", "</S>", "<S>", "<UNK>", *"abcdef"]) + "\n")
    (tmp_path / "text").write_text("a b c\nd e f a\nb c\nf f e d\n", encoding="utf-8")
    config = resolve(load_config(FOLDER / f"{name}.py"), "train_eval")
    params = shrunken(config.params("train"), tmp_path)
    trainer = Trainer(build_model(describe_model(config.base_model, params, "train"), seed=1), None, Runner(), seed=1)
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(3):
        trainer.try_batch(np.arange(4))
    assert int(trainer.optimizer.updates) == 3
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name


@pytest.mark.parametrize("name", RECIPES)
def test_inference_searches_with_a_beam(name: str):
    params = resolve(load_config(FOLDER / f"{name}.py"), "infer").params("infer")
    assert params["decoder"] == "BeamSearchRNNDecoderWithAttention"
    assert params["decoder_params"]["beam_width"] == 10 and params["decoder_params"]["length_penalty"] == 1.0


def num_weights(encoder_params: dict[str, Any], decoder_params: dict[str, Any]) -> int:
    model = type("Model", (), {})()
    with creating_variables(shared=True):
        model.encoder = GNMTLikeEncoderWithEmbedding(encoder_params, name="encoder")
        decoder = RNNDecoderWithAttention(decoder_params, model)
    shapes = [shape for part in (model.encoder, decoder) for shape in described_variables(part).values()]
    return sum(int(np.prod(shape)) for shape in shapes)


@pytest.mark.parametrize(("name", "vocabulary", "millions"), [
    (GNMT, 32768, 274.8), (NVIDIA, 32320, 160.7), ("en-de/gnmt-v2-8-layers", 32320, 244.6)])
def test_number_of_weights(name: str, vocabulary: int, millions: float):
    params = resolve(load_config(FOLDER / f"{name}.py"), "train").params("train")
    encoder = {**params["encoder_params"], "src_vocab_size": vocabulary}
    decoder = {**params["decoder_params"], "tgt_vocab_size": vocabulary, "batch_size": 1}
    assert num_weights(encoder, decoder) / 1e6 == pytest.approx(millions, rel=0.005)


@pytest.mark.parametrize("layers", [4, 8])
def test_nvidias_numbers(layers: int):
    params = resolve(load_config(FOLDER / f"en-de/gnmt-v2-{layers}-layers.py"), "train").params("train")
    encoder, decoder, rates = params["encoder_params"], params["decoder_params"], params["lr_policy_params"]
    assert encoder["encoder_layers"] == decoder["decoder_layers"] == layers
    assert encoder["core_cell_params"]["num_units"] == decoder["core_cell_params"]["num_units"] == 1024
    assert not decoder["input_feeding"] and decoder["share_source_embedding"]
    assert params["batch_size_per_gpu"] == 128 and params["dtype"] == "mixed" and params["max_grad_norm"] == 5.0
    assert params["loss_params"]["label_smoothing"] == 0.1
    policy = make_schedule(params["lr_policy"], rates, params["max_steps"], None)
    found = [float(policy(tf.constant(step, tf.int64))) for step in (100, 200, 13000, 14000, params["max_steps"])]
    np.testing.assert_allclose(found, [1e-3, 2e-3, 2e-3, 1e-3, 2e-3 / 16], rtol=1e-6)
