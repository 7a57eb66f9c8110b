"""Signals that ask a training to stop."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from open_seq2seq.training.loop.stopping import StopRequest

HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in (HUP, INT, TERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("signals", [(HUP,), (TERM,), (INT,), (TERM, TERM), (TERM, HUP), (INT, TERM, HUP), (HUP, HUP)])
def test_the_first_signal_counts_and_further_ones_change_nothing(signals):
    before = [signal.getsignal(number) for number in (HUP, INT, TERM)]
    with StopRequest() as stop:
        assert not stop.requested
        for number in signals:
            os.kill(os.getpid(), number)
        assert stop.signum == signals[0]
    assert [signal.getsignal(number) for number in (HUP, INT, TERM)] == before


def test_a_checkpoint_is_promised_only_where_one_is_saved(capsys):
    for saves in (True, False):
        with StopRequest(saves):
            os.kill(os.getpid(), TERM)
        assert ("checkpoint" in capsys.readouterr().out) == saves


@pytest.mark.parametrize("first", [INT, TERM, HUP])
def test_a_second_interrupt_from_the_keyboard_stops_at_once(first):
    with pytest.raises(KeyboardInterrupt), StopRequest():
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), INT)


def test_a_hangup_that_is_ignored_stays_ignored():
    signal.signal(HUP, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), HUP)
        assert not stop.requested
        os.kill(os.getpid(), TERM)
        assert stop.signum == TERM
    assert signal.getsignal(HUP) is signal.SIG_IGN


def test_a_handler_that_python_did_not_set_gives_way(monkeypatch):
    real, set_again = signal.signal, []
    monkeypatch.setattr(signal, "signal", lambda number, handler: set_again.append(handler))  # returns None
    with contextlib.suppress(AttributeError), StopRequest():
        pass
    monkeypatch.setattr(signal, "signal", real)
    assert set_again[3:] == [signal.SIG_DFL] * 3
