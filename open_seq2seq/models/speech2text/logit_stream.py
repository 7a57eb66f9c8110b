"""Computes logits of an utterance chunk by chunk, with an encoder that needs only a limited number of later frames."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders.speech_encoder import time_windows_of
from open_seq2seq.models.speech2text.speech2text import Speech2Text
from open_seq2seq.parts.conv_blocks.convolution import ReceptiveField
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.graphs import release_graphs


class Heard(NamedTuple):
    """The logits after more features have been received.

    Logits are tentative if they depend on frames that have not been received, and complete otherwise. Complete logits
    may be revised if the normalisation of their features changes; once they can no longer be revised, they are settled.

    Attributes:
      revised: whether the logits that had not been settled were computed again, because their features have changed.
      complete: ``[time, vocabulary]``: the new complete logits. If ``revised``, they replace all earlier logits that
        had not been settled.
      tentative: ``[time, vocabulary]``: the logits after the complete ones, computed as if the utterance ended with the
        features received so far.
      settled: ``[time, vocabulary]``: the complete logits that are settled from now on; empty at the end of the
        utterance.
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
        raise ConfigError([f"{type(model).__name__} does not recognise speech, so it cannot be streamed: use a model "
                           "of the class Speech2Text."])
    encoder, decoder = type(model.encoder).__name__, type(model.decoder).__name__
    if not isinstance(model.decoder, FullyConnectedCTCDecoder):
        raise ConfigError([f"{decoder} attends to the whole utterance, so the model cannot be streamed: train a "
                           "model with FullyConnectedCTCDecoder."])
    field = time_windows_of(model.encoder).receptive_field()
    if field is None and not hasattr(model.encoder, "receptive_field"):
        raise ConfigError([f"{encoder} does not declare its receptive field, so the model cannot be streamed: derive "
                           "the class from SpeechEncoder, and implement receptive_field()."])
    if field is None:
        raise ConfigError([f"{encoder}, as configured, needs the whole utterance, so the model cannot be streamed: "
                           "train a model with TDNNEncoder (without instance_norm), or with DeepSpeech2Encoder and "
                           "rnn_unidirectional."])
    return field


class LogitStream:
    """Runs encoder and decoder on a part of the utterance whenever features are added.

    The part begins with the first frame on which the first new logit depends or, with a recurrent encoder,
    ``revisable`` frames before that logit. Features that are normalised over the utterance change when more audio is
    received. If they differ by more than ``tolerance`` from the features that the logits were computed from, all logits
    that are not settled are computed again. See ``Heard`` for the terms.

    Args:
      model: a CTC model that was built for inference and whose weights have been restored.
      revisable: number of most recent frames whose logits may still be revised.
      tolerance: root mean square difference between the current features and those that the logits were computed from,
        up to which the logits are kept. At the end of the utterance, 0 is used instead. Features have a standard
        deviation of 1.

    Raises:
      ConfigError: the model cannot be streamed.
    """

    def __init__(self, model: Speech2Text, revisable: int, tolerance: float) -> None:
        self.field = streaming_field(model)
        self._model, self._revisable, self._tolerance = model, revisable, tolerance
        settings = model.data_layer.settings
        self._pad_to, self._columns = max(1, settings.pad_to), settings.num_features
        # Outputs of a recurrent encoder depend on all earlier frames; it starts ``revisable`` frames before a new one.
        self._before = revisable if math.isinf(self.field.before) else int(self.field.before)
        self._run = tf.function(self._logits, autograph=False, input_signature=[
            tf.TensorSpec([1, None, self._columns], tf.float32), tf.TensorSpec([1], tf.int32)])
        self.reset()

    def __del__(self) -> None:
        if hasattr(self, "_run"):
            release_graphs(self._run)

    def reset(self) -> None:
        """Starts a new utterance."""
        self._settled = 0  # number of settled outputs
        # Complete outputs after the settled ones.
        self._complete = np.zeros([0, self._model.decoder.params["tgt_vocab_size"]], np.float32)
        self._used = np.zeros([0, self._columns], np.float32)  # features from which the logits were computed
        self._first = 0  # index of the first frame of ``_used``

    def warm_up(self) -> None:
        """Traces the graph, so that the first call of ``advance`` is not slower than the others."""
        frames = self._before + self.field.behind + self._pad_to
        self._compute(np.zeros([frames, self._columns], np.float32), 0, frames)

    @property
    def first_needed(self) -> int:
        """Index of the first frame whose features later calls of ``advance`` may need."""
        return self._begin(self._settled)

    def _begin(self, output: int) -> int:
        """Returns the index of the frame, a multiple of the stride, with which the part for this output begins."""
        stride = self.field.stride
        return max(0, (output * stride - self._before) // stride * stride)

    def advance(self, features: np.ndarray, first: int, ended: bool) -> Heard:
        """Computes the logits after features were added.

        Args:
          features: ``[frames, num_features]``: the features of frame ``first`` and all later frames.
          first: index of the first frame of ``features``, at most ``first_needed``.
          ended: whether the utterance ends with these features.
        """
        end, num_computed = first + len(features), self._settled + len(self._complete)
        self._used = self._used[first - self._first:]
        self._first = first
        revised = self._change(features) > (0.0 if ended else self._tolerance)
        begin = self._settled if revised else num_computed
        start = self._begin(begin)
        logits = self._compute(features[start - first:], start, end)[begin - start // self.field.stride:]
        count = len(logits) if ended else min(len(logits), self._num_complete(end) - begin)
        fresh, tentative = logits[:max(0, count)], logits[max(0, count):]
        self._complete = np.concatenate([self._complete[:begin - self._settled], fresh])
        self._used = np.concatenate([self._used[:start - first], features[start - first:]])
        return Heard(revised, fresh, tentative, self._settle(0 if ended else end))

    def _change(self, features: np.ndarray) -> float:
        """Returns the root mean square difference between ``features`` and those that the logits were computed from."""
        count = len(self._used)
        return float(np.sqrt(np.mean(np.square(features[:count] - self._used)))) if count else 0.0

    def _num_complete(self, end: int) -> int:
        """Returns the number of outputs, from the utterance's start, that do not depend on frames from ``end`` on."""
        return max(0, (end - self.field.behind - 1) // self.field.stride + 1)

    def _settle(self, end: int) -> np.ndarray:
        """Removes and returns the complete logits of frames more than ``revisable`` frames before frame ``end``."""
        count = min(len(self._complete), max(0, (end - self._revisable) // self.field.stride - self._settled))
        settled, self._complete = self._complete[:count], self._complete[count:]
        self._settled += count
        return settled

    def _compute(self, features: np.ndarray, start: int, end: int) -> np.ndarray:
        """Returns the logits ``[time, vocabulary]`` for features ``[frames, num_features]``.

        Args:
          features: features of the frames from ``start`` to ``end`` - 1.
          start: index of the first frame.
          end: index of the frame after the last one.
        """
        if end - start < self.field.least:
            return np.zeros([0, self._complete.shape[1]], np.float32)
        # Padded as a whole utterance would be, because padding changes the results if use_conv_mask is False.
        padded = np.pad(features, [(0, -end % self._pad_to), (0, 0)])
        logits, lengths = self._run(padded[np.newaxis], np.array([end - start], np.int32))
        return logits[0, :int(lengths[0])].numpy()

    def _logits(self, features: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with forward_pass():
            encoded = self._model.encoder.encode({"source_tensors": [features, lengths]})
            decoded = self._model.decoder.decode({"encoder_output": encoded})
        return decoded["logits"], lengths_of(decoded, "the decoder")
