"""Samples of training on the console, in TensorBoard and in the log directory."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import tensorflow as tf

from open_seq2seq.models.reporter import Reporter
from open_seq2seq.training.loop.summaries import Summaries
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

KEPT_STEPS = 20
"""How many folders of samples are kept, the newest ones."""
LIST = "samples.json"
"""A list of the samples in their folder; nothing else there is replaced or removed."""

_STEP = re.compile(r"step-\d+$")
_LONGEST = 150  # bytes of a name


class RunReporter(Reporter):
    """Prints text and numbers, and puts everything where the run has a place for it.

    * TensorBoard gets text, scalars, images, figures and sound, where the run writes summaries.
    * ``<folder>/step-<n>/`` gets images and figures as PNG, sound as WAV, and files. Each gets its name when it is
      whole. Any name is turned into a valid file name, a different one for each sample of a step.

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
        self._listed = None if folder is None else disk.ListedFolder(folder, LIST)

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
                tf.io.write_file(str(path), tf.io.encode_png(pixels))

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
        if self._folder is None or self._listed is None:
            with super().file(name, _plain(suffix)) as path:
                yield path
            return
        final = f"{self._step_folder()}/{self._file_name(name, _plain(suffix))}"
        try:
            with self._listed.putting(final) as temporary:
                yield temporary
        except OSError as error:
            link = next((place for place in (self._folder, self._folder / self._step_folder()) if place.is_symlink()),
                        None)
            reason = f"{link} is a link: remove it" if link else error.strerror or str(error)
            raise UserError(f"The sample {self._folder / final} cannot be written: {reason}.") from error

    def _recording(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._summaries is None else self._summaries.recording(self.step)

    def _step_folder(self) -> str:
        """Returns the folder of this step, and removes the oldest ones before its first file is written."""
        if not self._taken and self._listed is not None:
            _keep_last(self._listed, f"step-{self.step}")
        return f"step-{self.step}"

    def _file_name(self, name: str, suffix: str) -> str:
        plain = _plain(name).encode()[:_LONGEST].decode(errors="ignore").strip(".") or "sample"
        number, unique = 1, plain + suffix
        while unique in self._taken or self._is_others(unique):
            number += 1
            unique = f"{plain}-{number}{suffix}"
        self._taken.add(unique)
        return unique

    def _is_others(self, name: str) -> bool:
        """Whether a file of this step has the name and was not written, or was changed, by somebody else."""
        assert self._folder is not None and self._listed is not None
        path = f"{self._step_folder()}/{name}"
        return os.path.lexists(self._folder / path) and not self._listed.is_own(path)


def _plain(name: str) -> str:
    """Replaces characters that could lead out of a folder, or that a shell treats specially."""
    return re.sub(r"[^\w.+=-]", "_", name)


def _keep_last(listed: disk.ListedFolder, newest: str) -> None:
    """Removes the files of the steps written first, which after a recovery may not be the lowest steps."""
    steps = {name.partition("/")[0] for name in listed.names} - {newest}
    found = [step for step in steps if _STEP.match(step) and not (listed.folder / step).is_symlink()]
    times = {step: (listed.folder / step).stat().st_mtime_ns for step in found if (listed.folder / step).exists()}
    found.sort(key=lambda step: times.get(step, 0))
    old = found[:max(0, len(found) + 1 - KEPT_STEPS)]
    if old:
        with contextlib.suppress(OSError):
            listed.remove([name for name in listed.names if name.partition("/")[0] in old])


def _pixels(name: str, image: np.ndarray) -> np.ndarray:
    """Returns an image as uint8."""
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or image.dtype != np.uint8 and image.dtype.kind != "f":
        raise ValueError(f"The image {name} is {image.dtype} {list(image.shape)} but has to be uint8 or floats "
                         "[height, width, channels] with 1, 3 or 4 channels.")
    if image.dtype == np.uint8:
        return image
    return (np.clip(np.nan_to_num(image.astype(np.float32)), 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
