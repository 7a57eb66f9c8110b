"""Sweeps: a training for each combination of values, each in a log directory of its own, and one table of all.

Each training is a process of its own: the command line with other values. A sweep that was stopped or killed is
continued by the same call. Its folder lists the trainings that are complete; the others resume from their own
checkpoints.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints.folders import checkpoint_folder, find_checkpoints
from open_seq2seq.config.overrides import Override, parse_overrides, parse_value
from open_seq2seq.config.params import shown
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.models.model_params import BEST_METRIC, BEST_METRIC_MODE
from open_seq2seq.report.content import read_content
from open_seq2seq.report.page import explaining
from open_seq2seq.report.sweep import PAGE, TABLE, SweepTable, figures_of, sweep_table
from open_seq2seq.run.logdir import LogDirLock, config_checksum, is_marked
from open_seq2seq.training.loop.stopping import StopRequest
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import opened_data
from open_seq2seq.utils.errors import ConfigError, DataError, UserError
from open_seq2seq.utils.own_files import NotOwnFileError, read_own

Grid = Mapping[str, Sequence[str]]
"""Path of a parameter → its values, as they are written on the command line."""
OptionsOf = Callable[[list[str]], RunOptions]
"""Returns the checked options of the run with these words in addition to those of the sweep."""

_LIST = "sweep.json"
_COMPLETE = "complete"
_MOST_RUNS = 10_000
_MOST_BYTES = 1 << 22  # of the list
_LAST_BYTES = 1 << 16  # of the output of a run, where its error is
_LONGEST_VALUE, _LONGEST_NAME = 40, 200  # characters in the name of a folder
_SECONDS = 0.1  # between two looks at the processes
_GPUS = "CUDA_VISIBLE_DEVICES"


def parse_grid(texts: Iterable[str]) -> dict[str, list[str]]:
    """Returns the values of a sweep by path.

    >>> parse_grid(["lr_policy_params/learning_rate=1e-3,2e-3", "summaries=[a,b],[]"])
    {'lr_policy_params/learning_rate': ['1e-3', '2e-3'], 'summaries': ['[a,b]', '[]']}

    Args:
      texts: for each parameter, ``path=value,value,…``; commas in brackets or quotes belong to a value.

    Raises:
      ConfigError: a text has another form, or a path or value occurs twice.
    """
    grid: dict[str, list[str]] = {}
    problems = []
    for text in texts:
        path, equals, rest = text.removeprefix("--").partition("=")
        values = _divided(rest)
        if not equals or not path or not all(values):
            problems.append(f"'--sweep {text}' is not understood: write --sweep key/subkey=value,value.")
        elif path in grid or len({repr(parse_value(value)) for value in values}) < len(values):
            problems.append(f"'--sweep {text}' repeats {'a parameter' if path in grid else 'a value'}: give each once.")
        grid[path] = values
    if problems:
        raise ConfigError(problems)
    overrides = parse_overrides([f"--{path}={values[0]}" for path, values in grid.items()])
    if any(one.keys == ("logdir",) for one in overrides):
        raise ConfigError(["'--sweep logdir' is not possible: each run has a folder in the logdir of the sweep."])
    names = [one.name.removeprefix("--").removeprefix("base_params/") for one in overrides]
    return dict(zip(names, grid.values(), strict=True))


def _divided(text: str) -> list[str]:
    """Returns the parts of a text between the commas that are outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
        if char == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes:
      name: name of its folder, which says its values, such as ``learning_rate=1e-3,random_seed=0``.
      values: path of a parameter → its value, as text.
      logdir: its log directory.
    """

    name: str
    values: dict[str, str]
    logdir: Path

    @property
    def words(self) -> list[str]:
        """The words of the command line for its log directory and values."""
        return [f"--logdir={self.logdir}", *(f"--{path}={value}" for path, value in self.values.items())]


def cells_of(grid: Grid, root: Path) -> list[Cell]:
    """Returns the runs of a sweep, with folders below ``root``.

    Raises:
      UserError: there are too many.
    """
    if (count := len([*itertools.islice(itertools.product(*grid.values()), _MOST_RUNS + 1)])) > _MOST_RUNS:
        raise UserError(f"The sweep has more than {count - 1:,} runs: give fewer values.")
    last = Counter(path.rpartition("/")[2] for path in grid)
    short = {path: name if last[name := path.rpartition("/")[2]] == 1 else path.replace("/", ".") for path in grid}
    cells = []
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        name = ",".join(f"{short[path]}={_in_name(value, _LONGEST_VALUE)}" for path, value in chosen.items())
        name = _in_name(name, _LONGEST_NAME, "=,")
        cells.append(Cell(name, chosen, root / name))
    return cells


def _in_name(text: str, longest: int, more: str = "") -> str:
    """Returns a text as a part of a folder's name; with a checksum if characters were replaced or left out."""
    plain = re.sub(rf"[^\w.+\-{more}]", "_", text, flags=re.ASCII)[:longest]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass
