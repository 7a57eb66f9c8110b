"""Reporters, which show a model's samples during training: text, numbers, images, figures, sound and files."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.models.results import comes_first
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print


class Reporter:
    """Receives samples from ``Model.report_sample``, and prints them on the console.

    ``training.loop.summaries.RunReporter`` also writes them to TensorBoard and to the log directory. Samples that a
    reporter cannot show are ignored. The console shows a name such as ``sample_target`` as ``Sample target``.

    Args:
      step: number of the update after which the sample is taken.

    Attributes:
      step: number of the update.
      scalars: the reported numbers, by name.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self.scalars: dict[str, float] = {}

    def text(self, name: str, text: str) -> None:
        """Shows a text."""
        self.texts({name: text})

    def texts(self, texts: Mapping[str, str]) -> None:
        """Shows texts below one another for comparison, such as target and prediction."""
        labels = [f"{_label(name)}:" for name in texts]
        width = max(map(len, labels), default=0)
        for label, text in zip(labels, texts.values(), strict=True):
            deco_print(f"{label:<{width}} {text}", offset=1)

    def scalar(self, name: str, value: float) -> None:
        """Shows a number."""
        deco_print(f"{_label(name)}: {value:.4f}", offset=1)
        self.record({name: value})

    def record(self, scalars: Mapping[str, float]) -> None:
        """Records numbers for TensorBoard without printing them."""
        self.scalars.update({name: float(value) for name, value in scalars.items()})

    def image(self, name: str, image: np.ndarray) -> None:
        """Shows an image ``[height, width, channels]`` of 1, 3 or 4 channels: uint8, or floats from 0 to 1."""

    def figure(self, name: str, figure: Any) -> None:
        """Shows a matplotlib figure, which the model creates and closes."""

    def sound(self, name: str, samples: np.ndarray, rate: int) -> None:
        """Shows a sound ``[samples]``, floats that are clipped to [-1, 1], with ``rate`` samples per second."""

    @contextlib.contextmanager
    def file(self, name: str, suffix: str) -> Iterator[Path]:
        """Context manager that yields the path of a file to write, as in ``reporter.file("attention", ".npy")``.

        When the context ends without an error, the file is complete and gets its final name in the log directory.
        Without a log directory, it is discarded.
        """
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / f"file{suffix}"


class SignedScores:
    """The scores of the evaluations of a model, with signatures that say how they were computed."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._latest: dict[str, dict[str, float | str | None]] = {}

    def signed(self, name: str, score: float, signature: str) -> str:
        """Keeps the latest score of this name, as None if it is no number.

        Returns:
          Its signature in parentheses; "" if the signature has been printed.
        """
        self._latest[name] = {"score": score if math.isfinite(score) else None, "signature": signature}
        return self.once(f"  ({signature})")

    def once(self, text: str) -> str:
        """Returns the text, or "" if an earlier call returned it."""
        new = "" if text in self._told else text
        self._told.add(text)
        return new

    def write(self, reporter: Reporter) -> None:
        """Writes the latest scores and their signatures, if there are any, to ``scores.json`` among the samples."""
        if self._latest:
            with reporter.file("scores", ".json") as path:
                disk.fill(path, json.dumps(self._latest, ensure_ascii=False, allow_nan=False))


def report_sample(model: Any, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
    """Calls a model's ``report_sample``, or ``maybe_print_logs`` if its class overrides only that method.

    Args:
      model: the model.
      batch: a training batch of NumPy arrays.
      outputs: the decoder's ``outputs`` for the batch.
      reporter: receives the samples.
    """
    if comes_first(model, "report_sample", "maybe_print_logs"):
        model.report_sample(batch, outputs, reporter)
    else:
        reporter.record(model.maybe_print_logs(batch, outputs, reporter.step) or {})


def _label(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]
