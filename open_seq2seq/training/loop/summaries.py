"""What a run reports while it trains: TensorBoard summaries, and samples on the console and in the log directory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.models.reporter import Reporter
from open_seq2seq.optimizers.underflow import UnderflowMeter
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.sound_files import encoded

# Name in the config and in TensorBoard → name in the step's results.
_SCALARS = {"learning_rate": "learning_rate", "loss_scale": "loss_scale", "global_gradient_norm": "grad_norm",
            "skipped_updates": "skipped", "gradient_overflows": "overflows"}
KEPT_STEPS = 20
"""Number of sample folders to keep; older ones are removed."""
LIST = "samples.json"
"""Name of the file that lists the samples in their folder; unlisted files are neither replaced nor removed."""

WORST_EXAMPLES = "worst_examples"
"""Name, without suffix, of the file that lists the examples with the worst results of an evaluation."""
TEXTS = "texts"
"""Name, without suffix, of the file with the texts among a step's samples."""

_STEP = re.compile(r"step-\d+$")
_LONGEST = 150  # longest file name without suffix, in bytes


class Summaries:
    """Writes the TensorBoard events of a run.

    Args:
      directory: folder of the events file.
      trainable: variables, by name, whose histograms and norms are written if the config requests them.
      underflow: the meter of gradient underflow at summary steps, or None.
      clips: whether gradients are clipped; if so, their norm after clipping is written too.
    """

    def __init__(self, directory: str, trainable: Mapping[str, tf.Variable], underflow: UnderflowMeter | None = None,
                 clips: bool = False) -> None:
        self._directory = directory
        os.makedirs(directory, exist_ok=True)
        self._writer = tf.summary.create_file_writer(directory)
        self._trainable, self._meter, self._clips = trainable, underflow, clips

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes scalars at a step.

        Raises:
          UserError: see ``recording``.
        """
        with self.recording(step):
            for name, value in values.items():
                tf.summary.scalar(name, float(value))

    @contextlib.contextmanager
    def recording(self, step: int) -> Iterator[None]:
        """Context manager in which the functions of ``tf.summary`` write to these events at a step.

        Raises:
          UserError: the events cannot be written.
        """
        try:
            with self._writer.as_default(step=step):
                yield
            self._writer.flush()
        except tf.errors.OpError as error:
            reason = str(error).partition("; ")[2].split("\n")[0] or str(error).split("\n")[0]
            raise UserError(f"TensorBoard's events cannot be written to {self._directory}: {reason}.") from error

    def write_training(self, step: int, results: Mapping[str, Any], names: Sequence[str],
                       epoch: int | None = None) -> dict[str, float]:
        """Writes the loss and the summaries that the config requests.

        Args:
          step: number of the update.
          results: results of the training step; see ``TrainStep``.
          names: the config's ``summaries``.
          epoch: the epoch, which is written too, or None if the run does not count epochs.

        Returns:
          The scalars that were written, by name in TensorBoard.

        Raises:
          UserError: see ``recording``.
        """
        scalars = {"train_loss": results["loss"]}
        if epoch is not None:
            scalars["epoch"] = epoch
        scalars.update({name: results[key] for name, key in _SCALARS.items() if name in names})
        if "global_gradient_norm" in names and self._clips:
            scalars["global_clipped_gradient_norm"] = results["clipped_grad_norm"]
        if "larc_summaries" in names:
            scalars.update({f"larc_{kind}/{name}": value for name, info in results["larc"].items()
                            for kind, value in info._asdict().items()})
        if "gradient_underflow" in names:
            scalars.update(self._underflow(results))
        numbers = {name: float(value) for name, value in scalars.items()}
        self.write(step, numbers)
        with self.recording(step):
            _write_tensors("gradient", results.get("gradients", {}), names)
            _write_tensors("variable", self._trainable, names)
        return numbers

    def _underflow(self, results: Mapping[str, Any]) -> dict[str, float]:
        """Returns the share of gradients that underflow in each layer group, by summary name.

        In half precision, these are the shares that have underflowed; in float32, those that would do so in float16.
        """
        meter = self._meter
        if meter is None:
            return {}
        tag = f"gradient_underflow_in_{meter.half.name}" if meter.half else "gradient_underflow"
        return {f"{tag}/{group}": share
                for group, share in zip(meter.groups, results["underflow"].numpy(), strict=True)}


def _write_tensors(kind: str, tensors: Mapping[str, Any], names: Sequence[str]) -> None:
    for name, tensor in tensors.items():
        if f"{kind}s" in names:
            tf.summary.histogram(f"{kind}s/{name}", tf.cast(tensor, tf.float32))
        if f"{kind}_norm" in names:
            tf.summary.scalar(f"{kind}_norm/{name}", tf.norm(tf.cast(tensor, tf.float32)))


class RunReporter(Reporter):
    """Prints text and numbers, and writes samples to TensorBoard and to files.

    * If the run writes summaries, text, scalars, images, figures and sound are written to TensorBoard.
    * Texts are written to ``<folder>/step-<n>/`` as JSON, images and figures as PNG, sound as WAV, and other files as
      they are. Incomplete files have a temporary name. Names of samples are converted to valid file names, which are
      unique within a step.

    Args:
      step: number of the update.
      summaries: the run's TensorBoard writer, or None.
      folder: folder of all samples, or None if the run keeps no files.

    Raises:
      UserError: a sample cannot be written, for instance because the folder is a symbolic link.
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
        if self._folder is not None:
            self.json(TEXTS, dict(texts))

    def json(self, name: str, value: Any) -> None:
        """Writes a value as JSON to a file among this step's samples."""
        with self.file(name, ".json") as path:
            disk.fill(path, json.dumps(value, ensure_ascii=False))

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
                disk.fill(path, tf.io.encode_png(pixels).numpy())

    def figure(self, name: str, figure: Any) -> None:
        if self._summaries is not None or self._folder is not None:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png")
            self.image(name, tf.io.decode_png(drawn.getvalue()).numpy())

    def sound(self, name: str, samples: np.ndarray, rate: int) -> None:
        samples = np.asarray(samples)
        if samples.ndim != 1 or samples.dtype.kind != "f":
            raise ValueError(f"The sound {name} must be a floating-point array [samples], got {samples.dtype} "
                             f"{list(samples.shape)}.")
        clipped = np.clip(np.nan_to_num(samples.astype(np.float32)), -1.0, 1.0)
        with self._recording():
            tf.summary.audio(name, clipped[np.newaxis, :, np.newaxis], rate)
        if self._folder is not None:
            with self.file(name, ".wav") as path:
                disk.fill(path, encoded(clipped, rate))

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
        """Returns the name of this step's folder; before the first file, also removes the oldest folders."""
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
        """Returns whether this step has a file of that name that no run wrote, or that was changed after writing."""
        assert self._folder is not None and self._listed is not None
        path = f"{self._step_folder()}/{name}"
        return os.path.lexists(self._folder / path) and not self._listed.is_own(path)


