"""Streaming recognition: takes audio in pieces of any size, and extends the transcript with each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.overrides import Override, parse_overrides
from open_seq2seq.config.resolve import resolve
from open_seq2seq.data.audio.audio_files import AudioError
from open_seq2seq.data.audio.audio_pieces import AudioPieces
from open_seq2seq.data.audio.feature_stream import FeatureStream
from open_seq2seq.decoding.ctc.growing import GreedyTranscript, GrowingTranscript, SearchedTranscript
from open_seq2seq.models.builder import description_problems
from open_seq2seq.models.model import Model
from open_seq2seq.models.speech2text import Speech2Text
from open_seq2seq.models.speech2text.logit_stream import LogitStream
from open_seq2seq.training.inference.from_logdir import config_of_logdir
from open_seq2seq.training.run.session import load_model
from open_seq2seq.utils.errors import DataError, UserError

HISTORY_SECONDS = 16.0
REVISION_TOLERANCE = 0.1
_MODE = "interactive_infer"


class Partial(NamedTuple):
    """A transcript so far.

    Attributes:
      text: of everything heard, as if the utterance ended here.
      stable: of the part whose look-ahead has been heard in full. ``text`` usually begins with it, and it is revised
        only when the normalisation of the features changes.
    """

    text: str
    stable: str


class FrameASR:
    """Transcribes an utterance while it is spoken, with the features, network and decoder of offline inference.

    Features that are normalised over the utterance are normalised over what was heard so far, at most about the last
    ``history_seconds``. When that changes them by more than ``tolerance``, the logits of that stretch are computed
    again, and once more at the end. So ``finish`` gives the offline transcript of any utterance that is not longer.
    Only the transcript grows with the length of the utterance.

    Args:
      model: a recogniser with CTC, built for inference, weights restored.
      rate: sampling rate of the audio in Hz; by default that of the features. Other audio is resampled.
      history_seconds: how much may be revised, and over how much features are normalised.
      tolerance: root mean square of the difference between features and those that the logits were computed from,
        above which the logits are computed again; features have a deviation of 1.

    Attributes:
      model: the recogniser.
      rate: sampling rate of the audio in Hz.

    Raises:
      ConfigError: the model cannot be streamed.
      UserError: an argument is out of range.
    """

    def __init__(self, model: Model, rate: int | None = None, history_seconds: float = HISTORY_SECONDS,
                 tolerance: float = REVISION_TOLERANCE) -> None:
        if history_seconds <= 0 or tolerance < 0:
            raise UserError(f"history_seconds is {history_seconds} and tolerance {tolerance}, but the first has to be "
                            "above 0 and the second at least 0.")
        held = 0
        if isinstance(model, Speech2Text):
            held = max(1, round(history_seconds / model.data_layer.settings.frame_seconds))
        self._logits = LogitStream(model, held, tolerance)  # type: ignore[arg-type]
        self.model: Speech2Text = model  # type: ignore[assignment]
        self._settings = self.model.data_layer.settings
        self.rate = self._settings.sample_freq if rate is None else rate
        self._logits.warm_up()
        self.reset()

    @classmethod
    def from_logdir(cls, logdir: str, overrides: Sequence[str] = (), rate: int | None = None,
                    history_seconds: float = HISTORY_SECONDS, tolerance: float = REVISION_TOLERANCE,
                    trust_code: bool = False) -> FrameASR:
        """Loads the model of a logdir, whose checkpoint has all that is needed.

        Args:
          logdir: of a finished or running training, or a checkpoint in it.
          overrides: config values as on the command line: ``--decoder_params/use_language_model=True``.
          rate: see the class.
          history_seconds: likewise.
          tolerance: likewise.
          trust_code: whether the checkpoint's config may name code from outside the package, which then runs.

        Raises:
          UserError: there is no checkpoint, or a mistake in the overrides.
          ConfigError: the model cannot be streamed.
        """
        given = parse_overrides([*overrides, f"--logdir={logdir}"])
        return cls(_load(given, trust_code), rate, history_seconds, tolerance)

    @property
    def look_ahead_seconds(self) -> float:
        """How long after a sound its logits are complete; tentative ones are there at once."""
        settings, field = self._settings, self._logits.field
        window = settings.window_samples - settings.samples_before
        return (field.behind * settings.hop + window) / settings.sample_freq

    def reset(self, rate: int | None = None) -> None:
        """Begins a new utterance, whether the last one is finished or not.

        Args:
          rate: sampling rate of its audio in Hz; by default as before.

        Raises:
          DataError: the rate is out of range.
        """
        self._pieces = self._audio_pieces(rate or self.rate)
        self.rate = rate or self.rate
        self._features = FeatureStream(self._settings)
        self._logits.reset()
        self._settled = self._new_transcript()  # what is never revised
        self._complete = self._settled.fork()
        self._partial = Partial("", "")
        self._finished = False

    def transcribe(self, audio: np.ndarray) -> Partial:
        """Takes in a further piece of the utterance.

        Args:
          audio: ``[samples]`` or ``[samples, channels]`` at ``rate``: floats from -1 to 1, or integers. It may be of
            any length, or empty.

        Raises:
          DataError: the samples are not numbers or have another shape, or the utterance is finished.
        """
        if self._finished:
            raise DataError("The utterance is finished: begin the next one by reset().")
        try:
            self._features.append(self._pieces.convert(audio))
        except AudioError as error:
            detail = error.detail[:1].upper() + error.detail[1:]
            raise DataError(f"A piece of audio cannot be used: it {error.detail}." if error.kind == "not finite"
                            else f"{detail}.") from error
        heard = self._features.end
        features = self._features.features()
        if self._features.end > heard:
            self._hear(features, False)
        return self._partial

    def finish(self) -> str:
        """Ends the utterance, and returns its transcript; further calls return the same."""
        if not self._finished:
            self._finished = True
            self._features.append(self._pieces.rest())
            self._features.finish()
            features = self._features.features()
            if len(features):
                self._hear(features, True)
        return self._partial.text

    def _hear(self, features: np.ndarray, ended: bool) -> None:
        found = self._logits.advance(features, self._features.first, ended)
        if found.revised:
            self._complete = self._settled.fork()
        self._complete.advance(found.complete)
        if len(found.settled):
            self._settled.advance(found.settled)
            self._settled.decide()
        whole = self._complete
        if len(found.tentative):
            whole = self._complete.fork()
            whole.advance(found.tentative)
        self._partial = Partial(whole.text(), self._complete.text())
        self._features.forget(self._logits.first_needed)

    def _audio_pieces(self, rate: int) -> AudioPieces:
        try:
            return AudioPieces(rate, self._settings.sample_freq)
        except AudioError as error:
            raise DataError(f"{error.detail}.") from error

    def _new_transcript(self) -> GrowingTranscript:
        search = self.model.beam_search
        return GreedyTranscript(self.model.data_layer.ids_to_text) if search is None else SearchedTranscript(search)


def _load(overrides: list[Override], trust_code: bool) -> Model:
    file, kept = config_of_logdir(_MODE, overrides, trust_code)
    config = resolve(file, _MODE, [*kept, *overrides], extra_check=description_problems)
    return load_model(RunOptions(_MODE, config))
