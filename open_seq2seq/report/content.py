"""Reads what a report shows from an untrusted logdir: skips links and large files, and runs no code."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from open_seq2seq.training.loop.metrics_file import Metrics, read_metrics, tables_in
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import DataError, UserError

_STEP = re.compile(r"(?:model\.ckpt|step)-(\d{1,15})$")
_MOST_BYTES = 1 << 20  # size of the largest text file that is read
_MOST_IMAGES, _MOST_IMAGE_BYTES = 6, 150_000  # the page contains the images, so these limit its size
_MOST_EXAMPLES = 100  # worst examples that are shown; training writes ten
_LOGS = "logs"  # subfolder of a run with --enable_logs


@dataclass
class Content:
    """What a report shows.

    Attributes:
      folder: the folder that was read.
      metrics: values of the metrics by name and step: name → step → value.
      config: the newest checkpoint's config as YAML; "" if there is none.
      checkpoints: names of the checkpoints, oldest first, and of the best models.
      samples: for each step with texts, the name of its folder → a list of dicts (name → text); the newest step first.
      images: contents of PNG files by file name, from the newest step that has any.
      worst: (step of the last evaluation that kept worst examples, the examples as dicts: name → text).
      signatures: how the scores of the last evaluation that stated it were computed, by name of the score.
    """

    folder: Path
    metrics: Metrics
    config: str = ""
    checkpoints: list[str] = field(default_factory=list)
    samples: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    worst: tuple[int, list[dict[str, str]]] = (0, [])
    signatures: dict[str, str] = field(default_factory=dict)


def read_content(logdir: Path) -> Content:
    """Reads a logdir, or its subfolder ``logs`` if only that contains a run, as with ``--enable_logs``.

    Raises:
      UserError: the folder does not exist, or contains no run.
    """
    if not logdir.is_dir():
        raise UserError(f"The logdir {logdir} does not exist or is not a folder: give the folder of a run, as in "
                        "--mode=report --logdir=my_run.")
    folder = next((place for place in (logdir, logdir / _LOGS) if tables_in(place) or _steps(place, "model.ckpt-*")),
                  None)
    if folder is None:
        raise UserError(f"The logdir {logdir} contains neither a table metrics.csv nor checkpoints: give the folder of "
                        "a run.")
    tables = tables_in(folder)
    content = Content(folder, read_metrics(tables[-1]) if tables else {})
    checkpoints = _steps(folder, "model.ckpt-*")
    content.checkpoints = [path.name for path in checkpoints]
    content.checkpoints += [f"best_models/{path.name}" for path in _plain(folder / "best_models", "*-step-*")]
    for path in checkpoints:
        content.config = _text(path / "config.yaml") or content.config
    _read_samples(content)
    return content


def _read_samples(content: Content) -> None:
    for step in reversed(_steps(content.folder / "samples", "step-*")):
        texts = [found for path in _plain(step, "texts*.json") for found in _dicts([_json(path)])]
        if texts:
            content.samples[step.name] = texts
        images = _plain(step, "*.png") if not content.images else []
        content.images |= {path.name: data for path in images[:_MOST_IMAGES] if (data := _image(path))}
        worst = _json(step / "worst_examples.json")
        if isinstance(worst, list) and not content.worst[1]:
            content.worst = int(step.name.rpartition("-")[2]), list(_dicts(worst[:_MOST_EXAMPLES]))
        scores = _json(step / "scores.json")
        if isinstance(scores, dict) and not content.signatures:
            content.signatures = {str(name): str(score["signature"]) for name, score in scores.items()
                                  if isinstance(score, dict) and "signature" in score}


def _plain(folder: Path, pattern: str) -> list[Path]:
    """Returns the entries of a folder that match a pattern, sorted by name, without symbolic links."""
    return [] if folder.is_symlink() else sorted(path for path in folder.glob(pattern) if not path.is_symlink())


def _steps(folder: Path, pattern: str) -> list[Path]:
    found = [path for path in _plain(folder, pattern) if _STEP.match(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))


def _text(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with contextlib.suppress(DataError):
        return read_data(str(path), most_bytes=_MOST_BYTES).decode(errors="replace")
    return ""


def _json(path: Path) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(_text(path) or "null")
    return None


def _dicts(values: list[Any]) -> Iterator[dict[str, str]]:
    for value in values:
        if isinstance(value, dict):
            yield {str(name): str(text) for name, text in value.items()}


def _image(path: Path) -> bytes:
    if path.is_file() and path.stat().st_size <= _MOST_IMAGE_BYTES:
        with contextlib.suppress(DataError):
            return read_data(str(path), most_bytes=_MOST_IMAGE_BYTES)
    return b""
