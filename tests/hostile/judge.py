"""Judges the outcome of a case from all files before and after, the output, and how the command ended."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from tests.hostile.case import Case, Ended, Expectation, Refused, Same

FILES, HANG, TRACEBACK, SILENT, OTHER = (
    "files of the user's changed", "hangs", "tracebacks or ends by a signal", "silent differences", "other surprises")
KINDS = (FILES, HANG, TRACEBACK, SILENT, OTHER)

_CHECKPOINT = re.compile(r"model\.ckpt-(\d+)$")
_METRIC = re.compile(r"(: loss|Validation loss|Validation WER|Validation CER|BLEU|chrF):? ([^\s,%]+)")
_NO_RESULTS = ("run", "new", "home", "index")
_CACHE = re.compile(r"\.os2s|__pycache__$")
# Larger files, which no case needs, are compared by size and by this many bytes from the start.
_MOST_BYTES = 1 << 24


class Entry(NamedTuple):
    """A directory entry: its type, and the checksum of a file or the target of a symbolic link."""

    kind: str
    content: str = ""


Files = dict[str, Entry]


@dataclass(frozen=True)
class Ending:
    """How a command ended.

    Attributes:
      code: exit code; the negative signal number if a signal ended the command.
      out: content of stdout.
      error: content of stderr.
      hung: whether the command was killed after its timeout.
      seconds: duration.
    """

    code: int
    out: str
    error: str
    hung: bool = False
    seconds: float = 0.0


class Finding(NamedTuple):
    """A problem: one of ``KINDS``, and a description."""

    kind: str
    text: str


@dataclass(frozen=True)
class Result:
    """The results that a command produced.

    Attributes:
      weights: path of the newest checkpoint's weights, and their checksum.
      metrics: the last printed value of each metric.
      files: checksums, by name, of the files that the command wrote outside of logdirs and caches.
    """

    weights: tuple[str, str]
    metrics: dict[str, str]
    files: dict[str, str]


def look(root: Path) -> Files:
    """Returns all entries below a folder by relative path."""
    found: Files = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = _entry(path)
    return found


def _entry(path: str) -> Entry:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return Entry("link", os.readlink(path))
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            return Entry("file", f"{status.st_size}:{hashlib.sha256(file.read(_MOST_BYTES)).hexdigest()}")
    kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return Entry(kinds.get(stat.S_IFMT(status.st_mode), "device"))


def judge(case: Case, ending: Ending, before: Files, after: Files, made: Files, reference: Result | None = None,
          ) -> list[Finding]:
    """Returns the problems in the outcome of a case.

    Args:
      case: the case.
      ending: how the command ended.
      before: files before the command, after the fault.
      after: files after the command.
      made: files that the toolkit had written before the fault.
      reference: the result without the fault, if the result has to equal it.
    """
    findings = [*_changed_files(case, ending, before, after, made)]
    if ending.hung:
        return [Finding(HANG, f"the command did not end within {case.timeout:g} s"), *findings]
    for name, text in (("output", ending.out), ("error", ending.error)):
        if "Traceback (most recent call last)" in text:
            findings.append(Finding(TRACEBACK, f"a traceback on standard {name}"))
    if ending.code < 0 and ending.code != case.expect.code:
        return [Finding(TRACEBACK, f"the process was ended by signal {-ending.code}"), *findings]
    return findings + _surprises(case.expect, ending) + (
        [] if reference is None or ending.code else _differences(reference, result_of(ending, before, after)))


def _changed_files(case: Case, ending: Ending, before: Files, after: Files, made: Files) -> Iterable[Finding]:
    refused = ending.code == 2 or isinstance(case.expect, Refused)
    for name, entry in before.items():
        if after.get(name) == entry or _matches(name, case.writes) or _is_aside(name, entry, ending, after):
            continue
        became = f"{name} ({entry.kind}) " + (
            "is gone" if name not in after else "has another content" if after[name].kind == entry.kind
            else f"has become a {after[name].kind}")
        if name not in made or made[name].kind != entry.kind:
            yield Finding(FILES, became)
        elif _matches(name, case.keeps):
            yield Finding(FILES, f"{became}, but had to stay")
        elif refused and _lies_in_checkpoint(name):
            yield Finding(FILES, f"{became}, although the command was refused")


def _is_aside(name: str, entry: Entry, ending: Ending, after: Files) -> bool:
    """Returns whether an entry in the way, or its folder, has been renamed to ``*.aside`` and the output says so."""
    parts = name.split("/")
    places = ("/".join([*parts[:depth - 1], f"{parts[depth - 1]}.aside", *parts[depth:]])
              for depth in range(1, len(parts) + 1))
    return ".aside" in ending.out and any(after.get(place) == entry for place in places)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _lies_in_checkpoint(name: str) -> bool:
    return any(_CHECKPOINT.match(part) or "-step-" in part or part == "averaged_models" for part in Path(name).parts)


def _surprises(expect: Expectation, ending: Ending) -> list[Finding]:
    said = ending.out + ending.error
    errors = [line for line in ending.error.splitlines() if line.startswith("Error")]
    findings = []
    if ending.code != expect.code:
        kind = SILENT if ending.code == 0 and not isinstance(expect, Ended) else OTHER
        findings.append(Finding(kind, f"exit code {ending.code} instead of {expect.code}"
                                      + "".join(f"\n  {line[:300]}" for line in errors[:3])))
    if isinstance(expect, Refused):
        if ending.code == 2 and len(errors) != 1 and not (expect.several and errors):
            findings.append(Finding(OTHER, f"{len(errors)} lines of errors instead of one"))
        said = "\n".join(errors)
    findings += [Finding(SILENT if ending.code == 0 else OTHER, f"it does not say {words!r} but: {said[-600:]}")
                 for words in expect.words if words not in said]
    return findings


def result_of(ending: Ending, before: Files, after: Files) -> Result:
    """Returns the result of a command that succeeded."""
    new = {name: entry.content for name, entry in after.items()
           if entry.kind == "file" and before.get(name) != entry}
    checkpoints = {name: content for name, content in new.items() if name.endswith("/weights.safetensors")
                   and _CHECKPOINT.match(Path(name).parent.name)}
    newest = max(checkpoints, key=lambda name: int(Path(name).parent.name.rpartition("-")[2]), default="")
    written = {name: content for name, content in new.items()
               if Path(name).parts[0] not in _NO_RESULTS and not any(map(_CACHE.match, Path(name).parts))}
    return Result((newest, checkpoints.get(newest, "")), dict(_METRIC.findall(ending.out)), written)


def _differences(wanted: Result, found: Result) -> list[Finding]:
    findings = []
    if wanted.weights != found.weights:
        findings.append(f"the newest weights are {found.weights} instead of {wanted.weights}")
    if wanted.metrics != found.metrics:
        findings.append(f"the metrics are {found.metrics} instead of {wanted.metrics}")
    if names := {name for name, _ in wanted.files.items() ^ found.files.items()}:
        findings.append(f"what is written to {', '.join(sorted(names))} differs")
    return [Finding(SILENT, text) for text in findings]


def needs_reference(expect: Expectation) -> bool:
    """Returns whether the result has to equal that of the command without the fault."""
    return isinstance(expect, Same)


def summary(findings: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns the lines of the summary after all cases.

    Args:
      findings: the kinds of problems found in each case, by the case's name.
    """
    counts = {kind: sum(kind in kinds for kinds in findings.values()) for kind in KINDS}
    return [f"{len(findings)} hostile cases: " + ", ".join(f"{count} {kind}" for kind, count in counts.items())]
