"""The time to generate text with the causal Transformer, with its cache and without."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measuring.side_by_side import take_turns

_SMALLEST_HEAD = 64


def generation_times(options: argparse.Namespace) -> tuple[dict[str, list[float]], bool]:
    """Returns the milliseconds of all rounds, without and with the cache, and whether the texts are equal.

    Without the cache, each token costs a pass over the whole text so far, of which only the last position is projected
    to the vocabulary.

    Args:
      options: the options of ``benchmarks/language_model.py``.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    encoder = _encoder(options)
    text = tf.random.stateless_uniform([1, options.context], [1, 2], 0, options.ids, tf.int32)
    texts: dict[str, Any] = {}

    def timed(name: str, generate: Callable[[Any], Any]) -> Callable[[], float]:
        def one_pass() -> float:
            start = time.perf_counter()
            texts[name] = generate(text).numpy().tolist()
            return time.perf_counter() - start

        return one_pass

    found = take_turns({name: timed(name, generate) for name, generate in (
        ("uncached", _without_cache(encoder, options.new_tokens)), ("cached", _with_cache(encoder)))}, options.rounds)
    return found, texts["cached"] == texts["uncached"]


def _encoder(options: argparse.Namespace) -> Any:
    from open_seq2seq.encoders import TransformerLMEncoder
    from open_seq2seq.parts.component import creating_variables

    size = options.transformer_hidden
    with creating_variables(1):
        return TransformerLMEncoder({
            "encoder_layers": options.transformer_layers, "hidden_size": size,
            "num_heads": max(1, size // _SMALLEST_HEAD), "filter_size": 4 * size, "weight_tied": True,
            "vocab_size": options.ids, "num_tokens_gen": options.new_tokens}, mode="infer")


def _with_cache(encoder: Any) -> Callable[[Any], Any]:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def generate(text: Any) -> Any:
        batch, length = tf.unstack(tf.shape(text))
        return encoder.generate(text, tf.fill([batch], length), tf.range(batch))

    return generate


def _without_cache(encoder: Any, count: int) -> Callable[[Any], Any]:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def longer(text: Any) -> Any:
        batch, length = tf.unstack(tf.shape(text))
        outputs = encoder.encode({"source_tensors": [text, tf.fill([batch], length)]})["outputs"]
        newest = tf.argmax(encoder.output_layer.logits(outputs[:, -1]), -1, tf.int32)
        return tf.concat([text, newest[:, tf.newaxis]], 1)

    def generate(text: Any) -> Any:
        for _ in range(count):
            text = longer(text)
        return text[:, -count:]

    return generate
