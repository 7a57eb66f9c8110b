"""Uses of recorded attention to the source: sums for the coverage penalty, and checks of selected layers and heads."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.decoding.beam_search import StepFunction
from open_seq2seq.parts.attention_record import mean_attention, recording_attention
from open_seq2seq.utils.errors import ConfigError


def with_coverage(step_fn: StepFunction, cache: Any, lengths: tf.Tensor, hypotheses: int,
                  width: tf.Tensor) -> tuple[StepFunction, Any]:
    """Returns a step function that also sums the attention over the steps, and the initial cache of this function.

    The cache is a pair: the decoder's cache, and the attention that each source position has received so far,
    ``[batch, hypotheses, source]`` FP32. At padding, the attention starts at 1, so that padding adds no penalty.

    Args:
      step_fn: the decoder's step function.
      cache: the decoder's initial cache.
      lengths: lengths of the sources, ``[batch]``.
      hypotheses: number of hypotheses per sentence.
      width: padded length of the sources, an int32 scalar.
    """
    def step(ids: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        inner, coverage = cache
        with recording_attention() as record:
            scores, inner = step_fn(ids, number, inner)
        return scores, (inner, tf.ensure_shape(coverage + mean_attention(record), coverage.shape))

    padding = tf.cast(~tf.sequence_mask(lengths, width), tf.float32)
    return step, (cache, tf.tile(padding[:, tf.newaxis], [1, hypotheses, 1]))


def check_heads(record: list[tf.Tensor], layer: int | None, heads: list[int] | None) -> None:
    """Raises ConfigError if no attention was recorded, or if a selected layer or head does not exist.

    Args:
      record: the attention weights of each layer, ``[batch, heads, time or beam, source]``.
      layer: index of the selected layer, which may be negative; None for all layers.
      heads: indices of the selected heads; None for all heads.
    """
    if not record:
        raise ConfigError(["The decoder has no attention to the source: leave out save_alignments and "
                           "replace_unknowns."])
    count = len(record)
    if layer is not None and not -count <= layer < count:
        raise ConfigError([f"'alignment_layer' is {layer}, but the decoder has {count} layers that attend to the "
                           f"source: choose an index from {-count} to {count - 1}."])
    num_heads = min(weights.shape[1] for weights in (record if layer is None else [record[layer]]))
    if heads is not None and not all(0 <= head < num_heads for head in heads):
        raise ConfigError([f"'alignment_heads' is {heads}, but there are {num_heads} heads: choose indices from 0 to "
                           f"{num_heads - 1}."])
