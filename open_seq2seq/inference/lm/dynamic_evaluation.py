"""Dynamic evaluation: a language model learns from each chunk of a text after the chunk has been scored.

See Krause et al. 2018, https://arxiv.org/abs/1709.07432. This implementation uses plain gradient descent, with a decay
towards the trained weights.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.data.contiguous import OnePass
from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.runners.run_states import carried_in_pass
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, UserError


class DynamicSettings(NamedTuple):
    """How the weights are adapted.

    Attributes:
      rate: learning rate of gradient descent; with 0, the evaluation is an ordinary one.
      decay: at each update, the weights move back towards the trained ones by this fraction of their distance.
      max_grad_norm: largest global norm of the gradients; larger ones are scaled down to it. Infinity disables this.
    """

    rate: float
    decay: float = 0.0
    max_grad_norm: float = 0.25


def evaluate_dynamically(model: Model, settings: DynamicSettings) -> dict[str, float]:
    """Evaluates a language model dynamically; prints and returns its metrics by name.

    At the end, the weights are as before.

    Args:
      model: a model built for evaluation, with restored weights.
      settings: how the weights are adapted.

    Raises:
      ConfigError: the model is not a language model, or the chunks of its data do not each continue the previous one.
      UserError: the updates make the model diverge.
    """
    if not isinstance(model, LanguageModel):
        raise ConfigError([f"Dynamic evaluation needs a language model, got {type(model).__name__}: give the config or "
                           "logdir of a LanguageModel."])
    if not model.data_layer.contiguous:
        raise ConfigError(["Dynamic evaluation needs a text in which each chunk continues the previous one: set "
                           "'data_layer_params/carry_state' to True."])
    weights = [variable for variable in named_variables(model).values() if variable.trainable]
    trained = [tf.identity(variable) for variable in weights]
    step = tf.function(_step_of(model, weights, trained, settings), autograph=False,
                       input_signature=[model.data_layer.input_signature, tf.TensorSpec([], tf.bool)])
    results = []
    try:
        with contextlib.closing(OnePass(model.data_layer)) as plan:
            for (number, fresh, batch), in plan:
                outputs = [np.asarray(output) for output in step(batch, fresh)]
                if not np.isfinite(outputs[0]).all():
                    raise UserError(f"Dynamic evaluation has diverged: the log likelihood of chunk {number + 1:,} is "
                                    "not finite: lower --rate or --clip.")
                results.append(model.evaluate(batch, outputs))
    finally:
        for variable, before in zip(weights, trained, strict=True):
            variable.assign(before)
    deco_print("Dynamic evaluation:")
    return model.finalize_evaluation(results)


def _step_of(model: Model, weights: list[tf.Variable], trained: list[tf.Tensor], settings: DynamicSettings) -> Any:
    """Returns a function that scores a batch, updates the weights, and returns the tensors that ``evaluate`` needs."""
    def step(batch: dict[str, Any], fresh: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape, forward_pass(carried=carried_in_pass(model, batch, fresh)):
            outputs = model.evaluation_outputs(batch, *model.loss_terms(batch, training=False))
            mean = tf.reduce_sum(outputs[0]) / tf.reduce_sum(outputs[1])
        gradients = [tf.convert_to_tensor(gradient) if gradient is not None else None
                     for gradient in tape.gradient(mean, weights)]
        if math.isfinite(settings.max_grad_norm):
            gradients, _ = tf.clip_by_global_norm(gradients, settings.max_grad_norm)
        for variable, gradient, before in zip(weights, gradients, trained, strict=True):
            if gradient is not None:
                variable.assign_sub(settings.rate * gradient + settings.decay * (variable - before))
        return outputs

    return step
