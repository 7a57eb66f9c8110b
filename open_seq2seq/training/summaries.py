"""TensorBoard summaries of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from open_seq2seq.training.trainer import Trainer


class Summaries:
    """TensorBoard writer of a run.

    Args:
      directory: where the events file goes.
      trainer: gives step, epoch and variables.
    """

    def __init__(self, directory: str, trainer: Trainer) -> None:
        os.makedirs(directory, exist_ok=True)
        self._writer = tf.summary.create_file_writer(directory)
        self._trainer = trainer

    def write(self, values: dict[str, float]) -> None:
        """Writes scalars at the current step."""
        with self._writer.as_default(step=self._trainer.step):
            for name, value in values.items():
                tf.summary.scalar(name, float(value))
        self._writer.flush()

    def write_training(self, results: dict[str, Any], names: list[str]) -> None:
        """Writes the loss and the summaries that the config's list names."""
        scalars = {"train_loss": results["loss"]}
        if self._trainer.steps_per_epoch:
            scalars["epoch"] = self._trainer.epoch
        for name in ("learning_rate", "loss_scale"):
            if name in names:
                scalars[name] = results[name]
        if "global_gradient_norm" in names:
            scalars["global_gradient_norm"] = results["grad_norm"]
            if self._trainer.model.params["max_grad_norm"]:
                scalars["global_clipped_gradient_norm"] = results["clipped_grad_norm"]
        self.write({name: float(value) for name, value in scalars.items()})
        with self._writer.as_default(step=self._trainer.step):
            self._write_tensors("gradient", results.get("gradients", {}), names)
            self._write_tensors("variable", self._trainer.trainable, names)
        self._writer.flush()

    def _write_tensors(self, kind: str, tensors: dict[str, Any], names: list[str]) -> None:
        for name, tensor in tensors.items():
            if f"{kind}s" in names:
                tf.summary.histogram(f"{kind}s/{name}", tf.cast(tensor, tf.float32))
            if f"{kind}_norm" in names:
                tf.summary.scalar(f"{kind}_norm/{name}", tf.norm(tf.cast(tensor, tf.float32)))
