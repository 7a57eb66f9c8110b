"""Recipes on made-up data: a small width, a few updates; and the size of the full networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import creating_variables, described_variables
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer

EXAMPLES = Path(__file__).parents[3] / "example_configs"
ALPHABET = " abcdefghijklmnopqrstuvwxyz'"
WIDTHS = ("num_channels", "rnn_cell_dim", "n_hidden", "hidden_dim", "attention_dim", "tgt_emb_size")


def params_of(recipe: Path) -> tuple[Any, dict[str, Any]]:
    """The model's class and the parameters of training."""
    config = resolve(load_config(recipe), "train")
    return config.base_model, config.params("train")


def speech_params(recipe: Path, toy: Path) -> tuple[Any, dict[str, Any]]:
    """The same of a recogniser, on two utterances of toy speech, at full width."""
    base_model, params = params_of(recipe)
    params.update(logdir=None, batch_size_per_gpu=2, num_epochs=None, max_steps=2, save_summaries_steps=None)
    params["data_layer_params"] = {**params["data_layer_params"], "dataset_files": [str(toy / "train.csv")],
                                   "vocab_file": str(toy / "vocab.txt"), "audio_root": None, "cache_features": False}
    return base_model, params


def narrowed(value: Any, key: str = "") -> Any:
    """A recogniser's parameters with a sixteenth of the channels, two layers of a kind at most, and five blocks."""
    if isinstance(value, dict):
        return {name: narrowed(item, name) for name, item in value.items()}
    if isinstance(value, list):
        kept = [*value[:3], *value[-2:]] if key == "convnet_layers" and len(value) > 5 else value
        return [narrowed(item) for item in kept]
    if key in WIDTHS:
        return max(4, value // 16)
    return min(2, value) if key in ("repeat", "num_rnn_layers") else value


def assert_trains(base_model: Any, params: dict[str, Any], folder: Path, updates: int = 2, batch: int = 2) -> None:
    """Some updates, by the config as it is kept beside checkpoints, change every weight."""
    (folder / "config.yaml").write_text(to_yaml({"base_model": base_model, "base_params": params}), encoding="utf-8")
    config = resolve(load_config(folder / "config.yaml"), "train")
    model = build_model(describe_model(config.base_model, config.params("train"), "train"), seed=1)
    trainer = Trainer(model, None, Runner(), seed=1)
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(updates):
        trainer.try_batch(np.arange(batch))
    assert int(trainer.optimizer.updates) == updates
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name


def num_weights(base_model: Any, params: dict[str, Any], **sizes: Any) -> int:
    """Counts the trainable weights of encoder and decoder without making them.

    Args:
      base_model: the model's class.
      params: those of training.
      **sizes: what the model would give its parts; without any, its data layer is made and asked.
    """
    spec = describe_model(base_model, params, "train")
    with creating_variables(shared=True):
        model = spec.model_class(spec.params, "train")
        if not sizes:
            model.data_layer = spec.params["data_layer"](
                {**spec.params["data_layer_params"], "batch_size": 2, "mode": "train"}, model, "data_layer", "train")
        for part in ("encoder", "decoder"):
            if (made := spec.params.get(part)) is None:  # a vocoder has no decoder
                continue
            known = {**made.get_required_params(), **made.get_optional_params()}
            derived = {name: value for name, value in (sizes or model.derived_params(part)).items() if name in known}
            setattr(model, part, made({**(spec.params.get(f"{part}_params") or {}), **derived}, model, part, "train"))
    return sum(int(np.prod(shape)) for path, shape in described_variables(model).items()
               if not path.rpartition("/")[2].startswith("moving"))
