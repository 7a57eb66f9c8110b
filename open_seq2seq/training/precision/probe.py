"""Runs a model forward and backward in float32, and measures its activations and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batching import evaluation_plan
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import named_modules, named_variables
from open_seq2seq.parts.observation import observing
from open_seq2seq.parts.precision import weight_cast_scope
from open_seq2seq.parts.randomness import random_scope
from open_seq2seq.runners.run_states import setting_aside
from open_seq2seq.training.loop.step import local_means
from open_seq2seq.training.precision.ranges import Conversion, NumberRange, RangeTensors, measure


class Kind(Enum):
    """Kinds of tensors that are measured."""

    ACTIVATIONS = "activations"
    ACTIVATION_GRADIENTS = "gradients of activations"
    WEIGHT_GRADIENTS = "gradients of weights"


Ranges = dict[Kind, dict[str, NumberRange]]


class PrecisionProbe:
    """Measures the value ranges of activations, of their gradients, and of the gradients of weights.

    The loss is the mean over each batch, as in a training step, but without regularisation, which acts on FP32 weights
    in every precision.

    Args:
      model: a float32 model that was built with a loss and whose weights have been restored.
      conversions: conversions for which underflow and overflow are counted. Activations are never scaled, so only
        conversions with scale 1 are meaningful for them.
      seed: random seed of dropout.
    """

    def __init__(self, model: Model, conversions: Sequence[Conversion], seed: int = 0) -> None:
        self._model = model
        self._conversions = tuple(conversions)
        self._seed = seed
        self._modules = named_modules(model)
        self._variables = {name: v for name, v in named_variables(model).items() if v.trainable}
        signature = [model.data_layer.input_signature, tf.TensorSpec([], tf.int64)]
        self._measure = tf.function(self._measure_batch, autograph=False, input_signature=signature)

    def run(self, batches: Iterator[Mapping[str, Any]]) -> Ranges:
        """Returns the ranges of the values in all batches, by kind and by name.

        Activations and their gradients are named by the path of their module, gradients of weights by the variable.

        Args:
          batches: batches of the model's data layer, as NumPy arrays.
        """
        ranges: Ranges = {kind: {} for kind in Kind}
        for number, batch in enumerate(batches):
            for kind, tensors in zip(Kind, self._measure(batch, number), strict=True):
                for name, values in tensors.items():
                    before = ranges[kind].get(name, NumberRange())
                    ranges[kind][name] = before + values.to_range(self._conversions)
        return ranges

    def _measure_batch(self, batch: Any, number: tf.Tensor) -> tuple[dict[str, RangeTensors], ...]:
        with tf.GradientTape() as tape:
            tape.watch(list(self._variables.values()))
            # The batches come from different parts of the data, so carried states start at zero in each of them.
            with (random_scope(self._seed, number), weight_cast_scope(), setting_aside(self._model, batch, {}),
                  observing(self._modules) as observation):
                terms, _ = self._model.loss_terms(batch, training=self._model.mode == "train")
            loss = tf.add_n(list(local_means(terms)[0].values()))
        by_tensor, by_variable = tape.gradient(loss, (observation.tensors, self._variables))
        return (self._of_lists(observation.tensors), self._of_lists(by_tensor),
                {name: measure(g, self._conversions) for name, g in by_variable.items() if g is not None})

    def _of_lists(self, tensors: dict[str, list[tf.Tensor | None]]) -> dict[str, RangeTensors]:
        """Measures all tensors of a name together, one for each call of a module; entries of None are left out."""
        flat = {name: [tf.reshape(t, [-1]) for t in calls if t is not None] for name, calls in tensors.items()}
        return {name: measure(tf.concat(calls, 0), self._conversions) for name, calls in flat.items() if calls}


def pick_batches(model: Model, count: int) -> Iterator[Mapping[str, Any]]:
    """Yields ``count`` batches, spread evenly over the model's data, or all batches if there are fewer."""
    plan = evaluation_plan(model.data_layer)
    for place in np.unique(np.linspace(0, len(plan) - 1, count).round().astype(int)):
        yield model.data_layer.make_batch(plan.batch(int(place)))
