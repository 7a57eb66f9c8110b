"""The progress line: short in float32, with the loss scale in half precision."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from open_seq2seq.training.loop.builtin_hooks import ProgressHook


def make_trainer(in_half=False, num_processes=1):
    return SimpleNamespace(step=1, objects=10, waited=0.0, paused=0.0, last_step=5, steps_per_epoch=None,
                           in_half=in_half, model=SimpleNamespace(object_name="tokens"),
                           runner=SimpleNamespace(num_processes=num_processes))


@pytest.mark.parametrize(("in_half", "scale", "skipped", "expected"), [
    (True, 16384.0, 3, "train loss 2.0000, loss scale 16384, skipped 3, time per step "),
    (True, 4194304.0, 0, "train loss 2.0000, loss scale 4194304, skipped 0, time per step "),
    (True, 0.25, 0, "train loss 2.0000, loss scale 0.25, skipped 0, time per step "),
    (False, 1.0, 0, "train loss 2.0000, time per step "),
    (False, 1.0, 2, "train loss 2.0000, skipped 2, time per step "),
])
def test_line(capsys, in_half, scale, skipped, expected):
    trainer = make_trainer(in_half)
    hook = ProgressHook(1)
    hook.begin(trainer)
    hook.after_step(trainer, {"loss": tf.constant(2.0), "loss_scale": tf.constant(scale),
                              "skipped": tf.constant(skipped, tf.int64)})
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(("num_processes", "live"), [(1, True), (2, False)])
def test_only_a_single_process_rewrites_its_line_on_a_terminal(capsys, monkeypatch, num_processes, live):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    trainer = make_trainer(num_processes=num_processes)
    hook = ProgressHook(100)
    hook.begin(trainer)
    trainer.step = 2
    hook.after_step(trainer, {"loss": tf.constant(2.0), "loss_scale": tf.constant(1.0),
                              "skipped": tf.constant(0, tf.int64)})
    assert ("Global step 2" in capsys.readouterr().out) is live
