"""Models in Python: loaded in threads and beside one another, and freed when they are no longer used."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import tensorflow as tf

import open_seq2seq
from open_seq2seq.parts.component import Module, creating_variables

OWN = """
from open_seq2seq.models import Text2Text

class Own(Text2Text):
    def evaluate(self, input_values, output_values):
        return len(input_values["ids"])
"""


def test_each_thread_creates_its_own_kind_of_variables():
    entered, made = threading.Barrier(2), {}

    def create(shared: bool) -> None:
        with creating_variables(seed=3, shared=shared):
            entered.wait(100)
            made[shared] = [isinstance(Module().weight([2]), tf.Variable) for _ in range(100)]
            entered.wait(100)

    threads = [threading.Thread(target=create, args=(shared,)) for shared in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == {True: [False] * 100, False: [True] * 100}


@pytest.mark.long
def test_threads_load_models_while_another_one_computes(trained: Path):
    running = open_seq2seq.load(trained / "run")
    expected, answers, ended = running.translate(["a b c", "f e"]), [], threading.Event()

    def load() -> None:
        answers.append(open_seq2seq.load(trained / "run").translate(["a b c", "f e"]))

    def compute() -> None:
        while not ended.wait(0.2):
            answers.append(running.translate(["a b c", "f e"]))

    computing, *loading = [threading.Thread(target=target) for target in (compute, load, load)]
    for thread in (computing, *loading):
        thread.start()
    for thread in loading:
        thread.join()
    ended.set()
    computing.join()
    assert len(answers) > 2 and all(answer == expected for answer in answers)


@pytest.mark.long
def test_nothing_of_a_model_remains_when_it_is_no_longer_used(trained: Path):
    counts = []
    for _ in range(3):
        model = open_seq2seq.load(trained / "run")
        model.translate("a b c")
        del model
        gc.collect()
        counts.append(sum(type(thing).__name__ in ("FuncGraph", "SymbolicTensor", "Operation")
                          for thing in gc.get_objects()))
    assert counts[1] >= counts[2]  # less, where something of earlier tests has been freed


@pytest.mark.long
def test_evaluate_can_be_overridden(workspace: Path, command):
    (workspace / "own.py").write_text(OWN, encoding="utf-8")
    config = workspace / "config.py"
    text = config.read_text(encoding="utf-8") + f'\nbase_model = "{workspace}/own.py:Own"\n'
    config.write_text(text, encoding="utf-8")
    code, _, err = command("--mode=train_eval", "--max_steps=2")
    assert code == 2 and "Own overrides evaluate, but not finalize_evaluation" in err and "Traceback" not in err
    config.write_text(text.replace("own.py", "whole.py"), encoding="utf-8")
    (workspace / "whole.py").write_text(OWN + "\n    def finalize_evaluation(self, results, step=None):\n"
                                      "        return {'examples': float(sum(results))}\n", encoding="utf-8")
    code, _, err = command("--mode=train_eval", "--max_steps=2", f"--logdir={workspace}/other")
    assert code == 0, err
    assert "examples,20.0" in (workspace / "other" / "metrics.csv").read_text(encoding="utf-8")
