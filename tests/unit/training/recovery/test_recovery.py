"""What a run that stops says, on each rank."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from open_seq2seq.training.loop.diagnosis import Diagnosis
from open_seq2seq.training.loop.divergence import Attempt, Divergence
from open_seq2seq.training.recovery.good_state import GoodState
from open_seq2seq.training.recovery.recovery import Counters, DivergenceError, Incident, Recovery, SuspectBatch

NEWEST = GoodState("model.ckpt-50", 50, {}, {"updates": np.array(50)})


def suspect_with(loss: float) -> SuspectBatch:
    return SuspectBatch({"ids": np.array([0])}, 56, {}, 1.0, Diagnosis(loss))


def incident_of(suspect: SuspectBatch, examples: list[str], newest: GoodState | None) -> Incident:
    divergence = Divergence(Attempt(57, [], {}), "the loss is not finite")
    return Incident(divergence, Counters(56, 0, 0, 1.0), suspect, examples, newest)


@pytest.mark.parametrize("rank", [0, 1])
def test_all_ranks_name_the_batch_at_fault_and_the_checkpoint_that_rank_0_knows(monkeypatch, rank):
    good, bad = suspect_with(1.0), suspect_with(float("nan"))
    reports = [(good, ["a.csv:5"], NEWEST), (bad, ["b.csv:901"], None)]
    saved: list[SuspectBatch] = []

    def keep(recovery, incident, event):
        saved.append(incident.suspect)
        return Path("run/divergence/step-57") if rank == 0 else None

    monkeypatch.setattr(Recovery, "_keep", keep)
    runner = MagicMock(process_rank=rank, num_processes=2, share=lambda text: text if rank == 0 else "as on rank 0")
    runner.gather.side_effect = [[False, True], [None, (bad, ["b.csv:901"])]]
    recovery = Recovery(MagicMock(runner=runner, summaries=None, model=MagicMock(params={"on_divergence": "stop"}),
                                  divergence=MagicMock(events=[])))
    assert recovery._problem(reports[rank][2]) is None
    with pytest.raises(DivergenceError) as raised:
        recovery._stop(incident_of(*reports[rank]), None)
    first, second = (call.args[0] for call in runner.gather.call_args_list)
    assert first == [rank == 1] and (second == [None] if rank == 0 else second[0][0] is bad)
    assert len(saved) == 1 and saved[0] is bad
    assert str(raised.value) == (
        "Training diverged at step 57: the loss is not finite, on b.csv:901. Lower the learning rate, or correct or "
        "leave out these examples, and resume from model.ckpt-50 with --continue_learning. The batch is saved in "
        "run/divergence/step-57." if rank == 0 else "as on rank 0")


def test_a_run_that_stops_before_its_first_checkpoint_may_recover_another_time():
    verdict = incident_of(suspect_with(1.0), ["a.csv:5"], None).verdict(None, None)
    assert verdict.endswith("and start again, perhaps with on_divergence=roll_back.")
