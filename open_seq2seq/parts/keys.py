"""Keys of the dicts that encoders, decoders and losses pass to one another.

Each dict is described by a ``TypedDict``. No class needs all of its keys; the docstring of each encoder, decoder and
loss says which it uses. Users' components may add keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError

LENGTHS = "outputs_length"
# Names from NVIDIA's OpenSeq2Seq.
LENGTHS_ALIASES = ("src_length", "src_lengths")


class EncoderInput(TypedDict, total=False):
    """Input of an encoder: a batch without its targets.

    Attributes:
      source_tensors: ``[values, lengths, …]`` from the data layer, with values ``[batch, time, …]`` and lengths
        ``[batch]``.
      ids: indices of the examples in the data set ``[batch]`` int64; negative for empty rows, which contain only
        padding; absent or None if the batch has none.
      speakers: for speech synthesis with several speakers, the number of the speaker of each text ``[batch]`` int32.
    """

    source_tensors: list[tf.Tensor]
    ids: tf.Tensor | None
    speakers: tf.Tensor


class EncoderOutput(TypedDict, total=False):
    """Output of an encoder.

    Attributes:
      outputs: ``[batch, time, channels]`` in the compute dtype.
      outputs_b: values for an attention whose keys are ``outputs``, in the shape of ``outputs``; absent if
        ``outputs`` are both keys and values.
      outputs_length: number of valid outputs, ``[batch]`` int32.
      src_length: alias of ``outputs_length``.
      src_lengths: alias of ``outputs_length``.
      state: for each recurrent layer, its final states ``[batch, size]`` FP32, the output first; or None.
      inputs_attention_bias: FP32 ``[batch, 1, 1, time]``, -1e9 at padding.
      embedding_softmax_layer: the ``SharedEmbedding``, which ``TransformerDecoder`` also uses.
      embedding_table: the embeddings of the source ids ``[ids, channels]`` FP32, which ``RNNDecoderWithAttention`` can
        share.
      encoder_input: the source ids ``[batch, time]``.
    """

    outputs: tf.Tensor
    outputs_b: tf.Tensor
    outputs_length: tf.Tensor
    src_length: tf.Tensor
    src_lengths: tf.Tensor
    state: Any
    inputs_attention_bias: tf.Tensor
    embedding_softmax_layer: Any
    embedding_table: tf.Tensor
    encoder_input: tf.Tensor


class DecoderInput(TypedDict, total=False):
    """Input of a decoder.

    Attributes:
      encoder_output: an ``EncoderOutput``.
      target_tensors: ``[values, lengths, …]`` for teacher forcing; absent or None for search and sampling.
      prefix_tensors: for search and sampling, the ids ``[batch, time]`` with which hypotheses begin, and the lengths
        of these prefixes ``[batch]``; absent or None without a prefix.
      others: for search and sampling, the other decoders of an ensemble with the outputs of their encoders
        (``decoders.autoregressive.Member``); absent or None without an ensemble.
      ids: for sampling, indices of the examples in the data set ``[batch]`` int64; negative for empty rows, which
        contain only padding.
      speeds: for synthesised speech, how many times as fast each text is to be spoken ``[batch]`` FP32; 0 for empty
        rows; absent or None for 1.
    """

    encoder_output: EncoderOutput
    target_tensors: list[tf.Tensor] | None
    prefix_tensors: list[tf.Tensor] | None
    others: Sequence[Any] | None
    ids: tf.Tensor
    speeds: tf.Tensor | None


class DecoderOutput(TypedDict, total=False):
    """Output of a decoder.

    Attributes:
      logits: ``[batch, time, vocabulary]``; None after search or sampling, and in training with a ``projection``
        unless the loss needs them (``Loss.needs_logits``).
      outputs: the decoded tensors, such as ids ``[batch, time]`` and lengths ``[batch]``; or None, as without logits.
      projection: an ``OutputProjection`` or ``AdaptiveProjection``, from which losses compute cross-entropies without
        all logits.
      src_length: for decoders that predict one symbol per encoder output, the number of valid time steps of the
        logits ``[batch]``.
      beam_ids: hypotheses ``[batch, n_best, length]`` int32, best first; zeros follow the end symbol.
      beam_scores: scores of the hypotheses ``[batch, n_best]`` FP32: the log probability, divided by the length
        penalty, plus the coverage penalty, if any; -inf if a hypothesis is missing.
      beam_lengths: lengths of the hypotheses ``[batch, n_best]`` int32, including the end symbol.
      alignments: attention weights ``[batch, time, heads, source]`` FP32.
      stop_token_prediction: for spectrograms, logits of their end ``[batch, time, 1]`` FP32.
      durations: for spectrograms without attention, durations of the symbols ``[batch, text]`` FP32, in frames.
      log_durations: predicted logarithms of 1 + duration ``[batch, text]`` FP32.
      symbols: for spectrograms, numbers of symbols of the texts ``[batch]``.
      endings: for synthesised spectrograms, what ended each, as an index of ``decoders.endings.ENDINGS``
        ``[batch]``.
      ctc_output: the ``DecoderOutput`` of the CTC decoder in joint CTC-attention models.
    """

    logits: tf.Tensor | None
    outputs: list[tf.Tensor] | None
    projection: Any
    src_length: tf.Tensor
    beam_ids: tf.Tensor
    beam_scores: tf.Tensor
    beam_lengths: tf.Tensor
    alignments: tf.Tensor
    stop_token_prediction: tf.Tensor
    durations: tf.Tensor
    log_durations: tf.Tensor
    symbols: tf.Tensor
    endings: tf.Tensor
    ctc_output: Any


class LossInput(TypedDict, total=False):
    """Input of a loss.

    Attributes:
      decoder_output: a ``DecoderOutput``.
      target_tensors: ``[values, lengths, …]`` from the data layer.
      ids: indices of the examples in the data set ``[batch]`` int64; negative for empty rows, which contain only
        padding.
    """

    decoder_output: DecoderOutput
    target_tensors: list[tf.Tensor]
    ids: tf.Tensor


def lengths_of(output: Mapping[str, Any], source: str = "the encoder") -> tf.Tensor:
    """Returns the lengths ``[batch]`` from an output, under any of their names.

    Args:
      output: output of an encoder or decoder.
      source: name of the component that returned the output, for the message.

    Raises:
      ConfigError: the output has no lengths.
    """
    for key in (LENGTHS, *LENGTHS_ALIASES):
        if output.get(key) is not None:
            return output[key]
    raise ConfigError([f"The output of {source} has no lengths: return them as '{LENGTHS}', [batch] int32."])


def with_lengths(output: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an encoder's output with the lengths, if any, stored under all of their names."""
    names = (LENGTHS, *LENGTHS_ALIASES)
    missing = [key for key in names if output.get(key) is None]
    return {**output, **dict.fromkeys(missing, lengths_of(output))} if len(missing) < len(names) else dict(output)
