"""How a training ends if not all ranks have received the signal that stops it."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from open_seq2seq.training import train as training
from open_seq2seq.training.loop.stopping import StopRequest


@pytest.mark.parametrize(("signals", "expected", "calls"), [
    ([None, None], None, ["end", "wait"]),
    ([None, signal.SIGTERM], signal.SIGTERM, ["end", "wait", "save", "wait"]),
    ([signal.SIGHUP, signal.SIGTERM], signal.SIGHUP, ["end", "wait", "save", "wait"])])
def test_all_ranks_end_by_the_signal_that_any_rank_received(monkeypatch, signals, expected, calls):
    """This rank, the first, receives its signal while the hooks end, as during the last evaluation."""
    monkeypatch.setattr(training, "hooks_of", lambda trainer: [])
    monkeypatch.setattr(training, "Recovery", lambda trainer: None)
    made: list[str] = []

    def gather(own: list[Any]) -> list[Any]:
        assert own == signals[:1]
        return signals

    def end(trainer: Any) -> None:
        made.append("end")
        trainer.stop.signum = signals[0]

    trainer: Any = SimpleNamespace(
        stop=StopRequest(), step=3, trackers=[], is_whole=True, runner=SimpleNamespace(num_processes=2, gather=gather),
        run_steps=lambda hooks: None, save_checkpoint=lambda: made.append("save"),
        wait_for_checkpoint=lambda: made.append("wait"))
    hook: Any = SimpleNamespace(begin=lambda trainer: None, end=end)
    assert (training.train(trainer, [hook]), made) == (expected, calls)