class Sweep:
    """The runs of a sweep, and the folder that they are in.

    Args:
      grid: the values of the sweep.
      root: the folder of the sweep.
      words: the words of the command line that all runs have in common, without a log directory.
      options_of: see ``OptionsOf``.
      processes: number of runs at the same time.
    """

    grid: Grid
    root: Path
    words: Sequence[str]
    options_of: OptionsOf
    processes: int = 1
    _failed: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)  # runs that were complete with another config

    def run(self) -> tuple[SweepTable | None, int | None]:
        """Trains what is not complete, and writes and prints the table.

        Returns:
          (the table, the number of the signal that stopped the sweep); one of them is None.

        Raises:
          UserError: a config has a mistake, before any training starts; or trainings failed, after all others.
        """
        cells = cells_of(self.grid, self.root)
        if repeated := next((name for name, count in Counter(cell.name for cell in cells).items() if count > 1), ""):
            raise UserError(f"The sweep has the run {repeated} more than once: give each value once.")
        options = [self.options_of(cell.words) for cell in cells]
        checksums = {cell.name: config_checksum(one) for cell, one in zip(cells, options, strict=True)}
        with LogDirLock(self.root):
            disk.remove_unfinished(self.root)
            listed = {name: checksum for name, checksum in self._read_list().items() if (self.root / name).is_dir()}
            complete = {name: checksum for name, checksum in listed.items()
                        if checksums.get(name, checksum) == checksum}
            self._changed = {*listed} - {*complete}
            left = [cell for cell in cells if cell.name not in complete]
            deco_print(f"Sweep in {self.root}: {len(cells)} runs, of which {len(cells) - len(left)} are complete")
            with StopRequest() as stop:
                for cell in self._finished(left, stop, options[0].enable_logs):
                    complete[cell.name] = checksums[cell.name]
                    self._write_list(complete)
            if stop.requested:
                deco_print("The sweep is stopped; the same command continues it.")
                return None, stop.signum
            table = self._table(cells, complete, options[0])
        self._report_failures(len(cells))
        return table, None

    def _finished(self, cells: Sequence[Cell], stop: StopRequest, in_logs: bool) -> Iterator[Cell]:
        """Trains cells, several at a time, and yields each that is complete; after a signal, none starts."""
        waiting, running = list(cells), dict[int, _Process]()
        try:
            while running or waiting and not stop.requested:
                for slot in range(self.processes):
                    if slot not in running and waiting and not stop.requested:
                        environment = _environment(slot, self.processes)
                        running[slot] = _Process(waiting.pop(0), self.words, environment, in_logs)
                for slot, process in list(running.items()):
                    if stop.requested:
                        process.stop()
                    if (code := process.code()) is not None:
                        del running[slot]
                        if code == 0 and process.cell.name in self._changed and not process.has_trained:
                            self._failed[process.cell.name] = ("it is complete with another config, and has no update "
                                                               "left: give the sweep another --logdir.")
                        elif code == 0:
                            yield process.cell
                        elif not stop.requested:
                            self._failed[process.cell.name] = process.problem()
                time.sleep(_SECONDS)
        finally:
            for process in running.values():
                process.stop()
            for process in running.values():
                process.wait()

    def _table(self, cells: Sequence[Cell], complete: Mapping[str, str], options: RunOptions) -> SweepTable:
        params = options.config.params("train")
        best_metric = params.get("best_metric") or BEST_METRIC
        rises = (params.get("best_metric_mode") or BEST_METRIC_MODE) == "max"
        figures = [figures_of(read_content(cell.logdir).metrics, best_metric, rises) if cell.name in complete else None
                   for cell in cells]
        table = sweep_table(self.grid, [cell.values for cell in cells], figures, best_metric, rises)
        table.write(self.root, [cell.logdir for cell in cells if cell.name in complete])
        deco_print(table.as_text())
        deco_print(f"The table: {self.root / TABLE} and {self.root / PAGE}")
        return table

    def _report_failures(self, runs: int) -> None:
        if self._failed:
            name, problem = next(iter(self._failed.items()))
            raise UserError(f"{len(self._failed)} of {runs} runs failed, the first in {self.root / name}: {problem} "
                            "The same command tries them again.")

    def _read_list(self) -> dict[str, str]:
        """Returns name → checksum of the config for the runs that are complete.

        Raises:
          UserError: a file of another kind has the name of the list.
        """
        path = self.root / _LIST
        if not os.path.lexists(path):
            return {}
        complete = None
        with contextlib.suppress(OSError, NotOwnFileError):
            complete = _parsed(read_own(self.root, _LIST, _MOST_BYTES))
        if complete is None:
            raise UserError(f"{path} is not the list of complete runs of a sweep: move it, and start again.")
        return complete

    def _write_list(self, complete: Mapping[str, str]) -> None:
        path = self.root / _LIST
        with explaining(path, "the list of complete runs"), disk.writing(
                path, lambda file: _parsed(file.read(_MOST_BYTES)) is not None, durable=True) as file:
            file.write(json.dumps({_COMPLETE: complete}, indent=1).encode())


