"""Sweeps: their values and folders, which runs start, and what is said of those that fail."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from open_seq2seq.config.overrides import Override
from open_seq2seq.run import resolution, sweep
from open_seq2seq.run.run import Run
from open_seq2seq.run.sweep import Sweep, cells_of, folder_of, parse_grid
from open_seq2seq.training.loop.metrics_file import MetricsFile
from open_seq2seq.utils.errors import ConfigError, UserError

GRID = {"lr_policy_params/learning_rate": ["1e-3", "2e-3"], "random_seed": ["0", "1", "2"]}


@pytest.mark.parametrize("text, values", [
    ("a=1,2", ["1", "2"]), ("a=x", ["x"]), ("a=[1,2],[3]", ["[1,2]", "[3]"]), ("a='b,c',{d: e, f: g}",
                                                                              ["'b,c'", "{d: e, f: g}"]),
    ("--a=1, 2", ["1", "2"])])
def test_commas_outside_of_brackets_divide_values(text, values):
    assert parse_grid([text]) == {"a": values}


@pytest.mark.parametrize("texts, said", [
    (["a"], "write --sweep key/subkey=value,value"), (["a=1,,2"], "not understood"), (["a="], "not understood"),
    (["a=1,1"], "repeats a value"), (["a=1", "a=2"], "repeats a parameter"), (["logdir=x,y"], "not possible"),
    (["a//b=1"], "empty part"), (["eval_params=1"], "whole section")])
def test_mistakes_are_explained(texts, said):
    with pytest.raises(UserError, match=said):
        parse_grid(texts)


def test_the_name_of_a_folder_says_the_values():
    names = [cell.name for cell in cells_of(GRID, Path("s"))]
    assert names[:2] == ["learning_rate=1e-3,random_seed=0", "learning_rate=1e-3,random_seed=1"] and len({*names}) == 6
    assert cells_of(GRID, Path("s"))[5].words == [
        "--logdir=s/learning_rate=2e-3,random_seed=2", "--lr_policy_params/learning_rate=2e-3", "--random_seed=2"]


def test_equal_last_parts_of_paths_are_told_apart():
    grid = parse_grid(["encoder_params/dropout=0.1", "decoder_params/dropout=0.2"])
    assert cells_of(grid, Path("s"))[0].name == "encoder_params.dropout=0.1,decoder_params.dropout=0.2"


def test_names_have_no_characters_of_paths_and_stay_different():
    grid = {"file": ["a/b", "a_b", "../x", "x" * 300, "x" * 301, "ä"], **{f"k{n}": ["y" * 39] for n in range(9)}}
    names = [cell.name for cell in cells_of(grid, Path("s"))]
    assert len({*names}) == 6 and all("/" not in name and len(name) < 230 and name.isascii() for name in names)


@pytest.mark.parametrize(("values", "processes", "said"), [
    ({}, 1, "at least one parameter"), ({"random_seed": [0]}, 0, "at least one process"),
    ({"random_seed": 5}, 1, "'random_seed' has to have a list of values"),
    ({"random_seed": []}, 1, "'random_seed' has to have a list of values")])
def test_sweeps_from_python_that_cannot_be_made_are_refused(values, processes, said, tmp_path):
    with pytest.raises(UserError, match=said):
        Run("nmt-reversal-TT", logdir=tmp_path).sweep(values, processes=processes)


def test_a_sweep_of_too_many_runs_is_refused():
    with pytest.raises(UserError, match="more than 10,000 runs"):
        cells_of({"a": [str(n) for n in range(200)], "b": [str(n) for n in range(200)]}, Path("s"))


def options(params: dict[str, Any]) -> Any:
    config = SimpleNamespace(as_sections=lambda: params, params=lambda section: params)
    return SimpleNamespace(config=config, enable_logs=False)


def make_sweep(root: Path, processes: int = 1, **params: Any) -> Sweep:
    return Sweep(GRID, root, ["--mode=train_eval"], lambda words: options({"words": words, **params}), processes)


class FakeProcess:
    """A run that is complete at once; ``FAILING`` fail, and ``alive`` counts those at the same time."""

    has_trained = True

    failing: set[str] = set()
    started: list[str] = []
    alive = most = 0

    def __init__(self, cell, words, slot, in_logs):
        self.cell, self.looks = cell, 0
        FakeProcess.started.append(cell.name)
        FakeProcess.alive += 1
        FakeProcess.most = max(FakeProcess.most, FakeProcess.alive)

    def code(self):
        self.looks += 1
        if self.looks < 3:
            return None
        FakeProcess.alive -= 1
        if self.cell.name in self.failing:
            return 2
        self.cell.logdir.mkdir(exist_ok=True)
        seed, rate = int(self.cell.values["random_seed"]), float(self.cell.values["lr_policy_params/learning_rate"])
        MetricsFile(self.cell.logdir).write(10, 1.0, {"train_loss": 9.0, "val_loss": rate + seed})
        return 0

    def stop(self):
        self.looks = 3

    def wait(self):
        pass

    def problem(self):
        return "the loss is NaN."


TrueProcess = sweep._Process


def test_the_error_of_a_run_is_found_at_the_end_of_long_output(tmp_path):
    process = TrueProcess.__new__(TrueProcess)
    process._log = tmp_path / "run.log"
    process._log.write_text("*** Step 1\n" * 500_000 + "Error: the loss is NaN.\n\n")
    assert process.problem() == "the loss is NaN."


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(sweep, "_Process", FakeProcess)
    monkeypatch.setattr(sweep, "_SECONDS", 0.0)
    monkeypatch.setattr(FakeProcess, "failing", set())
    monkeypatch.setattr(FakeProcess, "started", [])
    monkeypatch.setattr(FakeProcess, "alive", 0)
    monkeypatch.setattr(FakeProcess, "most", 0)


def test_every_cell_runs_once_and_the_table_has_means(tmp_path):
    table, signum = make_sweep(tmp_path / "s", processes=4).run()
    assert signum is None and len(FakeProcess.started) == 6 and FakeProcess.most == 4
    assert table.best().values == ("1e-3",) and table.best().mean("val_loss") == pytest.approx(1.001)
    text = (tmp_path / "s" / "sweep.csv").read_text()
    assert make_sweep(tmp_path / "s").run()[0].as_csv() == text and len(FakeProcess.started) == 6
    assert "1 ± 1" in (tmp_path / "s" / "sweep.html").read_text(encoding="utf-8")


def test_a_changed_config_lets_runs_continue(tmp_path):
    make_sweep(tmp_path).run()
    make_sweep(tmp_path, max_steps=20).run()
    assert len(FakeProcess.started) == 12


def test_a_complete_run_with_another_config_and_no_update_left_fails(tmp_path, monkeypatch):
    make_sweep(tmp_path).run()
    monkeypatch.setattr(FakeProcess, "has_trained", False)
    with pytest.raises(UserError, match="complete with another config, and has no update left"):
        make_sweep(tmp_path, max_steps=20).run()


def test_a_complete_run_whose_folder_is_gone_starts_again(tmp_path):
    make_sweep(tmp_path / "s").run()
    name = FakeProcess.started[0]
    (tmp_path / "s" / name).rename(tmp_path / "moved")
    make_sweep(tmp_path / "s").run()
    assert FakeProcess.started[6:] == [name]


@pytest.mark.parametrize("text", ["random_seed=0,0", "lr_policy_params/learning_rate=1e-3,0.001", "logdir=a,b",
                                  "base_params/logdir=a,b"])
def test_repeated_values_and_log_directories_are_refused(text):
    with pytest.raises(ConfigError, match="repeats a value|is not possible"):
        sweep.parse_grid([text])


def test_the_section_of_all_modes_is_left_out():
    assert [*sweep.parse_grid(["base_params/random_seed=0,1"])] == ["random_seed"]


def test_failed_runs_are_left_out_and_tried_again(tmp_path, monkeypatch, capsys):
    bad = "learning_rate=2e-3,random_seed=1"
    monkeypatch.setattr(FakeProcess, "failing", {bad})
    with pytest.raises(UserError, match=f"1 of 6 runs failed, the first in {tmp_path}/{bad}: the loss is NaN. The "):
        make_sweep(tmp_path).run()
    assert "2 of 3" in capsys.readouterr().out
    monkeypatch.setattr(FakeProcess, "failing", set())
    assert [len(row.figures) for row in make_sweep(tmp_path).run()[0].rows] == [3, 3]
    assert FakeProcess.started[6:] == [bad]


def test_after_a_signal_no_run_starts(tmp_path, monkeypatch):
    class Interrupting(FakeProcess):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            if len(FakeProcess.started) == 2:
                signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(sweep, "_Process", Interrupting)
    assert make_sweep(tmp_path).run() == (None, signal.SIGTERM)
    assert len(FakeProcess.started) == 2 and len(make_sweep(tmp_path).run()[0].rows) == 2
    assert len({*FakeProcess.started}) == 6


@pytest.mark.parametrize("text", ["", "[]", '{"complete": {"a": 1}}', '{"complete": {}, "more": 1}', "[" * 10_000])
def test_a_file_that_is_no_list_is_not_replaced(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(UserError, match="is not the list of complete runs"):
        make_sweep(tmp_path).run()
    assert FakeProcess.started == [] and (tmp_path / "sweep.json").read_text() == text


def test_two_sweeps_in_a_folder_exclude_each_other(tmp_path):
    with sweep.LogDirLock(tmp_path), pytest.raises(UserError, match="is in use by process"):
        make_sweep(tmp_path).run()


def test_the_list_keeps_runs_of_other_values(tmp_path):
    make_sweep(tmp_path).run()
    other = Sweep({"random_seed": ["7"]}, tmp_path, [], lambda words: options({"words": words}))
    other.grid = {"lr_policy_params/learning_rate": ["5"], "random_seed": ["7"]}
    other.run()
    assert len(json.loads((tmp_path / "sweep.json").read_text())["complete"]) == 7


def test_the_folder_is_that_of_the_config_unless_given():
    def of_config(words):
        return options({"logdir": "of-config"})

    assert folder_of("given", GRID, of_config) == Path("given")
    assert folder_of(None, GRID, of_config) == Path("of-config")
    with pytest.raises(UserError, match="give --logdir"):
        folder_of(None, GRID, lambda words: options({}))


def test_each_run_gets_one_of_several_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [sweep._environment(slot, 2)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["3", "5", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert [sweep._environment(slot, 2)["CUDA_VISIBLE_DEVICES"] for slot in range(2)] == ["0,1", "2,3"]
    assert sweep._environment(0, 1)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    environment = sweep._environment(1, 2)
    assert environment["CUDA_VISIBLE_DEVICES"] == "3" and set(filter(None, sys.path)) <= {
        *environment["PYTHONPATH"].split(":")}


@pytest.mark.parametrize("value, text", [
    (1e-3, "0.001"), (True, "True"), (None, "None"), ("1e-3", "'1e-3'"), ("Adam", "Adam"), ((1, 2), "[1, 2]"),
    ({"a": [1, "b"]}, "{'a': [1, 'b']}")])
def test_values_of_python_become_words(value, text):
    assert sweep._as_text("key", value) == text


def test_values_without_words_are_refused():
    with pytest.raises(UserError, match="set it in the config"):
        sweep._as_text("optimizer", object)


def test_a_list_with_one_log_directory_stays_before_the_values_of_a_sweep(monkeypatch):
    monkeypatch.setattr(resolution, "resolve_run", lambda config, mode, overrides, **how: overrides)
    run = Run(None, logdir=["runs"])
    first = Override(None, ("random_seed",), 0)
    assert run._with([*run._overrides, first]).options("train") == [Override(None, ("logdir",), "runs"), first]
