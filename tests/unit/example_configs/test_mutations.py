"""Recipes with hostile values: before anything is made each is accepted, or refused in sentences."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from open_seq2seq.models.builder import build_model
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.errors import UserError
from tests.unit.example_configs.mutations import (
    HELD,
    TOYS,
    TYPED,
    Mutation,
    ToyData,
    check,
    paths_of,
    recipes_on_toy_data,
)

SECTIONS = ("train", "eval", "infer")
# A failing example is a config by itself: there is nothing to make smaller.
ONCE = {"deadline": None, "derandomize": True, "database": None, "phases": [Phase.generate],
        "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    return ToyData(tmp_path_factory.mktemp("toy"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what relative names make does no harm."""
    monkeypatch.chdir(tmp_path)


@functools.cache
def places(recipes: tuple[Path, ...], sections: tuple[str, ...]) -> list[tuple[Path, str, tuple[Any, ...]]]:
    return [(recipe, section, path) for recipe in recipes for section in sections for path in paths_of(recipe, section)]


def mutations(recipes: tuple[Path, ...], sections: tuple[str, ...] = SECTIONS) -> st.SearchStrategy[Mutation]:
    values = st.one_of(st.tuples(st.sampled_from(TYPED), st.just(True)),
                       st.tuples(st.sampled_from(HELD), st.just(False)))
    return st.builds(lambda place, value: Mutation(*place, *value), st.sampled_from(places(recipes, sections)), values)


RECIPES = recipes_on_toy_data()
ALL = mutations(tuple(RECIPES))


def assert_answered(mutation: Mutation, data: ToyData) -> None:
    try:
        check(mutation, data)
    except UserError as error:
        assert str(error).strip()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_accepted_on_toy_data(recipe: Path, data: ToyData):
    for section in SECTIONS:
        check(Mutation(recipe, section, ("random_seed",), "7", True), data)


@pytest.mark.long
@settings(max_examples=200, **ONCE)
@given(mutation=ALL)
def test_a_hostile_value_is_accepted_or_refused(mutation: Mutation, data: ToyData):
    assert_answered(mutation, data)


@pytest.mark.slow
@settings(max_examples=2000, **ONCE)
@given(mutation=ALL)
def test_many_hostile_values_are_accepted_or_refused(mutation: Mutation, data: ToyData):
    assert_answered(mutation, data)


def assert_trains_if_accepted(mutation: Mutation, data: ToyData) -> bool:
    try:
        spec = check(mutation, data)
        model = build_model(spec, seed=1)
        trainer = Trainer(model, None, Runner(), seed=1)
    except UserError:
        return False
    trainer.try_batch(np.arange(2))
    return int(trainer.optimizer.updates) <= 1


def trained(count: int, data: ToyData) -> int:
    """Trains what is accepted of a fixed sequence of mutations, until ``count`` did."""
    draw, done = random.Random(count), 0
    for _ in range(100 * count):
        place = draw.choice(places(TOYS, ("train",)))
        typed = draw.random() < 0.5
        done += assert_trains_if_accepted(Mutation(*place, draw.choice(TYPED if typed else HELD), typed), data)
        if done == count:
            break
    return done


@pytest.mark.long
@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_what_is_accepted_trains_a_step(count: int, data: ToyData):
    assert trained(count, data) == count
