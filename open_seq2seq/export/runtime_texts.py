"""Functions of formats whose runtimes tokenise and search themselves, instead of running a graph of TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.serving import Answer, ServingFunction, answer_of_ids

TEXTS = tf.TensorSpec([None], tf.string)
LEAST_POSITIONS = 512
"""Smallest number of positions of a written model; it has more if the model reads or writes longer texts."""
SAMPLING_OFF: dict[str, Any] = dict.fromkeys(("sampling_temperature", "sampling_top_k", "sampling_top_p"))
"""Values of inference that do not sample."""
Feed = Callable[[Sequence[Any], np.ndarray], dict[str, np.ndarray]]
Answers = Callable[[Mapping[str, np.ndarray]], list[Answer]]


@dataclasses.dataclass(frozen=True)
class RuntimeFunction(ServingFunction):
    """A function that the runtime of a format computes.

    Attributes:
      loading: returns lines of Python that load the export and call the function, given the name of its folder.
    """

    loading: Callable[[str], list[str]] = lambda folder: []


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Is the ``loading`` of a ``Format`` whose functions are ``RuntimeFunction`` with ``loading``."""
    assert isinstance(function, RuntimeFunction)
    return function.loading(folder)


def runtime_function(name: str, inputs: Mapping[str, tf.TensorSpec], outputs: Mapping[str, str], feed: Feed,
                     answers: Answers, expected: Callable[[Any], Answer],
                     loading: Callable[[str], list[str]] = lambda folder: []) -> RuntimeFunction:
    """Returns a function without a graph; see ``RuntimeFunction``."""
    return RuntimeFunction(name, _no_graph, inputs, outputs, False, feed, answers, expected, loading=loading)


def _no_graph(inputs: Any) -> Any:
    raise NotImplementedError("The functions of this format are not graphs of TensorFlow.")


def continuing(model: Any, inputs: Mapping[str, tf.TensorSpec], outputs: Mapping[str, str], feed: Feed,
               loading: Callable[[str], list[str]] = lambda folder: []) -> RuntimeFunction:
    """Returns the function ``continue`` of a language model, whose runtime returns the new ``ids``.

    Its feed has one more entry, ``limits``: the number of new ids of each row ``[batch]``.
    """
    count = model.encoder.params["num_tokens_gen"]

    def feed_with_limits(given: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {**feed(given, numbers), "limits": np.full(len(given), count)}

    def answers(arrays: Mapping[str, np.ndarray]) -> list[Answer]:
        return [answer_of_ids(ids) for ids in arrays["ids"]]

    return runtime_function("continue", inputs, outputs, feed_with_limits, answers,
                            lambda result: answer_of_ids(result[-count:]), loading)


def translation_limits(model: Any, lengths: Any) -> np.ndarray:
    """Returns the maximum lengths of translations ``[batch]``, given those of the sources, all including EOS."""
    return model.decoder.limits({"outputs_length": tf.convert_to_tensor(lengths)}).numpy()


def positions_of_translation(model: Any, least: int = LEAST_POSITIONS) -> int:
    """Returns the number of positions of a translation model: its longest source or translation, at least ``least``."""
    longest = model.data_layer.params["max_length"] or least
    return max(least, longest, int(translation_limits(model, [longest])[0]) + 1)


def refusal_of_norms(*parts: Any) -> str | None:
    """Returns why parts with another normalisation than ``layernorm_L2`` cannot be written; None if there are none."""
    kinds = [part.params["norm_params"].get("type", "layernorm_L2") for part in parts]
    return next((f"'norm_params/type' is {kind}" for kind in kinds if kind != "layernorm_L2"), None)


def without_padding(table: np.ndarray) -> np.ndarray:
    """Returns a table whose first row, the embedding of padding and of the beginning, is zeros."""
    return np.concatenate([np.zeros_like(table[:1]), table[1:]])


def greedy_search(model: Any) -> dict[str, Any]:
    """Returns values of inference by which a model chooses the likeliest token at each step."""
    if isinstance(model, LanguageModel):
        return {"encoder_params": SAMPLING_OFF}
    return {"decoder_params": {**SAMPLING_OFF, "beam_size": 1, "n_best": 1, "beam_groups": 1, "coverage_penalty": 0.0}}
