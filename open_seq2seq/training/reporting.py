"""Samples of training on the console, in TensorBoard and in the log directory."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile
import tensorflow as tf

from open_seq2seq.models.reporter import Reporter
from open_seq2seq.training.logdir import SAMPLES, TEMPORARY
from open_seq2seq.training.summaries import Summaries
from open_seq2seq.utils.errors import UserError

if TYPE_CHECKING:
    from open_seq2seq.training.trainer import Trainer

KEPT_STEPS = 20
"""How many folders of samples are kept: those written last."""

_STEP = re.compile(r"step-\d+$")
_LONGEST = 150  # bytes of a name


class RunReporter(Reporter):
    """Prints text and numbers, and puts everything where the run has a place for it.

    * TensorBoard gets text, scalars, images, figures and sound, where the run writes summaries.
    * ``<folder>/step-<n>/`` gets images and figures as PNG, sound as WAV, and files. Each gets its name when it is
      whole. A name is made one of a file in that folder, whatever it is, and no two of one step become the same.

    Args:
      step: number of the update.
      summaries: TensorBoard's, or None.
      folder: of all samples, or None where the run keeps nothing.

    Raises:
      UserError: the folder leads elsewhere by a link, or cannot be written.
    """

    def __init__(self, step: int, summaries: Summaries | None = None, folder: Path | None = None) -> None:
        super().__init__(step)
        self._summaries, self._folder = summaries, folder
        self._taken: set[str] = set()

    def texts(self, texts: Mapping[str, str]) -> None:
        super().texts(texts)
        with self._recording():
            for name, text in texts.items():
                tf.summary.text(name, text)

    def record(self, scalars: Mapping[str, float]) -> None:
        super().record(scalars)
        with self._recording():
            for name, value in scalars.items():
                tf.summary.scalar(name, float(value))

    def image(self, name: str, image: np.ndarray) -> None:
        pixels = _pixels(name, image)
        with self._recording():
            tf.summary.image(name, pixels[np.newaxis])
        if self._folder is not None:
            with self.file(name, ".png") as path:
                path.write_bytes(tf.io.encode_png(pixels).numpy())

    def figure(self, name: str, figure: Any) -> None:
        if self._summaries is not None or self._folder is not None:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png")
            self.image(name, tf.io.decode_png(drawn.getvalue()).numpy())

    def sound(self, name: str, samples: np.ndarray, rate: int) -> None:
        samples = np.asarray(samples)
        if samples.ndim != 1 or samples.dtype.kind != "f":
            raise ValueError(f"The sound {name} is {samples.dtype} {list(samples.shape)} but has to be floats "
                             "[samples].")
        clipped = np.clip(np.nan_to_num(samples.astype(np.float32)), -1.0, 1.0)
        with self._recording():
            tf.summary.audio(name, clipped[np.newaxis, :, np.newaxis], rate)
        if self._folder is not None:
            with self.file(name, ".wav") as path:
                soundfile.write(path, clipped, rate, subtype="PCM_16")

    @contextlib.contextmanager
    def file(self, name: str, suffix: str) -> Iterator[Path]:
        if self._folder is None:
            with super().file(name, _plain(suffix)) as path:
                yield path
            return
        final = self._made_folder() / self._file_name(name, _plain(suffix))
        temporary = final.with_name(TEMPORARY + final.name)
        temporary.unlink(missing_ok=True)  # it may be anything, even a link
        try:
            yield temporary
            os.replace(temporary, final)
        except OSError as error:
            raise UserError(f"The sample {final} cannot be written: {error.strerror or error}.") from error
        finally:
            temporary.unlink(missing_ok=True)

    def _recording(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._summaries is None else self._summaries.recording()

    def _made_folder(self) -> Path:
        """The folder of this step, made when the first file comes; then those of long ago are removed."""
        assert self._folder is not None
        folder = self._folder / f"step-{self.step}"
        for place in (self._folder, folder):
            if place.is_symlink():
                raise UserError(f"{place}, where samples go, is a link: remove it.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"Samples cannot be written to {folder}: {error.strerror}.") from error
        if not self._taken:
            _keep_last(self._folder, folder)
        return folder

    def _file_name(self, name: str, suffix: str) -> str:
        plain = _plain(name).encode()[:_LONGEST].decode(errors="ignore").strip(".") or "sample"
        number, unique = 1, plain + suffix
        while unique in self._taken:
            number += 1
            unique = f"{plain}-{number}{suffix}"
        self._taken.add(unique)
        return unique


def reporter_of(trainer: Trainer) -> Reporter:
    """Returns what takes the samples of a run at its present step; for rank 0."""
    folder = None if trainer.saver is None else trainer.saver.directory / SAMPLES
    return RunReporter(trainer.step, trainer.summaries, folder)


def _plain(name: str) -> str:
    """Replaces whatever could lead out of a folder, or is trouble in a shell."""
    return re.sub(r"[^\w.+=-]", "_", name)


def _keep_last(folder: Path, newest: Path) -> None:
    """Removes the folders of steps written longest ago, which after a recovery are not those of the lowest steps."""
    found = [path for path in folder.iterdir() if _STEP.match(path.name) and path != newest and not path.is_symlink()]
    found.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in found[:max(0, len(found) + 1 - KEPT_STEPS)]:
        shutil.rmtree(path, ignore_errors=True)


def _pixels(name: str, image: np.ndarray) -> np.ndarray:
    """Returns an image as uint8."""
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or image.dtype != np.uint8 and image.dtype.kind != "f":
        raise ValueError(f"The image {name} is {image.dtype} {list(image.shape)} but has to be uint8 or floats "
                         "[height, width, channels] with 1, 3 or 4 channels.")
    if image.dtype == np.uint8:
        return image
    return (np.clip(np.nan_to_num(image.astype(np.float32)), 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