def _parsed(content: bytes) -> dict[str, str] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    names = value.get(_COMPLETE) if isinstance(value, dict) and {*value} == {_COMPLETE} else None
    return names if isinstance(names, dict) and all(isinstance(one, str) for one in names.values()) else None


class _Process:
    """The process that trains a cell; its output goes to a file beside the cell's folder."""

    def __init__(self, cell: Cell, words: Sequence[str], environment: Mapping[str, str], in_logs: bool) -> None:
        self.cell, self._in_logs = cell, in_logs
        self._checkpoints = self._written()
        resumes = is_marked(cell.logdir) or bool(self._checkpoints)
        self._log = disk.free_name(cell.logdir.with_name(f"{cell.name}.log"))
        deco_print(f"{cell.name}: {'resumes' if resumes else 'starts'}; output: {self._log}")
        command = [sys.executable, "-P", "-m", __name__.partition(".")[0], *words, *cell.words,
                   *(["--continue_learning"] if resumes else [])]
        with open(self._log, "xb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                             env=environment)
        self._has_stopped = False

    def _written(self) -> list[str]:
        return sorted(map(str, find_checkpoints(checkpoint_folder(self.cell.logdir, self._in_logs))))

    @property
    def has_trained(self) -> bool:
        """Whether the process has written checkpoints."""
        return self._written() != self._checkpoints

    def code(self) -> int | None:
        """Returns the exit code of the process; None while it runs."""
        code = self._process.poll()
        if code is not None and not self._has_stopped:
            deco_print(f"{self.cell.name}: {'complete' if code == 0 else f'failed ({code})'}")
        return code

    def stop(self) -> None:
        """Lets the process save its state and end."""
        if not self._has_stopped:
            self._has_stopped = True
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Waits until the process has ended."""
        self._process.wait()

    def problem(self) -> str:
        """Returns the last line of the output, which says why the process failed."""
        with contextlib.suppress(DataError), opened_data(str(self._log)) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
            lines = file.read(_LAST_BYTES).decode(errors="replace").split("\n")
            if said := [line for line in lines if line.strip()]:
                return said[-1].removeprefix("Error: ")
        return f"its output is in {self._log}."


def _environment(slot: int, processes: int) -> dict[str, str]:
    """Returns the environment of a run, which imports from the same places; runs at the same time share the GPUs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    gpus = [one for one in os.environ.get(_GPUS, "").split(",") if one.strip()]
    if processes > 1 and len(gpus) > 1:
        share = max(len(gpus) // processes, 1)
        start = slot * share % len(gpus)
        environment[_GPUS] = ",".join(gpus[start:start + share])
    return environment


def folder_of(logdir: str | None, grid: Grid, options_of: OptionsOf) -> Path:
    """Returns the folder of a sweep: the log directory given, else that of the config.

    Raises:
      UserError: there is none.
    """
    if not logdir:
        first = [f"--{path}={values[0]}" for path, values in grid.items()]
        logdir = options_of(first).config.params("train").get("logdir")
    if not logdir:
        raise UserError("The sweep needs a folder: give --logdir=folder.")
    return Path(logdir).expanduser()


def sweep_of(words: Sequence[str], overrides: Sequence[Override], values: Mapping[str, Sequence[Any]],
             processes: int, options_of: OptionsOf) -> tuple[SweepTable | None, int | None]:
    """Runs a sweep that Python asks for; see ``Sweep.run`` for the result and the errors.

    Args:
      words: the words of the command line for the config, the mode and the flags.
      overrides: the values of all runs, and as the last ones the first value of each parameter of the sweep.
      values: path of a parameter, or a short name → its values.
      processes: number of runs at the same time.
      options_of: returns the checked options of a run with these words for its values.
    """
    if any(one.keys == ("logdir",) for one in overrides[len(overrides) - len(values):]):
        raise UserError("'logdir' cannot be swept: each run has a folder in the logdir of the sweep.")
    common = [one for one in overrides[:len(overrides) - len(values)] if one.keys != ("logdir",)]
    logdirs = [one.value for one in overrides if one.keys == ("logdir",)]
    swept = overrides[len(common) + len(logdirs):]
    grid = {one.name: [_as_text(one.name, value) for value in some]
            for one, some in zip(swept, values.values(), strict=True)}
    given = [f"--{one.name}={_as_text(one.name, one.value)}" for one in common]

    def options(more: list[str]) -> RunOptions:
        return options_of([*given, *more])

    root = folder_of(logdirs[-1] if logdirs else None, grid, options)
    return Sweep(grid, root, [*words, *given], options, processes).run()


def _as_text(path: str, value: Any) -> str:
    """Returns a value as the command line has it.

    Raises:
      UserError: the command line cannot have such a value.
    """
    value = value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value
    for text in (value, repr(value)) if isinstance(value, str) else (repr(value),):
        if (parsed := parse_value(text)) == value and type(parsed) is type(value):
            return text
    raise UserError(f"{path!r} is {shown(value)}, but a sweep starts processes, whose command line can have only "
                    "numbers, texts, lists and dicts of them, True, False and None: set it in the config.")
