"""What an exported model can do: functions from tensors by name to tensors by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

Tensors = dict[str, tf.Tensor]


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
    """

    name: str
    function: Callable[[Tensors], Tensors]
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, str]
    is_core: bool
