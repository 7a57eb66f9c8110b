"""The progress line: mean loss, rate, epoch, speed and time left, and a bar on a terminal."""

import io
import os
from types import SimpleNamespace

import pytest
import tensorflow as tf

from open_seq2seq.run.logs import Tee
from open_seq2seq.training.loop.builtin_hooks import MeanLoss, ProgressHook
from open_seq2seq.utils.console import Bar, EnduringStream, deco_print, format_time, tracked


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """The time, which only the test advances."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("time.perf_counter", lambda: now.seconds)
    return now


def make_trainer(in_half=False, num_processes=1, last_step=101):
    return SimpleNamespace(step=0, objects=0, waited=0.0, paused=0.0, last_step=last_step, epochs=0.25, finished=False,
                           in_half=in_half, model=SimpleNamespace(object_name="tokens"),
                           runner=SimpleNamespace(num_processes=num_processes))


def step(hook, trainer, clock, seconds, loss=2.0, scale=1.0, skipped=0):
    trainer.step += 1
    trainer.objects += 100
    clock.seconds += seconds
    hook.after_step(trainer, {"loss": tf.constant(loss), "loss_scale": tf.constant(scale),
                              "learning_rate": tf.constant(3e-4), "skipped": tf.constant(skipped, tf.int64)})


@pytest.mark.parametrize(("in_half", "scale", "skipped", "expected"), [
    (True, 16384.0, 3, ", loss scale 16384, skipped 3, epoch "),
    (True, 0.25, 0, ", loss scale 0.25, skipped 0, epoch "),
    (True, 4194304.0, 0, ", loss scale 4194304, skipped 0, epoch "), (False, 1.0, 0, "rate 0.0003, epoch "),
    (True, 1.0, 0, "rate 0.0003, epoch "), (True, 1.0, 2, "rate 0.0003, skipped 2, epoch "),
    (False, 1.0, 2, "rate 0.0003, skipped 2, epoch "),
])
def test_half_precision_shows_its_scale(capsys, clock, in_half, scale, skipped, expected):
    trainer, hook = make_trainer(in_half), ProgressHook(1)
    hook.begin(trainer)
    step(hook, trainer, clock, 1.0, 2.0, scale, skipped)
    assert expected in capsys.readouterr().out


def test_the_first_step_counts_neither_for_the_speed_nor_for_the_time_left(capsys, clock):
    trainer, hook = make_trainer(), ProgressHook(2)
    hook.begin(trainer)
    step(hook, trainer, clock, 300.0, loss=9.0)
    step(hook, trainer, clock, 2.0, loss=3.0)
    for loss in (2.0, 1.0):
        step(hook, trainer, clock, 2.0, loss=loss)
    assert capsys.readouterr().out.splitlines() == [
        "*** Step 1: loss 9.0000, rate 0.0003, epoch 0.25, 300.0 s with compilation",
        "*** Step 2: loss 6.0000, rate 0.0003, epoch 0.25, 50 tokens/s, 3 min left",
        "*** Step 4: loss 1.5000, rate 0.0003, epoch 0.25, 50 tokens/s, 3 min left"]


def test_the_last_line_follows_the_last_update_even_if_updates_were_skipped(capsys, clock):
    trainer, hook = make_trainer(last_step=3), ProgressHook(10)
    hook.begin(trainer)
    for number in range(1, 6):
        trainer.finished = number == 5
        step(hook, trainer, clock, 1.0, skipped=2)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["*** Step 1", "*** Step 5"]


def test_evaluations_count_for_the_time_left_but_not_for_the_speed(capsys, clock):
    trainer, hook = make_trainer(), ProgressHook(10)
    hook.begin(trainer)
    for number in range(10):
        step(hook, trainer, clock, 1.0)
        if number == 4:
            clock.seconds, trainer.paused = clock.seconds + 90.0, trainer.paused + 90.0
    assert "100 tokens/s, 17 min left" in capsys.readouterr().out.splitlines()[-1]  # 91 steps of (9 + 90) / 9 s


def test_input_wait_is_shown_where_it_matters(capsys, clock):
    trainer, hook = make_trainer(), ProgressHook(1)
    hook.begin(trainer)
    for waited in (0.0, 0.04, 0.5):
        trainer.waited += waited
        step(hook, trainer, clock, 1.0)
    lines = capsys.readouterr().out.splitlines()
    assert "input wait" not in lines[1] and "50% input wait" in lines[2]


def test_losses_that_are_not_finite_do_not_hide_the_others():
    loss = MeanLoss()
    loss.add(tf.constant(float("nan")))
    assert str(loss.value()) == "nan"
    loss.add(tf.constant(2.0))
    loss.add(tf.constant(4.0))
    assert loss.value() == 3.0


@pytest.mark.parametrize(("num_processes", "shown"), [(1, True), (2, False)])
def test_a_single_process_shows_a_bar_on_a_terminal(monkeypatch, clock, num_processes, shown):
    terminal, log = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stdout", Tee(terminal, EnduringStream(log, "log")))
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((80, 24)))
    trainer, hook = make_trainer(num_processes=num_processes), ProgressHook(100)
    hook.begin(trainer)
    for _ in range(3):
        step(hook, trainer, clock, 1.0)
    deco_print("a line")
    hook.end(trainer)
    text = terminal.getvalue()
    assert ("Step 3/101: loss 2.00, 100 tokens/s, 98 s left" in text) is shown and ("\u2501" in text) is shown
    assert text.endswith("*** a line\n")
    if shown:  # the line replaces the bar
        assert text.rpartition("\r\x1b[K")[2] == "*** a line\n"
        longest = max(len(line) for line in text.replace("\x1b[K", "\r").split("\r"))
        assert longest < 80 + 40  # colours included
    assert "\r" not in log.getvalue() and "a line" in log.getvalue()


def test_nothing_but_lines_where_the_output_is_no_terminal(capsys, clock):
    bar = Bar(10)
    clock.seconds = 9.0
    bar.update(5, "half")
    assert list(tracked(range(3), 3, "Counting")) == [0, 1, 2]
    assert capsys.readouterr().out == ""


def test_times_are_clear_without_a_legend():
    assert [format_time(s) for s in (-1, 42.4, 130, 1320, 13320)] == ["0 s", "42 s", "2 min", "22 min", "3 h 42 min"]
