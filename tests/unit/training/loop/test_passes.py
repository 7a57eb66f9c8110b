"""Passes that compute several batches at once, and those of models whose subclasses override some of the methods."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from open_seq2seq.data.contiguous import PassBatch
from open_seq2seq.models import Image2Label, LanguageModel, Speech2Text, Text2Label, Text2Text
from open_seq2seq.runners import Runner
from open_seq2seq.training.loop import passes
from open_seq2seq.training.loop.passes import EvaluationPass, _explaining, overlapped
from open_seq2seq.utils.errors import UserError


def made(base, **methods):
    """An evaluation pass, without the parts that it needs to run, of a subclass with these methods."""
    found = EvaluationPass.__new__(EvaluationPass)
    found.model, found._runner = object.__new__(type("Own", (base,), methods)), Runner()
    return found


def method(*results):
    return lambda self, *arguments: results


@pytest.mark.parametrize("base", [Text2Text, Speech2Text, LanguageModel, Image2Label, Text2Label])
def test_results_of_an_own_evaluate_are_read_by_own_methods_alone(base):
    shown = [name for name in ("worst_examples", "report_evaluation") if name in vars(base)]
    assert all(made(base)._shows(name) for name in shown)
    assert not any(made(base, evaluate=method(0.5))._shows(name) for name in shown)
    assert all(made(base, evaluate=method(0.5), **{name: method()})._shows(name) for name in shown)
    own = made(base, evaluate=method(0.5), finalize_evaluation=lambda self, results, step: {"mine": sum(results)})
    assert own._metrics([1.0, 2.0], None) == {"mine": 3.0}
    with pytest.raises(UserError, match=r"^Own overrides evaluate, but not finalize_evaluation, which .*: override"):
        made(base, evaluate=method(0.5))._metrics([0.5], None)


def test_other_errors_remain_what_they_are():
    for methods in ({}, {"evaluate": method(), "finalize_evaluation": method()}):
        with pytest.raises(ZeroDivisionError), _explaining(made(Text2Text, **methods).model, "evaluate",
                                                           "finalize_evaluation"):
            1 / 0  # noqa: B018


def test_two_items_are_computed_at_once_and_returned_in_order():
    both_run, taken = threading.Barrier(2, timeout=100), []

    def compute(item):
        if item < 2:
            both_run.wait()
        return item * item

    def items():
        for item in range(5):
            taken.append(threading.current_thread())
            yield item

    assert list(overlapped(compute, items(), 2)) == [(item, item * item) for item in range(5)]
    assert set(taken) == {threading.current_thread()}


@pytest.mark.parametrize(("count", "at_once"), [(1, 1), (3, 1), (1, 2), (0, 2)])
def test_what_is_not_computed_at_once_stays_in_the_thread_of_the_caller(count, at_once):
    here = threading.current_thread()
    assert list(overlapped(lambda item: threading.current_thread(), range(count), at_once)) == [
        (item, here) for item in range(count)]


@pytest.mark.parametrize("change", [{"searches": False}, {"contiguous": True}, {"cores": 1}, {"processes": 2}, {}])
def test_only_searches_of_one_process_on_several_cores_compute_two_batches_at_once(monkeypatch, change):
    case = {"searches": True, "contiguous": False, "cores": 2, "processes": 1, **change}
    monkeypatch.setattr(passes.tf.config, "get_visible_devices", lambda kind: [])
    monkeypatch.setattr(passes, "cores_allowed", lambda: case["cores"])
    model = SimpleNamespace(searches=case["searches"], data_layer=SimpleNamespace(contiguous=case["contiguous"]))
    runner = SimpleNamespace(local_replicas=1, num_processes=case["processes"])
    assert passes._at_once(model, runner) == (1 if change else 2)


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_speed_is_that_of_rounds_after_the_first_ones(monkeypatch, capsys, at_once):
    class Examples:
        mode, object_name = "infer", "tokens"
        data_layer = SimpleNamespace(describe_example=str)

        def num_objects(self, batch):
            return 60

    clock = [0.0]

    def computed(rounds):
        for batches, _ in overlapped(lambda batches: None, rounds, at_once):
            clock[0] += 100.0 if batches[0].number < at_once else 2.0  # with the time of tracing
            yield batches, None

    monkeypatch.setattr(passes.time, "perf_counter", lambda: clock[0])
    rounds = [[PassBatch(number, True, {"ids": [number]})] for number in range(5)]
    with passes._Progress(Examples(), Runner(), 5, True, at_once) as progress:
        assert [batches for batches, _ in progress.counted(computed(progress.over(rounds)))] == rounds
    lines = capsys.readouterr().out
    assert lines.count("Processed") == 5 and "Speed: 30 tokens/s" in lines


def test_no_more_items_are_taken_than_are_computed():
    taken = iter(range(100))
    results = overlapped(str, taken, 3)
    assert next(results) == (0, "0") and next(taken) == 3
    results.close()
    with pytest.raises(ZeroDivisionError):
        list(overlapped(lambda item: 1 / item, [1, 0, 2], 2))


@pytest.mark.parametrize(("batches", "at_once", "groups"), [
    (5, 2, [2, 2, 2, 1]), (2, 2, [2, 2]), (1, 2, [1, 1]), (3, 1, [1, 1, 1, 1])])
def test_rounds_are_timed_as_a_pass_computes_them(monkeypatch, batches, at_once, groups):
    class Loader(list):
        def __init__(self, layer, plan, order):
            super().__init__(order)

        def close(self):
            pass

    clock, timed = [0.0], []

    def evaluated(self, rounds):
        timed.append(rounds)
        clock[0] += 4.0 if len(timed) > 1 else 50.0  # the first ones include the time of tracing
        return iter(())

    monkeypatch.setattr(passes, "evaluation_plan", lambda layer: range(batches))
    monkeypatch.setattr(passes, "PlanLoader", Loader)
    monkeypatch.setattr(passes.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(EvaluationPass, "_evaluated", evaluated)
    one = made(Text2Text)
    one.model.data_layer, one._at_once = None, at_once
    seconds, measured, total = one.time_rounds(1000.0, 1000.0)
    assert total == batches and measured == sum(groups[1:]) and list(map(len, timed)) == groups
    assert seconds == [4.0 / size for size in groups[1:]]
