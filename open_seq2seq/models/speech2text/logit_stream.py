"""Logits of an utterance that comes in pieces, from an encoder that sees a bounded part of it at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders.speech_encoder import time_windows_of
from open_seq2seq.models.speech2text.speech2text import Speech2Text
from open_seq2seq.parts.conv_blocks.receptive_field import ReceptiveField
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.precision import weight_cast_scope
from open_seq2seq.utils.errors import ConfigError


class Heard(NamedTuple):
    """What further features changed.

    Attributes:
      revised: whether the complete logits since the last settled ones are to be replaced, because the features that
        they were computed from have changed.
      complete: ``[time, vocabulary]``: those that are new, or if ``revised`` all since the last settled ones; no frame
        that is still to come has a part in them.
      tentative: ``[time, vocabulary]`` those behind them, as if the utterance ended here.
      settled: ``[time, vocabulary]``: complete ones that will not be revised any more.
    """

    revised: bool
    complete: np.ndarray
    tentative: np.ndarray
    settled: np.ndarray


def streaming_field(model: object) -> ReceptiveField:
    """Returns the receptive field of a model's encoder.

    Raises:
      ConfigError: the model cannot be streamed.
    """
    if not isinstance(model, Speech2Text):
        raise ConfigError([f"{type(model).__name__} is no recogniser of speech, so that it cannot be streamed: use one "
                           "of the class Speech2Text."])
    encoder, decoder = type(model.encoder).__name__, type(model.decoder).__name__
    if not isinstance(model.decoder, FullyConnectedCTCDecoder):
        raise ConfigError([f"{decoder} attends to the whole utterance, so that the model cannot be streamed: train one "
                           "with FullyConnectedCTCDecoder."])
    field = time_windows_of(model.encoder).receptive_field()
    if field is None and not hasattr(model.encoder, "receptive_field"):
        raise ConfigError([f"{encoder} does not tell which frames an output is made of, so that the model cannot be "
                           "streamed: derive it from SpeechEncoder, and implement receptive_field()."])
    if field is None:
        raise ConfigError([f"{encoder} looks at the whole utterance as it is configured, so that the model cannot be "
                           "streamed: train one with TDNNEncoder (without instance_norm), or with DeepSpeech2Encoder "
                           "and rnn_unidirectional."])
    return field


class LogitStream:
    """Runs encoder and decoder over a stretch of the utterance whenever features were added.

    A stretch begins so far before the first output in question that all it depends on is there; outputs whose frames
    are not all there yet are tentative. Features that are normalised by the utterance change as it goes on: when they
    differ too much from those that the last logits were computed from, all that is held is computed anew.

    Args:
      model: a recogniser with CTC, built for inference, weights restored.
      held: frames that may be revised.
      tolerance: root of the mean squared difference, of features normalised to a deviation of 1, that is too much; at
        the end of the utterance any difference is.

    Raises:
      ConfigError: the model cannot be streamed.
    """

    def __init__(self, model: Speech2Text, held: int, tolerance: float) -> None:
        self.field = streaming_field(model)
        self._model, self._held, self._tolerance = model, held, tolerance
        settings = model.data_layer.settings
        self._pad_to, self._columns = max(1, settings.pad_to), settings.num_features
        self._before = held if math.isinf(self.field.before) else int(self.field.before)
        self._run = tf.function(self._logits, autograph=False, input_signature=[
            tf.TensorSpec([1, None, self._columns], tf.float32), tf.TensorSpec([1], tf.int32)])
        self.reset()

    def reset(self) -> None:
        """Begins a new utterance."""
        self._settled = 0  # outputs that are never revised
        self._complete = np.zeros([0, self._model.decoder.params["tgt_vocab_size"]], np.float32)  # those behind them
        self._used = np.zeros([0, self._columns], np.float32)  # features that the logits were computed from
        self._first = 0  # number of their first frame

    def warm_up(self) -> None:
        """Traces the graph, so that the first step need not wait for that."""
        frames = self._before + self.field.behind + self._pad_to
        self._compute(np.zeros([frames, self._columns], np.float32), 0, frames)

    @property
    def first_needed(self) -> int:
        """Number of the first frame that may be needed again."""
        return self._begin(self._settled)

    def _begin(self, output: int) -> int:
        """The frame at which a stretch begins whose first output in question is this one."""
        stride = self.field.stride
        return max(0, (output * stride - self._before) // stride * stride)

    def advance(self, features: np.ndarray, first: int, ended: bool) -> Heard:
        """Computes the logits that features allow.

        Args:
          features: ``[frames, num_features]``, all that are held.
          first: number of the first one: at most ``first_needed``.
          ended: whether the utterance ends with them.
        """
        end, known = first + len(features), self._settled + len(self._complete)
        self._used = self._used[first - self._first:]
        self._first = first
        revised = self._change(features) > (0.0 if ended else self._tolerance)
        begin = self._settled if revised else known
        start = self._begin(begin)
        logits = self._compute(features[start - first:], start, end)[begin - start // self.field.stride:]
        count = len(logits) if ended else min(len(logits), self._num_complete(end) - begin)
        fresh, tentative = logits[:max(0, count)], logits[max(0, count):]
        self._complete = np.concatenate([self._complete[:begin - self._settled], fresh])
        self._used = np.concatenate([self._used[:start - first], features[start - first:]])
        return Heard(revised, fresh, tentative, self._settle(0 if ended else end))

    def _change(self, features: np.ndarray) -> float:
        count = len(self._used)
        return float(np.sqrt(np.mean(np.square(features[:count] - self._used)))) if count else 0.0

    def _num_complete(self, end: int) -> int:
        """How many outputs, from the utterance's first, need no frame from ``end`` on."""
        return max(0, (end - self.field.behind - 1) // self.field.stride + 1)

    def _settle(self, end: int) -> np.ndarray:
        """Takes out complete logits that lie too far back to be revised."""
        count = min(len(self._complete), max(0, (end - self._held) // self.field.stride - self._settled))
        settled, self._complete = self._complete[:count], self._complete[count:]
        self._settled += count
        return settled

    def _compute(self, features: np.ndarray, start: int, end: int) -> np.ndarray:
        """Returns the logits ``[time, vocabulary]`` of a stretch of frames from ``start`` to ``end``."""
        if end - start < self.field.least:
            return np.zeros([0, self._complete.shape[1]], np.float32)
        # Padded as the whole utterance would be, where that matters (use_conv_mask: False).
        padded = np.pad(features, [(0, -end % self._pad_to), (0, 0)])
        logits, lengths = self._run(padded[np.newaxis], np.array([end - start], np.int32))
        return logits[0, :int(lengths[0])].numpy()

    def _logits(self, features: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with weight_cast_scope():
            encoded = self._model.encoder.encode({"source_tensors": [features, lengths]})
            decoded = self._model.decoder.decode({"encoder_output": encoded})
        return decoded["logits"], lengths_of(decoded, "the decoder")
