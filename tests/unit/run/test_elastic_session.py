"""The order of things in elastic training: what is kept when, and which errors end it."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from open_seq2seq.checkpoints.run_variables import RunPosition
from open_seq2seq.parts.component import Module
from open_seq2seq.run import elastic_session, training_setup
from open_seq2seq.run.elastic_session import MOST_VAIN_MEETINGS, CommitHook, ElasticTraining, Kept
from open_seq2seq.runners.horovod.elastic import HostsChanged, Membership, RanksLost
from open_seq2seq.training.loop.stopping import StopRequest
from open_seq2seq.utils.errors import ConfigError, DataError, UserError


class Group:
    """A membership whose meetings end as they are told to."""

    judge = Membership.judge
    changed = False

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.parted = list(errors), 0

    def meet(self):
        raise self.errors.pop(0)

    def part(self, lost: bool) -> None:
        self.parted += 1


def training(*errors: Exception) -> ElasticTraining:
    return ElasticTraining(None, {"train": SimpleNamespace(full_params={})}, Group(*errors))


@pytest.mark.long
def test_losses_without_an_update_in_between_end_the_run():
    run = training(*[RanksLost("rank 1 was lost")] * 10)
    for _ in range(MOST_VAIN_MEETINGS):
        assert run.attempt() is None
        run.part()
    with pytest.raises(UserError, match=f"lost {MOST_VAIN_MEETINGS} times in a row.*rank 1 was lost"):
        run.attempt()


def test_losses_after_updates_do_not():
    run = training(*[RanksLost("rank 1 was lost")] * 10)
    for step in range(10):
        run._kept.reached = step
        assert run.attempt() is None


def test_changes_of_hosts_do_not():
    run = training(*[HostsChanged("hosts were added")] * 10)
    assert [run.attempt() for _ in range(10)] == [None] * 10


@pytest.mark.parametrize("error", [DataError("train.src:5 cannot be read"), RuntimeError("a bug"), MemoryError()])
def test_errors_of_this_process_end_the_run(error):
    with pytest.raises(type(error)):
        training(error).attempt()


def test_a_model_that_carries_state_is_refused(monkeypatch):
    model = Module()
    model.hidden = model.carried_state([2])
    monkeypatch.setattr(training_setup, "build_models", lambda *_: (model, None))
    with pytest.raises(ConfigError, match=r"--elastic .* \(hidden\)"):
        training()._make_trainer(None, 0)


def test_a_signal_is_heeded_by_the_next_group(monkeypatch):
    monkeypatch.setattr(training_setup, "build_models", lambda *_: (Module(), None))
    monkeypatch.setattr(training_setup, "make_trainer", lambda *_: MagicMock(stop=StopRequest()))
    run = training()
    trainer = run._make_trainer(None, 0)
    assert not trainer.stop.requested
    trainer.stop.signum = signal.SIGTERM
    run.part()
    assert run._make_trainer(None, 0).stop.signum == signal.SIGTERM


class Keeping(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []

    def take(self, trainer) -> None:
        self.taken.append(trainer.step)


def trainer_at(step: int, chief_says: bool):
    settled: list[int] = []
    return SimpleNamespace(step=step, finished=False, settled=settled, settle=lambda: settled.append(step),
                           runner=SimpleNamespace(share=lambda own: chief_says))


def test_the_state_is_kept_every_few_updates():
    kept, group = Keeping(), Group()
    hook = CommitHook(kept, group, 5)
    hook.begin(trainer_at(3, False))
    for step in range(4, 17):
        hook.after_step(trainer_at(step, False), {})
    hook.end(trainer_at(17, False))
    assert kept.taken == [3, 5, 10, 15, 17] and kept.reached == 16


def test_a_change_of_hosts_is_heeded_by_all_between_two_updates_with_the_state_kept():
    kept, group = Keeping(), Group()
    hook = CommitHook(kept, group, 5)
    hook.after_step(trainer_at(9, True), {})
    trainer = trainer_at(10, True)  # this process knows of nothing, but the first one does
    with pytest.raises(HostsChanged):
        hook.after_step(trainer, {})
    assert kept.taken == [10] and trainer.settled == [10]


def test_the_time_of_training_and_the_metrics_go_on_in_a_new_group(monkeypatch):
    run, trainer = training(), MagicMock(began=100.0)
    monkeypatch.setattr(run, "_make_trainer", lambda runner, seed: trainer)
    monkeypatch.setattr(elastic_session, "in_choice", lambda specs, choice: specs)
    monkeypatch.setattr(elastic_session, "GoodState", MagicMock())
    run._kept.take(MagicMock(last_metrics={"WER": 0.5}))
    position = RunPosition(20, 0, 40, 1, 2, {}, None, seconds=30.0)
    runner = MagicMock(process_rank=1, world_size=3, gather=lambda own: [{"WER": 0.7}, *own, {}])
    assert run._continue(runner, position, 0, []) is trainer
    assert trainer.began == 70.0 and trainer.last_metrics == {"WER": 0.7}  # those of rank 0, whose state is used
    run._continue(runner, position, 1, [])
    assert trainer.last_metrics == {"WER": 0.5}
