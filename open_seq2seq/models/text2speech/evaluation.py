"""Evaluates synthesised speech: the attention, the stops, the sound, and what a recogniser understands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.text2speech.front_end import spelled_out
from open_seq2seq.decoders.endings import ENDINGS
from open_seq2seq.metrics.speech import (
    PocketSphinx,
    SoundDistance,
    analysed,
    distance_signature,
    plain_words,
    sound_distance,
)
from open_seq2seq.metrics.wer import ErrorCounts, count_errors, rate_interval
from open_seq2seq.models.reporter import SignedScores
from open_seq2seq.utils.console import deco_print

_MOST_RATIO = 1.5  # speech that is longer or shorter than the recording by this factor has stopped too late or early
_KINDS = ("speech", "copy", "recording")


class Heard(NamedTuple):
    """What the recogniser understood of one sound, and its errors."""

    text: str
    words: ErrorCounts
    characters: ErrorCounts


class SoundMeasures(NamedTuple):
    """Measures of the sound of one text, by kind: ``speech``, ``copy``, and ``recording``.

    A copy is the recording as it sounds after Griffin and Lim's method or a vocoder: what perfect spectrograms would
    give.

    Attributes:
      distances: distances of the speech and of the copy from the recording; empty without ``sound_measures``.
      heard: what is understood of each; empty without a recogniser.
    """

    distances: dict[str, SoundDistance]
    heard: dict[str, Heard]


class Measures(NamedTuple):
    """Measures of the speech of one text, and of the attention given the recording's frames.

    Attributes:
      example: index of the example.
      forced: diagonality of the attention to spoken symbols with teacher forcing; see ``metrics.speech``.
      free: diagonality of the attention of free-running speech.
      monotonicity: of free-running speech.
      coverage: of free-running speech.
      duration_ratio: number of frames, divided by that of the recording.
      ending: what ended the speech, one of ``decoders.endings.ENDINGS``.
      sound: measures of the sound, if it is evaluated.
      speaker: name of the speaker; "" for a model of one voice.
    """

    example: int
    forced: float
    free: float
    monotonicity: float
    coverage: float
    duration_ratio: float
    ending: str
    sound: SoundMeasures | None
    speaker: str = ""


def judge_params() -> dict[str, Any]:
    """Returns the parameters of models whose sound is judged."""
    return {
        "sound_measures": Param(bool, False, "Whether evaluation compares the sound with the recordings: mel "
                                "cepstral distortion, pitch and voicing. This takes seconds per clip.",
                                on_change=FREE),
        "recognizer": Param([None, "pocketsphinx"], None, "Recogniser whose character and word errors evaluation "
                            "prints, beside those on the recordings; pocketsphinx understands English and is in "
                            "the extra align.", on_change=FREE),
    }


class SoundJudge:
    """Measures the sound of synthesised speech against recordings.

    Args:
      rate: sampling rate in Hz.
      distances: whether to compute ``metrics.speech.sound_distance``.
      recognizer: ``pocketsphinx``, or None.

    Attributes:
      copies: what makes the copies, for messages.

    Raises:
      UserError: the recogniser is not installed.
    """

    def __init__(self, rate: int, distances: bool, recognizer: str | None) -> None:
        self._rate, self._distances = rate, distances
        self.copies = "Griffin-Lim"
        self._recognizer = PocketSphinx() if recognizer else None

    def measures(self, speech: np.ndarray, copy: np.ndarray, recording: np.ndarray, text: str) -> SoundMeasures:
        """Returns the measures of sounds ``[samples]`` of a text."""
        sounds, distances, heard = dict(zip(_KINDS, (speech, copy, recording), strict=True)), {}, {}
        if self._distances:
            reference = analysed(recording, self._rate)
            distances = {kind: sound_distance(analysed(sounds[kind], self._rate), reference) for kind in _KINDS[:2]}
        if self._recognizer is not None:
            heard = {kind: self.heard(sound, text) for kind, sound in sounds.items()}
        return SoundMeasures(distances, heard)

    def heard(self, sound: np.ndarray, text: str) -> Heard:
        """Returns what the recogniser understands of a sound ``[samples]`` of a text."""
        assert self._recognizer is not None
        heard, said = plain_words(self._recognizer.transcript(sound, self._rate)), plain_words(spelled_out(text))
        return Heard(heard, count_errors(said.split(), heard.split()), count_errors(said, heard))

    def summary(self, rows: Sequence[SoundMeasures], scores: SignedScores, of: str) -> dict[str, float]:
        """Prints the means over the texts, and returns them as metrics by name.

        Args:
          rows: the measures of each text.
          scores: keeps the scores with their signatures.
          of: what the lines begin with.
        """
        metrics: dict[str, float] = {}
        for name, value_of, unit in _DISTANCES if self._distances else ():
            speech, copy = (_mean([value_of(row.distances[kind]) for row in rows]) for kind in _KINDS[:2])
            metrics |= {f"Eval {name}": speech, f"Eval {name} of copies": copy}
            signed = scores.signed(name, speech, distance_signature(self._rate))
            deco_print(f"{of}{name}: {_shown(speech, unit)}; {self.copies} copies: {_shown(copy, unit)}{signed}",
                       offset=1)
        return metrics | (self._understanding(rows, scores, of) if self._recognizer else {})

    def figures(self, rows: Sequence[SoundMeasures]) -> dict[str, float]:
        """Returns the means of the measures of the speech by name, without printing them."""
        figures: dict[str, float] = {}
        if self._distances:
            distances = [row.distances["speech"] for row in rows]
            figures = {name: _mean([value_of(one) for one in distances]) for name, value_of, _ in _DISTANCES}
            figures["pitch ratio"] = _mean([one.pitch_ratio for one in distances])
        if self._recognizer:
            for name, counts_of in _ERRORS:
                figures[name] = _rate([counts_of(row.heard["speech"]) for row in rows])
        return figures

    def _understanding(self, rows: Sequence[SoundMeasures], scores: SignedScores, of: str) -> dict[str, float]:
        assert self._recognizer is not None
        metrics: dict[str, float] = {}
        for name, counts_of in _ERRORS:
            shown = []
            for kind in _KINDS:
                counts = [counts_of(row.heard[kind]) for row in rows]
                rate = _rate(counts)
                low, high = rate_interval(counts)
                suffix = "" if kind == "speech" else " of copies" if kind == "copy" else " of recordings"
                metrics[f"Eval {name}{suffix}"] = rate
                shown.append(f"{suffix.removeprefix(' of ')} {rate:.2%} ({low:.2%} to {high:.2%})".strip())
            signed = scores.signed(name, metrics[f"Eval {name}"], self._recognizer.signature)
            deco_print(f"{of}{name} heard: {'; '.join(shown)}{signed}", offset=1)
        return metrics


_DISTANCES: tuple[tuple[str, Callable[[SoundDistance], float], str], ...] = (
    ("mel cepstral distortion", lambda distance: distance.distortion, " dB"),
    ("F0 error", lambda distance: distance.hertz, " Hz"),
    ("F0 error in cents", lambda distance: distance.cents, ""),
    ("voicing error", lambda distance: distance.voicing, ""))
_ERRORS: tuple[tuple[str, Callable[[Heard], ErrorCounts]], ...] = (
    ("character error", lambda heard: heard.characters), ("word error", lambda heard: heard.words))


def summary(rows: Sequence[Measures], of: str) -> dict[str, float]:
    """Prints the means of the measures that need no sound, and returns them as metrics by name.

    Args:
      rows: the measures of each text.
      of: what the lines begin with.
    """
    metrics = _shares(rows)
    for name, value in metrics.items():
        deco_print(f"{of}{name}: {value:.4f}", offset=1)
    return {f"Eval {name}": value for name, value in metrics.items()}


def speaker_summary(rows: Sequence[Measures], judge: SoundJudge | None, of: str) -> dict[str, float]:
    """Prints a line with the means of the measures of each speaker, and returns them as metrics by name.

    Args:
      rows: the measures of each text.
      judge: what measured the sound, if it is evaluated.
      of: what the lines begin with.
    """
    metrics: dict[str, float] = {}
    for speaker in dict.fromkeys(row.speaker for row in rows):
        own = [row for row in rows if row.speaker == speaker]
        figures = _shares(own) | (judge.figures([row.sound for row in own if row.sound]) if judge else {})
        values = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        deco_print(f"{of}speaker {speaker} ({len(own)} texts): {values}", offset=1)
        metrics |= {f"Eval {name} {speaker}": value for name, value in figures.items()}
    return metrics


def _shares(rows: Sequence[Measures]) -> dict[str, float]:
    """Returns the means of the measures that need no sound by name."""
    shares: dict[str, Any] = {
        "diagonality": [row.free for row in rows],
        "diagonality with teacher forcing": [row.forced for row in rows],
        "monotonicity": [row.monotonicity for row in rows],
        "coverage": [row.coverage for row in rows],
        "duration ratio": [row.duration_ratio for row in rows],
        **stop_failures([row.duration_ratio for row in rows], [row.ending for row in rows]),
    }
    return {name: float(np.mean(values)) for name, values in shares.items()}


def stop_failures(ratios: Sequence[float], endings: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns for each kind of failure to stop which texts have it, boolean ``[texts]``.

    Args:
      ratios: lengths of the speech, divided by those that the texts should have.
      endings: what ended the speech, of ``decoders.endings.ENDINGS``.
    """
    lengths, ended = np.asarray(ratios, float), np.asarray(endings, str)
    return {"stopped too early": lengths < 1 / _MOST_RATIO, "stopped too late": lengths > _MOST_RATIO,
            "not stopped": ended == ENDINGS[1], "ended by guards": np.isin(ended, ENDINGS[2:4])}


def _rate(counts: Sequence[ErrorCounts]) -> float:
    return sum(one.errors for one in counts) / max(1, sum(one.reference for one in counts))


def _shown(value: float, unit: str) -> str:
    return f"{value:.3f}{unit}" if np.isfinite(value) else "no voiced frames"


def _mean(values: Sequence[float]) -> float:
    """Returns the mean of the values that are numbers; NaN if there are none."""
    numbers = np.asarray(values)[np.isfinite(values)]
    return float(numbers.mean()) if len(numbers) else float("nan")
