"""What an exported model of speech synthesis can do: turn symbols into sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.text2speech.text2speech import END, PAD, START
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors
from open_seq2seq.utils.errors import NoGraphForm, UserError


def speaking(model: Any) -> list[ServingFunction]:
    """Returns the function ``synthesize``, from texts, which has no graph form, and ``sound``, from ids of symbols.

    Args:
      model: a ``Text2Speech`` built for ``interactive_infer``.

    Raises:
      UserError: the model reads style recordings.
    """
    layer, has_speeds = model.data_layer, hasattr(model.decoder, "at_speed")
    if layer.params["style_input"] is not None:
        raise UserError("'data_layer_params/style_input' is set, but an export reads no style recordings: this model "
                        "cannot be exported.")

    def sound(inputs: Tensors) -> Tensors:
        symbols, lengths = inputs["symbols"], inputs["symbol_lengths"]
        is_spoken = tf.reduce_any((symbols > END) & tf.sequence_mask(lengths, tf.shape(symbols)[1]), 1)
        audio, samples = model.predict({"source_tensors": [symbols, tf.maximum(lengths, 1)],  # networks need a symbol
                                        "speeds": inputs.get("speeds")})[-2:]
        return {"sound": audio, "sound_lengths": tf.where(is_spoken, samples, 0)}

    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        batch = layer.make_interactive_batch(inputs)
        symbols, lengths = batch["source_tensors"]
        return {"symbols": symbols, "symbol_lengths": lengths, **({"speeds": batch["speeds"]} if has_speeds else {})}

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [_answer(row[:length]) for row, length in zip(outputs["sound"], outputs["sound_lengths"], strict=True)]

    def nothing(inputs: Tensors) -> Tensors:
        raise NotImplementedError("The function synthesize has no graph form.")

    def refused() -> Sequence[Any]:
        raise NoGraphForm(_front_end(layer))

    rate = layer.settings.sample_freq
    inputs = {"symbols": tf.TensorSpec([None, None], tf.int32), "symbol_lengths": tf.TensorSpec([None], tf.int32)}
    speeds = {"speeds": tf.TensorSpec([None], tf.float32)} if has_speeds else {}
    outputs = {"sound": f"sound of {rate} Hz, from -1 to 1 [batch, samples], float32",
               "sound_lengths": "number of samples [batch], int32"}
    return [
        ServingFunction("synthesize", nothing, {"texts": tf.TensorSpec([None], tf.string)}, outputs, False, feed,
                        answers, _expected, refused),
        ServingFunction("sound", sound, {**inputs, **speeds}, outputs, True, feed, answers, _expected,
                        lambda: model.decoder.state_of_speech)]


def _front_end(layer: Any) -> str:
    """Returns why texts are not read, and what is read instead."""
    special = (f"between {START} and {END}, with zeros up to a multiple of {layer.params['pad_to']}"
               if layer.params["pad_EOS"] else f"or only {PAD} for a text without symbols")
    return ("sentences, numbers and pronunciations are read by Python; the input symbols of sound has the line of each "
            f"symbol in the file of the vocabulary, counted from {END + 1}, {special}")


def _answer(samples: np.ndarray) -> Answer:
    return Answer((f"{len(samples)} samples",), samples)


def _expected(result: Any) -> Answer:
    return _answer(result.samples)
