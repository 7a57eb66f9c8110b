"""An autoregressive decoder whose scores are given: by the example, and by all that was written before."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.decoders import AutoregressiveDecoder
from tests.unit.decoding.test_beam_search import EOS, START, STATES


class ToyDecoder(AutoregressiveDecoder):
    """Its scores are those of ``RandomModel``, whose tables come as the encoder's ``outputs``."""

    start_id, end_id = START, EOS

    def prepare(self, encoder_output: Any) -> tf.Tensor:
        return encoder_output["outputs"]

    def initial_cache(self, encoder_output: Any, beam_size: int) -> dict[str, tf.Tensor]:
        return {"state": tf.zeros([tf.shape(encoder_output["outputs"])[0], beam_size], tf.int32)}

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: tf.Tensor) -> tuple[tf.Tensor, Any]:
        state = (cache["state"] * 31 + ids + 1) % STATES
        return tf.gather(prepared, state, batch_dims=1), {"state": state}

    def limits(self, encoder_output: Any) -> tf.Tensor:
        return encoder_output["outputs_length"]


def decode(tables: np.ndarray, limits: Any, ids: Any = None, decoder: type[ToyDecoder] = ToyDecoder,
           **params: Any) -> dict[str, Any]:
    """Decodes in a graph.

    Args:
      tables: ``[batch, STATES, vocabulary]``.
      limits: longest hypothesis of each example.
      ids: of the examples.
      decoder: the class.
      params: of the search.
    """
    toy = decoder({"tgt_vocab_size": tables.shape[-1], **params})
    encoded = {"outputs": tf.constant(tables, tf.float32), "outputs_length": tf.constant(limits, tf.int32)}
    inputs = {"encoder_output": encoded, "ids": None if ids is None else tf.constant(ids, tf.int64)}
    keys = ("beam_ids", "beam_scores", "beam_lengths", "outputs")
    run = tf.function(lambda: {key: toy.decode(inputs)[key] for key in keys}, autograph=False)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), run())


def hypothesis(result: dict[str, Any], row: int, rank: int = 0) -> tuple[int, ...]:
    """Returns the ids of one, its end included."""
    return tuple(result["beam_ids"][row, rank, :result["beam_lengths"][row, rank]].tolist())
