"""The keys of the dicts that encoders, decoders and losses pass to one another.

Each dict is described by a ``TypedDict``, of which no class needs all keys: what it needs, its docstring says. Parts of
one's own may add keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError

LENGTHS = "outputs_length"
# Names from the TensorFlow 1 toolkit: of its encoders of speech, and of text.
LENGTHS_ALIASES = ("src_length", "src_lengths")


class EncoderInput(TypedDict, total=False):
    """What an encoder gets.

    Attributes:
      source_tensors: ``[values, lengths, …]``, as the data layer makes them; values ``[batch, time, …]``, lengths
        ``[batch]``.
    """

    source_tensors: list[tf.Tensor]


class EncoderOutput(TypedDict, total=False):
    """What an encoder returns.

    Attributes:
      outputs: ``[batch, time, channels]`` in the compute type.
      outputs_length: how many of them count, ``[batch]`` int32.
      src_length: alias of ``outputs_length``.
      src_lengths: alias of ``outputs_length``.
      state: of recurrent layers at the end, or None.
      inputs_attention_bias: FP32 ``[batch, 1, 1, time]``, -1e9 where there is padding.
      embedding_softmax_layer: the ``SharedEmbedding`` that ``TransformerDecoder`` embeds with too.
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
    """What a decoder gets.

    Attributes:
      encoder_output: an ``EncoderOutput``.
      target_tensors: ``[values, lengths, …]`` where the loss is wanted, else absent or None.
      ids: number of each example ``[batch]`` int64, below 0 for rows that hold none; where the decoder is to write
        freely.
    """

    encoder_output: EncoderOutput
    target_tensors: list[tf.Tensor] | None
    ids: tf.Tensor


class DecoderOutput(TypedDict, total=False):
    """What a decoder returns.

    Attributes:
      logits: ``[batch, time, vocabulary]``; None where the decoder wrote freely.
      outputs: tensors for the task, such as ids ``[batch, time]`` and their lengths ``[batch]``; or None.
      projection: what logits are made of, an ``OutputProjection``, for losses that need no logits as a whole.
      src_length: how many logits count ``[batch]``, of decoders that write one symbol for each output of the encoder.
      beam_ids: hypotheses ``[batch, n_best, length]`` int32, best first; the end symbol is kept, 0 follows it.
      beam_scores: their log probabilities by the length penalty ``[batch, n_best]`` FP32; -inf where there is none.
      beam_lengths: their lengths ``[batch, n_best]`` int32, the end symbol included.
      alignments: where attention looked, ``[batch, time, heads, source]`` FP32.
      ctc_output: what the CTC decoder of joint CTC and attention returned, a ``DecoderOutput``.
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
    """What a loss gets.

    Attributes:
      decoder_output: a ``DecoderOutput``.
      target_tensors: ``[values, lengths, …]``, as the data layer makes them.
      ids: number of each example ``[batch]`` int64, below 0 for rows that hold none.
    """

    decoder_output: DecoderOutput
    target_tensors: list[tf.Tensor]
    ids: tf.Tensor


def lengths_of(output: Mapping[str, Any], source: str = "the encoder") -> tf.Tensor:
    """Returns the lengths ``[batch]`` in an encoder's or decoder's output, under whichever of their names they are.

    Args:
      source: who returned it, for the message.

    Raises:
      ConfigError: there are none.
    """
    for key in (LENGTHS, *LENGTHS_ALIASES):
        if output.get(key) is not None:
            return output[key]
    raise ConfigError([f"The output of {source} has no lengths: return them as '{LENGTHS}', [batch] int32."])


def with_lengths(output: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an encoder's output with its lengths under all of their names, where it has any."""
    names = (LENGTHS, *LENGTHS_ALIASES)
    missing = [key for key in names if output.get(key) is None]
    return {**output, **dict.fromkeys(missing, lengths_of(output))} if len(missing) < len(names) else dict(output)
