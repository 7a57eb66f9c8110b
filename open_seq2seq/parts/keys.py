"""The keys of the dicts that encoders, decoders and losses pass to one another.

A ``TypedDict`` describes each dict. No class needs all keys; its docstring says which. Users' parts may add keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError

LENGTHS = "outputs_length"
# Names from the TensorFlow 1 toolkit.
LENGTHS_ALIASES = ("src_length", "src_lengths")


class EncoderInput(TypedDict, total=False):
    """The input of an encoder.

    Attributes:
      source_tensors: ``[values, lengths, …]``, as the data layer makes them; values ``[batch, time, …]``, lengths
        ``[batch]``.
    """

    source_tensors: list[tf.Tensor]


class EncoderOutput(TypedDict, total=False):
    """The output of an encoder.

    Attributes:
      outputs: ``[batch, time, channels]`` in the compute type.
      outputs_length: number of valid outputs, ``[batch]`` int32.
      src_length: alias of ``outputs_length``.
      src_lengths: alias of ``outputs_length``.
      state: final state of recurrent layers, or None.
      inputs_attention_bias: FP32 ``[batch, 1, 1, time]``, -1e9 at padding.
      embedding_softmax_layer: the ``SharedEmbedding`` that ``TransformerDecoder`` uses too.
      encoder_input: the ids ``[batch, time]``.
    """

    outputs: tf.Tensor
    outputs_length: tf.Tensor
    src_length: tf.Tensor
    src_lengths: tf.Tensor
    state: Any
    inputs_attention_bias: tf.Tensor
    embedding_softmax_layer: Any
    encoder_input: tf.Tensor


class DecoderInput(TypedDict, total=False):
    """The input of a decoder.

    Attributes:
      encoder_output: an ``EncoderOutput``.
      target_tensors: ``[values, lengths, …]`` for the loss; absent or None in free decoding.
      ids: numbers of the examples ``[batch]`` int64, below 0 for empty rows; in free decoding.
    """

    encoder_output: EncoderOutput
    target_tensors: list[tf.Tensor] | None
    ids: tf.Tensor


class DecoderOutput(TypedDict, total=False):
    """The output of a decoder.

    Attributes:
      logits: ``[batch, time, vocabulary]``; None in free decoding.
      outputs: tensors for the task, such as ids ``[batch, time]`` and their lengths ``[batch]``; or None.
      projection: an ``OutputProjection``, from which losses compute logits piece by piece.
      src_length: number of valid logits ``[batch]``, of decoders with one symbol for each output of the encoder.
      beam_ids: hypotheses ``[batch, n_best, length]`` int32, best first; zeros follow the end symbol.
      beam_scores: their log probabilities, divided by the length penalty, ``[batch, n_best]`` FP32; -inf if missing.
      beam_lengths: their lengths ``[batch, n_best]`` int32, the end symbol included.
      alignments: attention weights ``[batch, time, heads, source]`` FP32.
      ctc_output: the ``DecoderOutput`` of the CTC decoder in joint CTC and attention.
    """

    logits: tf.Tensor | None
    outputs: list[tf.Tensor] | None
    projection: Any
    src_length: tf.Tensor
    beam_ids: tf.Tensor
    beam_scores: tf.Tensor
    beam_lengths: tf.Tensor
    alignments: tf.Tensor
    ctc_output: Any


class LossInput(TypedDict, total=False):
    """The input of a loss.

    Attributes:
      decoder_output: a ``DecoderOutput``.
      target_tensors: ``[values, lengths, …]``, as the data layer makes them.
      ids: numbers of the examples ``[batch]`` int64, below 0 for empty rows.
    """

    decoder_output: DecoderOutput
    target_tensors: list[tf.Tensor]
    ids: tf.Tensor


def lengths_of(output: Mapping[str, Any], source: str = "the encoder") -> tf.Tensor:
    """Returns the lengths ``[batch]`` in an encoder's or decoder's output, by any of their names.

    Args:
      output: of an encoder or decoder.
      source: which of them, for the message.

    Raises:
      ConfigError: there are none.
    """
    for key in (LENGTHS, *LENGTHS_ALIASES):
        if output.get(key) is not None:
            return output[key]
    raise ConfigError([f"The output of {source} has no lengths: return them as '{LENGTHS}', [batch] int32."])


def with_lengths(output: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an encoder's output with its lengths, if any, under all of their names."""
    names = (LENGTHS, *LENGTHS_ALIASES)
    missing = [key for key in names if output.get(key) is None]
    return {**output, **dict.fromkeys(missing, lengths_of(output))} if len(missing) < len(names) else dict(output)
