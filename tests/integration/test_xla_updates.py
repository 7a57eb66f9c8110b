"""The whole update as one function compiled by XLA: losses, weights and skips of the plain step, family by family."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.cli import parse_options
from open_seq2seq.models.builder import build_model
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer
from tests.reference_losses import RECIPES, ROOT, make_toy_data

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

UPDATES = 20
PADDED = ("--data_layer_params/length_buckets=True", "--xla_buckets=1")
# Dropout draws the same bits in both steps, but only where both draw as many.
FAMILIES = {
    "transformer": (*PADDED, "--encoder_params/remove_padding=False"),
    "jasper": PADDED,
    "resnet": (),
    "lstm language model": ("--data_layer_params/random_bptt=False",),
    "transformer language model": (),
}
SGD = ("--optimizer=SGD", "--optimizer_params={}", "--lr_policy=fixed_lr")
# With 0.01, one unit in the last place of a kernel grows in 20 updates without XLA, too: to 5e-4 in Jasper, and to 1e-3
# in ResNet.
RATES = dict.fromkeys(FAMILIES, 0.01) | {"jasper": 0.001, "resnet": 0.001}


@pytest.fixture(scope="module")
def toy_data(tmp_path_factory: pytest.TempPathFactory):
    """Makes the data of all recipes in the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("toy"))
        make_toy_data()
        yield


def make(recipe: str, *settings: str) -> Trainer:
    config, values = RECIPES[recipe]
    replaced = tuple(setting.split("=")[0] + "/" for setting in settings)
    values = [value for value in values if not value.startswith(replaced)]
    few = [f"--max_steps={UPDATES}", "--average_checkpoints=None", "--save_summaries_steps=None"]
    spec = describe_sections(parse_options([
        f"--config_file={ROOT}/example_configs/{config}", "--mode=train", "--logdir=none", "--dtype=float32", *few,
        *values, *settings]))["train"]
    return Trainer(build_model(spec, 3), None, Runner(), 3)


def both(recipe: str, *settings: str) -> tuple[Trainer, Trainer]:
    """Returns a trainer with XLA and one without; the batches of the first are for both."""
    own = FAMILIES[recipe]
    plain = [setting for setting in own if not setting.startswith("--xla")]
    return make(recipe, "--use_xla_jit", *own, *settings), make(recipe, *plain, *settings)


def results_of(trainers: tuple[Trainer, Trainer], updates: int = UPDATES) -> dict[str, np.ndarray]:
    """Makes updates on the same batches; returns each result ``[updates, 2]``, with XLA and without."""
    rows = []
    for number in range(updates):
        batch = trainers[0]._batches.make_batch(trainers[0]._stream.examples(number))
        row = []
        for trainer in trainers:
            factor = trainer.model.data_layer.rate_factor(batch)
            if factor is not None:
                trainer.optimizer.batch_factor.assign(factor)
            row.append(trainer._train_step([batch]))
        rows.append({name: [float(one[name]) for one in row]
                     for name in ("loss", "grad_norm", "applied", "loss_scale", "skipped")})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def assert_one_program(trainer: Trainer) -> None:
    """Asserts that the update is traced once, and one XLA program without branches."""
    function = trainer._train_step._update_at_once._function
    assert trainer._train_step.traces == 1
    assert function.get_concrete_function().function_def.attr["_XlaMustCompile"].b
    batch = trainer._batches.make_batch(trainer._stream.examples(0))
    program = function.experimental_get_compiler_ir(batch)(stage="hlo")
    assert not re.findall(r" conditional\(.*", program)


@pytest.mark.parametrize("recipe", FAMILIES)
def test_weights_are_those_of_the_plain_step(toy_data, recipe):
    compiled, plain = both(recipe, *SGD, f"--lr_policy_params={{learning_rate: {RATES[recipe]}}}")
    before = {name: variable.numpy() for name, variable in plain.variables.items()}
    results = results_of((compiled, plain))
    assert results["applied"].all()
    assert max(np.abs(plain.variables[name].numpy() - value).max() for name, value in before.items()) > 1e-3
    for name, variable in compiled.variables.items():
        np.testing.assert_allclose(variable.numpy(), plain.variables[name].numpy(), atol=1e-5, rtol=0, err_msg=name)
    assert_one_program(compiled)


@pytest.mark.parametrize(("recipe", "settings"), [
    ("transformer", ()),
    *(pytest.param(recipe, (), marks=pytest.mark.slow) for recipe in FAMILIES if recipe != "transformer"),
    ("transformer", ("--optimizer=Muon", "--optimizer_params={}")),
    ("transformer", ("--optimizer=ScheduleFreeAdamW", "--optimizer_params={}", "--lr_policy=fixed_lr",
                     "--lr_policy_params={learning_rate: 0.001}")),
    ("jasper", ("--ema_decay=0.99", "--optimizer_params/weight_decay=0.0", "--decoupled_weight_decay=0.01"))])
def test_losses_are_those_of_the_plain_step(toy_data, recipe, settings):
    compiled, plain = both(recipe, *settings)
    results = results_of((compiled, plain))
    np.testing.assert_allclose(results["loss"][:, 0], results["loss"][:, 1], rtol=1e-4)
    assert compiled._train_step.traces == 1


@pytest.mark.parametrize("recipe", ["transformer", pytest.param("resnet", marks=pytest.mark.slow)])
def test_overflows_skip_the_updates_that_the_plain_step_skips(toy_data, recipe):
    trainers = both(recipe, "--dtype=mixed_float16", "--loss_scaling=Backoff",
                    "--loss_scaling_params={scale_max: 1.7e+7, step_window: 3}")
    results = results_of(trainers, 12)
    assert 0 < results["skipped"][-1, 1] < 10
    for name in ("applied", "loss_scale", "skipped"):
        np.testing.assert_array_equal(results[name][:, 0], results[name][:, 1], name)
    np.testing.assert_allclose(results["loss"][:, 0], results["loss"][:, 1], rtol=1e-2)


def test_a_resumed_run_is_the_same_to_the_bit(workspace: Path, command):
    from safetensors.numpy import load_file

    settings = ("--mode=train", "--use_xla_jit", "--xla_buckets=1", "--max_grad_norm=1.0", "--ema_decay=0.9",
                "--lr_policy_params/warmup_steps=2", "--save_checkpoint_steps=6")
    code, out, err = command(*settings, f"--logdir={workspace}/whole")
    assert code == 0, err
    assert out.count("XLA: first update on 16 × ") == 1 and "compilation included" in out
    for more in (("--max_steps=6",), ("--continue_learning", "--max_steps=12")):
        code, _, err = command(*settings, *more)
        assert code == 0, err
    for file in ("weights.safetensors", "optimizer.safetensors"):
        whole, resumed = (load_file(workspace / run / "model.ckpt-12" / file) for run in ("whole", "run"))
        assert whole.keys() == resumed.keys()
        for name, value in whole.items():
            np.testing.assert_array_equal(value, resumed[name], name)
