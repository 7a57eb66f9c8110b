"""Runs a batch again to find which of its inputs, variables, gradients and examples are not finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.clipping import values_of
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.runners.run_states import carried_signature, set_aside
from open_seq2seq.runners.runner import compiled_graph
from open_seq2seq.training.loop.divergence import nonfinite
from open_seq2seq.training.loop.kept_batch import flatten
from open_seq2seq.training.loop.step import local_means

# Maximum number of forward passes in the search for the examples whose loss is not finite.
_MAX_PASSES = 64


@dataclass
class Diagnosis:
    """The result of running a batch again.

    Attributes:
      loss: loss of the batch.
      inputs: paths of the batch's arrays that contain inf or NaN.
      values: names of the variables that contain inf or NaN.
      gradients: names of the variables whose gradients, at the given loss scale, contain inf or NaN.
      num_gradients: number of variables that have a gradient.
      rows: rows of the batch whose own loss is not finite; empty if the loss of the batch is finite, if a variable
        contains inf or NaN, or if finding the rows takes too many passes.
    """

    loss: float
    inputs: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)
    num_gradients: int = 0
    rows: list[int] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        """Whether the loss, inputs, variables and gradients are all finite."""
        return bool(np.isfinite(self.loss)) and not (self.inputs or self.values or self.gradients)


class Examiner:
    """Runs batches again as the training step would, without changing trainable weights or carried states.

    The moving statistics of batch normalisation do change, as in any training pass.

    Args:
      model: the training model.
      variables: all variables of the model, by name.
      trainable: the trainable variables, by name.
      seed: the run's seed, so that dropout is the same as in the training step.
    """

    def __init__(self, model: Model, variables: Mapping[str, tf.Variable], trainable: Mapping[str, tf.Variable],
                 seed: int) -> None:
        self._model, self._variables, self._trainable, self._seed = model, variables, dict(trainable), seed
        batch, scalar = model.data_layer.input_signature, tf.TensorSpec([], tf.float32)
        number = tf.TensorSpec([], tf.int64)
        self._carried = carried_signature(model)
        signature = [batch, self._carried, number]
        self._backward = compiled_graph(self._gradients, [*signature, scalar])
        self._forward = compiled_graph(self._loss, signature)

    def examine(self, batch: dict[str, Any], micro_batch: int, loss_scale: float = 1.0,
                carried: Mapping[str, np.ndarray] = MappingProxyType({})) -> Diagnosis:
        """Runs a batch with the current weights.

        Args:
          batch: the batch from the data layer, as NumPy arrays.
          micro_batch: index of the batch since the start of training, which determines dropout.
          loss_scale: factor on the loss before differentiation.
          carried: states ``[rows, …]`` that the model continues from, by path; missing ones are zeros.
        """
        states = {name: carried.get(name, np.zeros([len(batch["ids"]), *spec.shape[1:]], spec.dtype.as_numpy_dtype))
                  for name, spec in self._carried.items()}
        loss, finite = self._backward(batch, states, micro_batch, loss_scale)
        inputs = [path for path, array in flatten(batch).items()
                  if np.asarray(array).dtype.kind == "f" and not np.isfinite(array).all()]
        diagnosis = Diagnosis(float(loss), inputs, nonfinite(self._variables),
                              [name for name, flag in finite.items() if not flag], len(finite))
        if not np.isfinite(diagnosis.loss) and not diagnosis.values:
            diagnosis.rows = self._bad_rows(batch, states, micro_batch)
        return diagnosis

    def _loss(self, batch: Any, carried: dict[str, tf.Tensor], micro_batch: tf.Tensor) -> tf.Tensor:
        with forward_pass(self._seed, micro_batch, carried=set_aside(self._model, batch, carried)):
            terms, _ = self._model.loss_terms(batch, training=True)
        return tf.add_n(list(local_means(terms)[0].values()))

    def _gradients(self, batch: Any, carried: dict[str, tf.Tensor], micro_batch: tf.Tensor, loss_scale: tf.Tensor,
                   ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self._trainable.values()))
            loss = self._loss(batch, carried, micro_batch)
            scaled = loss * loss_scale
        gradients = {n: g for n, g in tape.gradient(scaled, self._trainable).items() if g is not None}
        values = dict(zip(gradients, values_of(gradients), strict=True))
        return loss, {name: tf.reduce_all(tf.math.is_finite(value)) for name, value in values.items()}

    def _bad_rows(self, batch: dict[str, Any], carried: dict[str, np.ndarray], micro_batch: int) -> list[int]:
        """Returns the rows whose loss is not finite, found by bisection; [] if this takes too many passes."""
        passes = 0

        def search(begin: int, end: int) -> list[int]:
            nonlocal passes
            passes += 1
            states = {name: state[begin:end] for name, state in carried.items()}
            if passes > _MAX_PASSES or np.isfinite(self._forward(_rows(batch, begin, end), states, micro_batch)):
                return []
            middle = (begin + end) // 2
            return [begin] if end - begin == 1 else search(begin, middle) + search(middle, end)

        rows = search(0, len(batch["ids"]))
        return rows if passes <= _MAX_PASSES else []


def _rows(batch: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    size = len(batch["ids"])
    return tf.nest.map_structure(lambda a: a[begin:end] if np.ndim(a) and len(a) == size else a, batch)
