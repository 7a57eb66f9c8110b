"""Every recipe loads, and names only classes and parameters that exist."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.models.builder import build_model, describe_model, describe_section
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer

REPOSITORY = Path(__file__).parents[3]
RECIPES = sorted((REPOSITORY / "example_configs").rglob("*.py"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(REPOSITORY)))
@pytest.mark.parametrize("mode", ["train_eval", "infer"])
def test_recipe_is_accepted(recipe: Path, mode: str):
    config = resolve(load_config(recipe), mode)
    for section in config.sections:
        spec = describe_model(config.base_model, config.params(section), section, config.given(section))
        assert all(inspect.isclass(spec.params[part]) for part in ("data_layer", "encoder", "decoder", "loss"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(REPOSITORY)))
@pytest.mark.parametrize("mode", ["train_eval", "infer"])
def test_what_a_checkpoint_keeps_of_a_recipe_names_the_same_without_trust(recipe: Path, mode: str, tmp_path: Path):
    given = resolve(load_config(recipe), mode)
    (tmp_path / "config.yaml").write_text(to_yaml(given.as_sections()), encoding="utf-8")
    kept = resolve(load_config(tmp_path / "config.yaml", trusted=False), mode)
    for section in given.sections:
        before, after = (describe_section(config, section) for config in (given, kept))
        assert after.model_class is before.model_class
        assert to_yaml(after.params) == to_yaml(before.params)
        for name in ("encoder", "decoder", "loss", "optimizer", "lr_policy", "initializer", "regularizer"):
            assert after.params.get(name) is before.params.get(name)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_recipe_says_how_it_is_run(recipe: Path):
    assert f"--config_file={recipe.relative_to(REPOSITORY)}" in recipe.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "expected"), [
    ("transformer-nvgrad", {
        "optimizer": "NovoGrad", "max_steps": 600000, "dtype": "mixed", "loss_scaling": "Backoff",
        "optimizer_params": {"beta1": 0.95, "beta2": 0.99, "epsilon": 1e-8, "weight_decay": 1e-5,
                             "grad_averaging": False, "compat_no_ema": True},
        "lr_policy_params": {"learning_rate": 0.04, "power": 2.0}}),
    ("transformer-bn", {
        "optimizer": "LazyAdam", "max_steps": 1000000, "dtype": "mixed", "loss_scaling": "Backoff",
        "larc_params": {"larc_eta": 0.001}, "regularizer_params": {"scale": 0.001},
        "lr_policy_params": {"learning_rate": 2.0, "warmup_steps": 8000, "d_model": 1024}}),
])
def test_recipe_has_the_published_numbers(name: str, expected: dict):
    config = resolve(load_config(REPOSITORY / f"example_configs/text2text/en-de/{name}.py"), "train_eval")
    params = config.params("train")
    assert {key: params[key] for key in expected} == expected
    assert params["batch_size_per_gpu"] == 128
    norms = [params[part]["norm_params"] for part in ("encoder_params", "decoder_params")]
    assert norms[0] == norms[1] and norms[0]["epsilon"] == 1e-5


@pytest.mark.long
@pytest.mark.parametrize("name", ["transformer-nvgrad", "transformer-bn"])
def test_recipe_trains(name: str, tmp_path: Path):
    """On toy text and at toy size, with everything else as the recipe has it."""
    (tmp_path / "vocab.txt").write_text("\n".join(["<PAD>", "</S>", "<S>", "<UNK>", *"abcdef"]) + "\n")
    (tmp_path / "text").write_text("a b c\nd e f a\nb c\nf f e d\n", encoding="utf-8")
    recipe = resolve(load_config(REPOSITORY / f"example_configs/text2text/en-de/{name}.py"), "train")
    (tmp_path / "config.yaml").write_text(to_yaml(recipe.as_sections()), encoding="utf-8")
    config = resolve(load_config(tmp_path / "config.yaml"), "train")  # as it is kept beside checkpoints
    params = config.params("train")
    params.update(logdir=str(tmp_path / "run"), batch_size_per_gpu=4, max_steps=3, save_summaries_steps=None)
    size = {"hidden_size": 16, "num_heads": 2, "filter_size": 32}
    params["encoder_params"] = {**params["encoder_params"], **size, "encoder_layers": 1}
    params["decoder_params"] = {**params["decoder_params"], **size, "num_hidden_layers": 1}
    vocab, text = str(tmp_path / "vocab.txt"), str(tmp_path / "text")
    params["data_layer_params"] = {**params["data_layer_params"], "src_vocab_file": vocab, "tgt_vocab_file": vocab,
                                   "source_file": text, "target_file": text}
    trainer = Trainer(build_model(describe_model(config.base_model, params, "train"), seed=1), None, Runner(), seed=1)
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(3):
        trainer.try_batch(np.arange(4))
    assert int(trainer.optimizer.updates) == 3
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name