def _plain(name: str) -> str:
    """Replaces characters by which a name could refer to another folder, or which are special in a shell."""
    return re.sub(r"[^\w.+=-]", "_", name)


def _keep_last(listed: disk.ListedFolder, newest: str) -> None:
    """Removes the step folders that were changed least recently, so that ``KEPT_STEPS`` remain, including ``newest``.

    If a run was resumed from an earlier checkpoint, the folders of the highest steps may be the oldest ones.
    """
    steps = dict.fromkeys(name.partition("/")[0] for name in listed.names)  # in their order, where times are equal
    folders = [step for step in steps
               if step != newest and _STEP.match(step) and not (listed.folder / step).is_symlink()]
    times = {step: (listed.folder / step).stat().st_mtime_ns for step in folders if (listed.folder / step).exists()}
    folders.sort(key=lambda step: times.get(step, 0))
    old = folders[:max(0, len(folders) + 1 - KEPT_STEPS)]
    if old:
        with contextlib.suppress(OSError):
            listed.remove([name for name in listed.names if name.partition("/")[0] in old])


def _pixels(name: str, image: np.ndarray) -> np.ndarray:
    """Returns an image ``[height, width, channels]`` as uint8; floats are scaled from the range 0 to 1."""
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or image.dtype != np.uint8 and image.dtype.kind != "f":
        raise ValueError(f"The image {name} must be a uint8 or floating-point array [height, width, channels] with 1, "
                         f"3 or 4 channels, got {image.dtype} {list(image.shape)}.")
    if image.dtype == np.uint8:
        return image
    return (np.clip(np.nan_to_num(image.astype(np.float32)), 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
