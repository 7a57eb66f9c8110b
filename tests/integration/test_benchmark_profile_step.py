"""A training step is profiled, and its parts are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.measuring.plain_transformer import PlainTransformer, plain_step
from benchmarks.measuring.settings import make_trainer
from open_seq2seq.utils.errors import UserError

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "profile_step.py"


@pytest.mark.slow
def test_the_parts_of_a_step_are_found(workspace: Path):
    result = subprocess.run(
        [sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", "--dtypes=mixed_bfloat16", "--steps=2",
         "--plain", f"--output={workspace}/profile.md"], capture_output=True, text=True, timeout=300, cwd=workspace)
    assert result.returncode == 0, result.stderr
    assert (workspace / "profile.md").read_text() == result.stdout[:-1]
    rows = dict(line.strip("| ").split(" | ")[:2] for line in result.stdout.splitlines() if line.startswith("| "))
    for part in ("optimizer", "normalisation", "matrix products", "softmax", "random numbers", "casts",
                 "data movement", "element-wise", "all operations"):
        assert part in rows, part  # parts that take no time have no row
    assert "| mixed_bfloat16, plain Keras ms | share | mixed_bfloat16 ms | share | quicker |" in result.stdout


@pytest.mark.long
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "mixed_bfloat16"])
def test_the_plain_network_has_as_many_weights_and_learns(workspace, dtype):
    trainer = make_trainer(str(workspace / "config.py"), [f"--dtype={dtype}"])
    params, size = trainer.model.params, trainer.model.data_layer.target_vocab_size
    tf.keras.utils.set_random_seed(0)  # of the initial weights; after 20 updates the loss varies by a fifth with them
    plain = PlainTransformer(params["encoder_params"], params["decoder_params"], size, "float32")
    plain(tf.constant([[4, 5]]), tf.constant([[5, 4]]))  # makes the weights
    assert sum(np.prod(v.shape) for v in plain.trainable_variables) == sum(
        np.prod(v.shape) for v in trainer.trainable.values())
    update = plain_step(trainer, learning_rate=1e-2)
    batch = trainer.model.data_layer.make_batch(np.arange(8))
    losses = [float(update(batch)) for _ in range(40)]
    assert losses[-1] < 0.7 * losses[0]


def test_other_models_have_no_plain_version(workspace):
    trainer = make_trainer(str(workspace / "config.py"), [])
    trainer.model = type("Model", (), {"params": {"encoder_params": {}, "decoder_params": {}}})()
    with pytest.raises(UserError, match="leave --plain out"):
        plain_step(trainer)
