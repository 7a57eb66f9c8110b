"""What an exported recogniser can do: transcribe waveforms, or return ids or logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.audio.audio_files import given_audio
from open_seq2seq.data.audio.feature_graph import AudioFeatures
from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.speech2text.alphabet import Alphabet, Pieces
from open_seq2seq.decoding.ctc.symbols import BYTE
from open_seq2seq.models.encoder_decoder import decoded_freely
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors, answers_of_texts
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.utils.errors import NoGraphForm

FRONT_END = "front_end"
"""Name scope of features, which stay in float32 where other parts of a model are quantized."""


def waveform_specs() -> dict[str, tf.TensorSpec]:
    """Returns the specs of the inputs ``waveforms`` and ``lengths``."""
    return {"waveforms": tf.TensorSpec([None, None], tf.float32), "lengths": tf.TensorSpec([None], tf.int32)}


def feed_of_waveforms(sample_freq: int) -> Callable[[Sequence[Any], np.ndarray], dict[str, np.ndarray]]:
    """Returns the ``feed`` of a function that reads ``waveforms`` and ``lengths``; see ``ServingFunction``."""
    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        audio = [given_audio(one, sample_freq) for one in inputs]
        lengths = np.array([len(one) for one in audio], np.int32)
        waveforms = np.zeros([len(audio), int(lengths.max(initial=0))], np.float32)
        for row, one in zip(waveforms, audio, strict=True):
            row[:len(one)] = one
        return {"waveforms": waveforms, "lengths": lengths}

    return feed


def recognizing(model: Any) -> list[ServingFunction]:
    """Returns the functions ``transcribe``, ``ids`` and, with CTC, ``logits``.

    The prefix beam search of CTC has no graph form: if the model uses it, only ``logits`` can be exported.

    Args:
      model: a ``Speech2Text`` built for ``interactive_infer``.
    """
    layer, features = model.data_layer, AudioFeatures(model.data_layer.settings)

    def decoded(inputs: Tensors) -> dict[str, Any]:
        with tf.name_scope(FRONT_END):
            x, frames = features(inputs["waveforms"], inputs["lengths"])
        return decoded_freely(model, {"source_tensors": [tf.cast(x, layer.float_type), frames]})

    def ids(inputs: Tensors) -> Tensors:
        best, lengths = decoded(inputs)["outputs"][:2]
        return {"ids": best, "id_lengths": lengths}

    def transcribe(inputs: Tensors) -> Tensors:
        return {"texts": texts_of(layer.alphabet, *ids(inputs).values())}

    def logits(inputs: Tensors) -> Tensors:
        return dict(zip(("logits", "logit_lengths"), _ctc_logits(decoded(inputs)), strict=True))

    def resources() -> Sequence[Any]:
        if model.beam_search is not None:
            raise NoGraphForm("prefix beam search is not computed by TensorFlow (give "
                              "--decoder_params/use_language_model=False for greedy decoding)")
        return ()

    def text_resources() -> Sequence[Any]:
        if any(BYTE.fullmatch(label) for label in layer.alphabet.labels):
            raise NoGraphForm("texts of a SentencePiece model with byte_fallback are not joined by TensorFlow")
        return resources()

    def function(name: str, call: Callable[[Tensors], Tensors], outputs: dict[str, str],
                 answers: Callable[[Mapping[str, np.ndarray]], list[Answer]], **others: Any) -> ServingFunction:
        return ServingFunction(name, call, waveform_specs(), outputs, name != "transcribe",
                               feed_of_waveforms(layer.settings.sample_freq), answers,
                               lambda result: Answer((result.text,)), **others)

    functions = [
        function("transcribe", transcribe, {"texts": "transcripts [batch]"}, answers_of_texts,
                 resources=text_resources),
        function("ids", ids, {"ids": "ids of the symbols [batch, symbols], int32",
                              "id_lengths": "number of symbols [batch], int32"},
                 lambda arrays: [Answer((layer.ids_to_text(row[:length]),)) for row, length
                                 in zip(arrays["ids"], arrays["id_lengths"], strict=True)], resources=resources)]
    if model.has_ctc_results:
        functions.append(function("logits", logits, {
            "logits": "scores of the symbols, the blank last [batch, steps, symbols], float32",
            "logit_lengths": "number of steps [batch], int32"},
            lambda arrays: [Answer((_text(model, row[:length]),), row[:length]) for row, length
                            in zip(arrays["logits"], arrays["logit_lengths"], strict=True)],
            numbers=_inferred_logits(model)))
    return functions


def _ctc_logits(decoded: dict[str, Any]) -> list[tf.Tensor]:
    """Returns the logits of CTC ``[batch, steps, symbols]``, and the number of steps ``[batch]``."""
    decoded = decoded.get("ctc_output", decoded)
    return [decoded["logits"], lengths_of(decoded, "the decoder")]


def _inferred_logits(model: Any) -> Callable[[Sequence[Any]], list[np.ndarray]]:
    """Returns a function from recordings to their logits, each ``[steps, symbols]``, computed as in inference."""
    layer = model.data_layer

    @tf.function(input_signature=[layer.input_signature])
    def logits(batch: dict[str, Any]) -> list[tf.Tensor]:
        with forward_pass():
            return _ctc_logits(decoded_freely(model, {**batch, "source_tensors": layer.features(batch)}))

    def inferred(recordings: Sequence[Any]) -> list[np.ndarray]:
        rows, lengths = logits(layer.make_interactive_batch(recordings))
        rows = tf.cast(rows, tf.float32).numpy()
        return [row[:length] for row, length in zip(rows, lengths.numpy(), strict=True)]

    return inferred


def texts_of(alphabet: Alphabet, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the texts ``[batch]`` of ids ``[batch, time]``, as ``Alphabet.decode`` does, in the graph.

    Args:
      alphabet: the alphabet.
      ids: ids; those without a label are skipped.
      lengths: number of ids before ``</S>`` ``[batch]``.
    """
    visible = tf.sequence_mask(lengths, tf.shape(ids)[1]) & (ids >= 0) & (ids < len(alphabet.labels))
    labels = tf.gather(tf.constant(alphabet.labels), tf.clip_by_value(ids, 0, len(alphabet.labels) - 1))
    texts = tf.strings.reduce_join(tf.where(visible, labels, ""), 1)
    if not isinstance(alphabet, Pieces):
        return texts
    # The first blank precedes the first word.
    return tf.strings.regex_replace(tf.strings.regex_replace(texts, BLANK, " "), "^ ", "")


def _text(model: Any, logits: np.ndarray) -> str:
    """Returns the text of logits ``[steps, symbols]``: that of the model's search, or of the likeliest symbols."""
    if model.beam_search is not None:
        return model.beam_search.decode(logits)[0].text
    path = logits.argmax(1)
    return model.data_layer.ids_to_text(path[np.diff(path, prepend=-1) != 0])
