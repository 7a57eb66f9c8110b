"""The progress line: short in float32, with the loss scale in half precision."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from open_seq2seq.training.hooks import ProgressHook


@pytest.mark.parametrize(("in_half", "scale", "skipped", "expected"), [
    (True, 16384.0, 3, "train loss 2.0000, loss scale 16384, skipped 3, time per step "),
    (True, 4194304.0, 0, "train loss 2.0000, loss scale 4194304, skipped 0, time per step "),
    (True, 0.25, 0, "train loss 2.0000, loss scale 0.25, skipped 0, time per step "),
    (False, 1.0, 0, "train loss 2.0000, time per step "),
    (False, 1.0, 2, "train loss 2.0000, skipped 2, time per step "),
])
def test_line(capsys, in_half, scale, skipped, expected):
    trainer = SimpleNamespace(step=1, objects=10, waited=0.0, paused=0.0, last_step=5, steps_per_epoch=None,
                              in_half=in_half, model=SimpleNamespace(object_name="tokens"))
    hook = ProgressHook(1)
    hook.begin(trainer)
    hook.after_step(trainer, {"loss": tf.constant(2.0), "loss_scale": tf.constant(scale),
                              "skipped": tf.constant(skipped, tf.int64)})
    assert expected in capsys.readouterr().out
