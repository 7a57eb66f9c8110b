"""Runs hostile cases in parallel, each in a copy of a workspace with a finished run."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.hostile.case import Case, Place, arguments_of
from tests.hostile.judge import Ending, Files, Finding, Result, judge, look, needs_reference, result_of
from tests.hostile.server import Request, send
from tests.hostile.workspaces import WORKSPACES, Workspace

HERE = Path(__file__).parent
_TRAINING_SECONDS = 300


def all_cases() -> list[Case]:
    """Returns the cases of all files ``cases_*.py``.

    Raises:
      ValueError: several cases have the same name.
    """
    cases = [case for path in sorted(HERE.glob("cases_*.py"))
             for case in importlib.import_module(f"tests.hostile.{path.stem}").CASES]
    names = [case.name for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several cases have these names: {twice}")
    return cases


@dataclass
class Outcome:
    """The outcome of a case.

    Attributes:
      case: the case.
      ending: how the case's command ended.
      findings: the problems found; empty if the case passed.
    """

    case: Case
    ending: Ending
    findings: list[Finding]

    def report(self) -> str:
        """Returns a report of a failed case."""
        lines = [self.case.name, *(f"{finding.kind}: {finding.text}" for finding in self.findings),
                 f"exit code {self.ending.code} after {self.ending.seconds:.1f} s"]
        for name, text in (("output", self.ending.out), ("error", self.ending.error)):
            lines += [f"--- the end of standard {name}", text[-1500:]]
        return "\n".join(lines)


class Slot:
    """A folder and a fork server in which cases run one at a time; all its cases see the same paths.

    Args:
      folder: an empty folder.
      connection: connection to a server (``server.py``).
      workspaces: workspaces by task.
      bare: see ``Driver``.
    """

    def __init__(self, folder: Path, connection: socket.socket, workspaces: Mapping[str, Workspace],
                 bare: bool) -> None:
        self._folder = folder
        self._workspaces, self._bare = workspaces, bare
        self._connection = connection
        self._answers = connection.makefile("r")
        self._requests = connection.makefile("w")
        self._made: dict[str, Files] = {}
        self._references: dict[object, Result] = {}

    def run(self, case: Case) -> Outcome:
        """Runs a case and judges it."""
        reference = self._reference(case) if needs_reference(case.expect) else None
        place, made = self._prepare(case)
        case.fault(place)
        before = look(place.root)
        ending = self._execute(case, place, before)
        return Outcome(case, ending, judge(case, ending, before, look(place.root), made, reference))

    def _prepare(self, case: Case) -> tuple[Place, Files]:
        """Makes a fresh copy of the workspace and runs the command that comes before the fault."""
        place = self._copy(case.task)
        made = self._made[case.task]
        if case.before is not None:
            own = {name: entry for name, entry in look(place.root).items() if name not in made}
            self._must_work(replace(case, command=case.before, timeout=_TRAINING_SECONDS, meanwhile=None), place)
            made = {name: entry for name, entry in look(place.root).items() if own.get(name) != entry}
        return place, made

    def _copy(self, task: str) -> Place:
        place = Place(self._folder / task)
        original = self._folder / f"{task}-original"
        if task not in self._made:
            self._train(task, place)
            shutil.copytree(place.root, original, symlinks=True)
        else:
            _remove_tree(place.root)
            shutil.copytree(original, place.root, symlinks=True)
        return place

    def _train(self, task: str, place: Place) -> None:
        (place.home / "tmp").mkdir(parents=True)
        (place.home / ".cache").mkdir()
        workspace = self._workspaces[task]
        workspace.write(place.root)
        own = look(place.root)
        if workspace.training is not None:
            self._must_work(workspace.training, place)
        self._made[task] = {name: entry for name, entry in look(place.root).items() if name not in own}

    def _must_work(self, case: Case, place: Place) -> Ending:
        ending = self._execute(case, place, {})
        if ending.code:
            raise RuntimeError(f"{case.name}: what comes before the fault fails: {ending.out}\n{ending.error}")
        return ending

    def _reference(self, case: Case) -> Result:
        """Runs the case's command without its fault, once for all cases with the same command."""
        place = Place(self._folder / case.task)
        if case.task not in self._made:
            place = self._copy(case.task)
        shell = case.shell if self._bare else None
        key = (case.task, *arguments_of(case.command, place), "|", *arguments_of(case.before or (), place), case.stdin,
               shell)
        if key not in self._references:
            place, _ = self._prepare(case)
            before = look(place.root)
            plain = replace(case, meanwhile=None, env={}, shell=shell, ordinary=False, timeout=_TRAINING_SECONDS)
            ending = self._must_work(plain, place)
            self._references[key] = result_of(ending, before, look(place.root))
        return self._references[key]

    def _execute(self, case: Case, place: Place, before: Files) -> Ending:
        streams = tuple(str(self._folder / name) for name in ("stdin", "stdout", "stderr"))
        Path(streams[0]).write_bytes(case.stdin)
        for name in streams[1:]:
            Path(name).write_bytes(b"")
        request = Request(arguments_of(case.command, place), str(place.root), _environment(case, place),
                          streams, case.timeout, case.shell, case.ordinary)  # type: ignore[arg-type]
        send(self._requests, dataclasses.asdict(request))
        place.output, place.process = Path(streams[1]), self._answer()
        if case.meanwhile is not None:
            _do_meanwhile(case, place, before)
        answer = self._answer()
        place.process = None
        out, error = (Path(name).read_text(encoding="utf-8", errors="replace") for name in streams[1:])
        return Ending(answer["code"], out, error, answer["hung"], answer["seconds"])

    def _answer(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the server of forks has ended; its own message is on standard error")
        return json.loads(line)

    def close(self) -> None:
        """Ends the slot's server."""
        for each in (self._answers, self._requests, self._connection):
            each.close()


# Where the command itself may write while the fault is applied: its run, and index files before they are renamed.
_OF_THE_COMMAND = ("run/", "new/", "index/.tmp-")


def _do_meanwhile(case: Case, place: Place, before: Files) -> None:
    """Applies the fault while the command runs; its changes count as made before the command."""
    earlier = look(place.root)
    assert case.meanwhile is not None
    case.meanwhile(place)
    later = look(place.root)
    for name in earlier.keys() | later.keys():
        if earlier.get(name) != later.get(name) and not name.startswith(_OF_THE_COMMAND):
            before.pop(name, None)
            if name in later:
                before[name] = later[name]


def _environment(case: Case, place: Place) -> dict[str, str]:
    given = {**os.environ, "HOME": str(place.home), "XDG_CACHE_HOME": str(place.home / ".cache"),
             "TMPDIR": str(place.home / "tmp"), **case.env}
    return {name: value for name, value in given.items() if value is not None}


def _remove_tree(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):  # a case may have taken rights away
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


class Driver:
    """Context manager that runs cases in the background, several at a time.

    Args:
      cases: cases in the order in which their outcomes will be requested.
      slots: number of cases to run in parallel.
      workspaces: initial workspaces by task.
      bare: whether forks have not imported the toolkit and each case's ``shell`` is the whole command; for tests of the
        driver.
    """

    def __init__(self, cases: Sequence[Case], slots: int, workspaces: Mapping[str, Workspace] = WORKSPACES,
                 bare: bool = False) -> None:
        self._cases = list(cases)
        self._folder = Path(tempfile.mkdtemp(prefix="os2s-hostile-")).resolve()
        ours, theirs = zip(*(socket.socketpair() for _ in range(slots)), strict=True)
        descriptors = [connection.fileno() for connection in theirs]
        flags = ["--bare"] if bare else []
        self._server = subprocess.Popen([sys.executable, "-m", "tests.hostile.server", *flags, *map(str, descriptors)],
                                        pass_fds=descriptors, cwd=HERE.parents[1])
        for connection in theirs:
            connection.close()
        self._slots = [Slot(self._make(f"{number}"), connection, workspaces, bare)
                       for number, connection in enumerate(ours)]
        self._free = list(self._slots)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(slots)
        self._futures: dict[str, Future[Outcome]] = {}

    def _make(self, name: str) -> Path:
        (self._folder / name).mkdir()
        return self._folder / name

    def outcome(self, case: Case) -> Outcome:
        """Returns the outcome of a case, and starts the next cases in the background."""
        names = [each.name for each in self._cases]
        start = names.index(case.name)
        for each in self._cases[start:start + 4 * len(self._slots)]:
            if each.name not in self._futures:
                self._futures[each.name] = self._pool.submit(functools.partial(self._run, each))
        return self._futures[case.name].result()

    def _run(self, case: Case) -> Outcome:
        with self._lock:
            slot = self._free.pop()
        try:
            return slot.run(case)
        finally:
            with self._lock:
                self._free.append(slot)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for slot in self._slots:
            slot.close()
        self._server.wait(30)
        _remove_tree(self._folder)
