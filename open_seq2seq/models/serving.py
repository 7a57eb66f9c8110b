"""What an exported model can do: functions from tensors by name to tensors by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Tensors = dict[str, tf.Tensor]


class Answer(NamedTuple):
    """The result for one example, in a form in which results of an export and of inference can be compared.

    Attributes:
      texts: what has to be equal, such as the texts of hypotheses, best first, or the name of a class.
      numbers: what may differ by rounding, such as scores, probabilities or sound; () if there is nothing to compare.
    """

    texts: tuple[str, ...]
    numbers: Sequence[float] | np.ndarray = ()


@dataclasses.dataclass(frozen=True)
class ServingFunction:
    """A function of an exported model.

    Its batch dimension and its lengths in time are dynamic. It is traced within a portable forward pass; see
    ``parts.forward_pass``. The result of a row does not depend on the other rows.

    Attributes:
      name: ``translate``, ``transcribe``, ``classify``, ``continue`` or ``synthesize`` for a function of raw inputs
        (texts, waveforms, bytes of image files), and the name of its output (``ids``, ``logits``) for a core, whose
        inputs and outputs are numbers and which more formats can hold.
      function: the function.
      inputs: the specs of its inputs, by name.
      outputs: a description of each output, with its shape, by name.
      is_core: whether inputs and outputs are numbers, without strings.
      feed: returns the arrays to call it with, for inputs of ``TrainedModel.infer`` and their indices ``[batch]``.
      answers: returns what its outputs say about each example of a batch.
      expected: returns the same for one of the results of ``TrainedModel.infer``.
      resources: returns what the function uses besides the weights, such as tables; called before it is traced. Raises
        ``NoGraphForm`` if the function has no graph form.
      numbers: computes by inference, for some inputs of ``TrainedModel.infer``, the numbers of their answers, if
        results of ``infer`` do not have them, such as logits. The check reports how much they differ, but judges the
        texts.
    """

    name: str
    function: Callable[[Tensors], Tensors]
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, str]
    is_core: bool
    feed: Callable[[Sequence[Any], np.ndarray], dict[str, np.ndarray]]
    answers: Callable[[Mapping[str, np.ndarray]], list[Answer]]
    expected: Callable[[Any], Answer]
    resources: Callable[[], Sequence[Any]] = tuple
    numbers: Callable[[Sequence[Any]], Sequence[np.ndarray]] | None = None


def answers_of_texts(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
    """Is the ``answers`` of a function whose output ``texts`` ``[batch]`` is all that has to be equal."""
    return [Answer((text.decode(),)) for text in outputs["texts"].tolist()]


def answer_of_ids(ids: np.ndarray) -> Answer:
    """Returns ids ``[time]`` as what has to be equal."""
    return Answer((" ".join(map(str, ids.tolist())),))


EXAMPLES = "examples"
"""Name of the input of functions that sample: the index of each row, from which its random numbers are computed."""


def specs_of_sampling(part: Any) -> dict[str, tf.TensorSpec]:
    """Returns the spec of the input from which sampling computes its random numbers, the index of each row.

    Args:
      part: the decoder or encoder; without sampling, no input is needed.
    """
    samples = part.params.get("sampling_temperature") is not None
    return {EXAMPLES: tf.TensorSpec([None], tf.int64)} if samples else {}


def row_numbers(inputs: Tensors, like: tf.Tensor) -> tf.Tensor:
    """Returns the index of each row ``[batch]`` int64: the input ``examples``, or the row's number in ``like``."""
    if EXAMPLES in inputs:
        return inputs[EXAMPLES]
    return tf.range(tf.shape(like, tf.int64)[0])


def feed_of_texts(more: Mapping[str, tf.TensorSpec]) -> Callable[[Sequence[Any], np.ndarray], dict[str, np.ndarray]]:
    """Returns the ``feed`` of a function that reads ``texts``.

    Args:
      more: specs of its other inputs, which are all the indices of the rows.
    """
    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {"texts": np.array([text.encode() for text in inputs], object), **dict.fromkeys(more, numbers)}

    return feed


def core_of_ids(name: str, layer: Any, function: Callable[[Tensors], Tensors], more: Mapping[str, tf.TensorSpec],
                outputs: Mapping[str, str], answers: Callable[[Mapping[str, np.ndarray]], list[Answer]],
                expected: Callable[[Any], Answer]) -> ServingFunction:
    """Returns a core that reads the ids of texts, as ``source_ids`` and ``source_lengths``.

    Args:
      name: its name.
      layer: the data layer of text.
      function: the function.
      more: specs of its other inputs, which are all the indices of the rows.
      outputs: see ``ServingFunction``.
      answers: see ``ServingFunction``.
      expected: see ``ServingFunction``.
    """
    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        ids, lengths = layer.make_interactive_batch(inputs)["source_tensors"]
        return {"source_ids": ids, "source_lengths": lengths, **dict.fromkeys(more, numbers)}

    specs = {"source_ids": tf.TensorSpec([None, None], tf.int32), "source_lengths": tf.TensorSpec([None], tf.int32)}
    return ServingFunction(name, function, {**specs, **more}, outputs, True, feed, answers, expected)
