"""Streaming speech recognition: consumes audio in chunks of any size, and extends the transcript with each chunk."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from open_seq2seq.data.audio.audio_files import AudioError
from open_seq2seq.data.audio.features import AudioPieces, FeatureStream
from open_seq2seq.decoding.ctc.growing import GreedyTranscript, GrowingTranscript, SearchedTranscript
from open_seq2seq.models.model import Model
from open_seq2seq.models.speech2text import Speech2Text
from open_seq2seq.models.speech2text.logit_stream import LogitStream
from open_seq2seq.utils.errors import DataError, UserError

# Defaults of ``history_seconds`` and ``tolerance``; see ``FrameASR``.
HISTORY_SECONDS = 16.0
REVISION_TOLERANCE = 0.1


class Partial(NamedTuple):
    """The transcript of an unfinished utterance.

    Attributes:
      text: transcript of all audio so far, as if the utterance ended with it.
      stable: transcript of the audio whose whole look-ahead has been received. It is usually a prefix of ``text``.
        Words in it are revised only if the normalisation of the features changes or, with beam search, if another
        hypothesis becomes the best.
    """

    text: str
    stable: str


class FrameASR:
    """Transcribes an utterance while it is spoken, with the features, network and decoder of offline inference.

    Offline inference may normalise features over the whole utterance. This class normalises them over the audio so far
    or, if that is longer, over about its last ``history_seconds``. When new audio changes the normalised features by
    more than ``tolerance``, the logits of this history are recomputed. They are also recomputed at the end of the
    utterance, so ``finish`` returns the offline transcript of any utterance that is not longer than the history. Only
    the memory for the transcript grows with the length of the utterance.

    Args:
      model: a CTC model that was built for inference and whose weights have been restored, such as the attribute
        ``model`` of what ``open_seq2seq.load`` returns.
      rate: sampling rate of the audio in Hz; by default that of the features. Audio at another rate is resampled.
      history_seconds: duration over which features are normalised, and in which logits may be revised.
      tolerance: root mean square difference between the current features and those that the logits were computed from,
        above which the logits are recomputed. Features have a standard deviation of 1.

    Attributes:
      model: the model.
      rate: sampling rate of the audio in Hz.

    Raises:
      ConfigError: the model cannot be streamed.
      UserError: an argument is out of range.
    """

    def __init__(self, model: Model, rate: int | None = None, history_seconds: float = HISTORY_SECONDS,
                 tolerance: float = REVISION_TOLERANCE) -> None:
        if not 0.0 < history_seconds < math.inf or not tolerance >= 0.0:
            raise UserError("history_seconds must be greater than 0 and finite, and tolerance at least 0, got "
                            f"{history_seconds} and {tolerance}.")
        held = 0
        if isinstance(model, Speech2Text):
            held = max(1, round(history_seconds / model.data_layer.settings.frame_seconds))
        self._logits = LogitStream(model, held, tolerance)  # type: ignore[arg-type]
        self.model: Speech2Text = model  # type: ignore[assignment]
        self._settings = self.model.data_layer.settings
        self.rate = self._settings.sample_freq if rate is None else rate
        self._logits.warm_up()
        self.reset()

    @property
    def look_ahead_seconds(self) -> float:
        """Delay in seconds after a sound until its logits are complete; tentative logits are available immediately."""
        settings, field = self._settings, self._logits.field
        window = settings.window_samples - settings.samples_before
        return (field.behind * settings.hop + window) / settings.sample_freq

    def reset(self, rate: int | None = None) -> None:
        """Starts a new utterance, whether or not the last one is finished.

        Args:
          rate: sampling rate of the new utterance in Hz; by default that of the last one.

        Raises:
          DataError: the rate is out of range.
        """
        rate = self.rate if rate is None else rate
        try:
            self._pieces = AudioPieces(rate, self._settings.sample_freq)
        except AudioError as error:
            raise DataError(f"The audio {error.detail}.") from error
        self.rate = rate
        self._features = FeatureStream(self._settings)
        self._logits.reset()
        search = self.model.beam_search
        self._settled: GrowingTranscript = (  # from the logits that are never revised
            GreedyTranscript(self.model.data_layer.ids_to_text) if search is None else SearchedTranscript(search))
        # From these and those whose whole look-ahead has been received.
        self._complete: GrowingTranscript = self._settled.fork()
        self._partial = Partial("", "")
        self._finished = False

    def transcribe(self, audio: np.ndarray) -> Partial:
        """Adds a chunk of audio to the utterance, and returns the transcript so far.

        Args:
          audio: ``[samples]`` or ``[samples, channels]`` at ``rate``, as floats from -1 to 1 or as integers. A chunk
            may have any length, including 0.

        Raises:
          DataError: the samples are not finite numbers, their shape is invalid, or the utterance is finished.
        """
        if self._finished:
            raise DataError("The utterance is finished: call reset() to start the next one.")
        try:
            self._features.append(self._pieces.convert(audio))
        except AudioError as error:
            raise DataError(f"A chunk of audio cannot be used: it {error.detail}.") from error
        heard = self._features.end
        features = self._features.features()
        if self._features.end > heard:
            self._hear(features, False)
        return self._partial

    def finish(self) -> str:
        """Ends the utterance and returns its transcript; repeated calls return the same transcript."""
        if not self._finished:
            self._finished = True
            self._features.append(self._pieces.rest())
            self._features.finish()
            features = self._features.features()
            if len(features):
                self._hear(features, True)
        return self._partial.text

    def _hear(self, features: np.ndarray, ended: bool) -> None:
        """Extends the transcripts.

        Args:
          features: all features that ``FeatureStream`` still has, ``[frames, num_features]``.
          ended: whether the utterance has ended.
        """
        logits = self._logits.advance(features, self._features.first, ended)
        if logits.revised:
            self._complete = self._settled.fork()
        self._complete.advance(logits.complete)
        if len(logits.settled):
            self._settled.advance(logits.settled)
            self._settled.decide()
        whole = self._complete
        if len(logits.tentative):
            whole = self._complete.fork()
            whole.advance(logits.tentative)
        self._partial = Partial(whole.text(), self._complete.text())
        self._features.forget(self._logits.first_needed)
