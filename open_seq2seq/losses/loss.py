"""Base class of losses, and the terms that they return."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Component


class LossTerm(NamedTuple):
    """One term of a loss. Training minimises the total of ``weight · sum / units`` over the terms.

    Before the division, ``sum`` and ``units`` are added up over all micro-batches and ranks of an update, so that the
    gradient does not depend on how a batch is divided.

    Attributes:
      sum: FP32 scalar, the loss summed over the micro-batch.
      units: FP32 scalar, the number of tokens, examples or other units in ``sum``.
      weight: factor by which the term is multiplied in the total.
      unit: name of the unit, such as ``token``. Terms of one loss with the same ``unit`` must have the same ``units``.
      name: name of the term. Models with several decoders add up the terms that have the same name and unit.
    """

    sum: tf.Tensor
    units: tf.Tensor
    weight: float = 1.0
    unit: str = "token"
    name: str = "loss"


class Loss(Component):
    """Base of losses: subclasses implement ``_compute_loss``.

    Attributes:
      unit: what the loss is averaged over, such as ``"token"``; printed when a run starts. None if it is not known.
      needs_logits: whether the loss reads the ``logits`` even if the decoder returns a ``projection``. If not, training
        does not compute them. False must be declared by the class that implements ``_compute_loss``.
    """

    unit: str | None = None
    needs_logits = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_compute_loss" in vars(cls) and "needs_logits" not in vars(cls):
            cls.needs_logits = True

    def compute_loss(self, input_dict: dict[str, Any]) -> list[LossTerm]:
        """Computes the loss terms of a micro-batch.

        Args:
          input_dict: a dict with ``decoder_output`` (the decoder's result), ``target_tensors`` (a list of the targets
            and, for sequences, their lengths; each subclass documents the shapes) and, optionally, ``ids`` ``[batch]``
            (the indices of the examples, negative for empty rows).

        Returns:
          The terms. A subclass's ``_compute_loss`` may also return a single ``LossTerm``, or a scalar: the mean over
          the examples of the micro-batch.
        """
        result = self._compute_loss(input_dict)
        if isinstance(result, LossTerm):
            return [result]
        if isinstance(result, (list, tuple)):
            return list(result)
        examples = tf.reduce_sum(example_weights(input_dict))
        return [LossTerm(tf.cast(result, tf.float32) * examples, examples, unit="example")]

    def _compute_loss(self, input_dict: dict[str, Any]) -> Any:
        raise NotImplementedError("A loss must implement _compute_loss(input_dict).")


def example_weights(input_dict: dict[str, Any]) -> tf.Tensor:
    """Returns FP32 ``[batch]``: 1 for rows with an example, 0 for empty rows; all 1 if the input has no ``ids``."""
    ids = input_dict.get("ids")
    if ids is None:
        return tf.ones(tf.shape(input_dict["target_tensors"][0])[:1])
    return tf.cast(ids >= 0, tf.float32)
