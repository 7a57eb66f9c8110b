"""TensorBoard summaries of a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.underflow import UnderflowMeter
from open_seq2seq.utils.errors import UserError

# Name in the config and in TensorBoard → name in the step's results.
_SCALARS = {"learning_rate": "learning_rate", "loss_scale": "loss_scale", "global_gradient_norm": "grad_norm",
            "skipped_updates": "skipped", "gradient_overflows": "overflows"}


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
