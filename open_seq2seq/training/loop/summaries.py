"""TensorBoard summaries of a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from open_seq2seq.utils.errors import UserError

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer

# Name in the config and in TensorBoard → name in the step's results.
_SCALARS = {"learning_rate": "learning_rate", "loss_scale": "loss_scale", "global_gradient_norm": "grad_norm",
            "skipped_updates": "skipped", "gradient_overflows": "overflows"}


class Summaries:
    """TensorBoard writer of a run.

    Args:
      directory: where the events file goes.
      trainer: gives step, epoch and variables.
    """

    def __init__(self, directory: str, trainer: Trainer) -> None:
        self._directory = directory
        os.makedirs(directory, exist_ok=True)
        self._writer = tf.summary.create_file_writer(directory)
        self._trainer = trainer

    def write(self, values: dict[str, float]) -> None:
        """Writes scalars at the current step."""
        with self.recording():
            for name, value in values.items():
                tf.summary.scalar(name, float(value))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within this context the functions of ``tf.summary`` write at the current step."""
        try:
            with self._writer.as_default(step=self._trainer.step):
                yield
            self._writer.flush()
        except tf.errors.OpError as error:
            reason = str(error).partition("; ")[2].split("\n")[0] or str(error).split("\n")[0]
            raise UserError(f"TensorBoard's events cannot be written to {self._directory}: {reason}.") from error

    def write_training(self, results: dict[str, Any], names: list[str]) -> None:
        """Writes the loss and the summaries that the config's list names."""
        scalars = {"train_loss": results["loss"]}
        if self._trainer.steps_per_epoch:
            scalars["epoch"] = self._trainer.epoch
        scalars.update({name: results[key] for name, key in _SCALARS.items() if name in names})
        if "global_gradient_norm" in names and self._trainer.model.params["max_grad_norm"]:
            scalars["global_clipped_gradient_norm"] = results["clipped_grad_norm"]
        if "larc_summaries" in names:
            scalars.update({f"larc_{kind}/{name}": value for name, info in results["larc"].items()
                            for kind, value in info._asdict().items()})
        scalars.update(self._underflow(results, names))
        self.write({name: float(value) for name, value in scalars.items()})
        with self.recording():
            self._write_tensors("gradient", results.get("gradients", {}), names)
            self._write_tensors("variable", self._trainer.trainable, names)

    def _underflow(self, results: dict[str, Any], names: list[str]) -> dict[str, float]:
        """Shares by layer group, under a name that tells what was seen from what would be."""
        meter = self._trainer.underflow
        if meter is None or "gradient_underflow" not in names:
            return {}
        tag = f"gradient_underflow_in_{meter.half.name}" if meter.half else "gradient_underflow"
        return {f"{tag}/{group}": share
                for group, share in zip(meter.groups, results["underflow"].numpy(), strict=True)}

    def _write_tensors(self, kind: str, tensors: dict[str, Any], names: list[str]) -> None:
        for name, tensor in tensors.items():
            if f"{kind}s" in names:
                tf.summary.histogram(f"{kind}s/{name}", tf.cast(tensor, tf.float32))
            if f"{kind}_norm" in names:
                tf.summary.scalar(f"{kind}_norm/{name}", tf.norm(tf.cast(tensor, tf.float32)))
