"""Whether a resumed run makes up the evaluation of its checkpoint."""

from types import SimpleNamespace
from typing import Any

import pytest

from open_seq2seq.training.loop.builtin_hooks import awaits_evaluation


def trainer(step: int, evaluated_at: int, finished: bool = False, awaits: bool = False, diverged_at: int = -1) -> Any:
    waiting = SimpleNamespace(awaits=lambda step: awaits)
    return SimpleNamespace(step=step, evaluated_at=evaluated_at, finished=finished, optimizer=waiting,
                           early_stopping=waiting, eval_model=SimpleNamespace(params={"eval_steps": 4}),
                           divergence=SimpleNamespace(events=[{"step": diverged_at}]))


@pytest.mark.parametrize(("made", "expected"), [
    (trainer(8, 4), True), (trainer(8, 8), False), (trainer(7, 4), False), (trainer(0, -1), False),
    (trainer(7, 4, finished=True), True), (trainer(7, 7, finished=True), False),
    (trainer(8, 8, awaits=True), True),  # averaging or early stopping depends on the result
    (trainer(8, 8, finished=True, awaits=True), False),  # and nothing follows
    (trainer(8, 4, diverged_at=8), False),  # a run that is not interrupted does not evaluate there, either
    (trainer(8, 4, finished=True, diverged_at=8), True),  # but it does at its end
])
def test_the_evaluation_of_a_checkpoint_is_made_up_if_it_is_due_and_incomplete(made, expected):
    assert awaits_evaluation(made) == expected


def test_without_an_evaluation_model_nothing_is_made_up():
    made = trainer(8, 4)
    made.eval_model = None
    assert not awaits_evaluation(made)
