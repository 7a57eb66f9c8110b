"""The sound of a text with what belongs to it, and the joining of sentences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.parts.tacotron.guards import DURATIONS, ENDINGS


class Timing(NamedTuple):
    """When a symbol is spoken, in seconds from the beginning."""

    symbol: str
    start: float
    end: float


class Speech(NamedTuple):
    """The sound of one text.

    Attributes:
      samples: float32 ``[samples]`` from -1 to 1.
      rate: sampling rate in Hz.
      spectrogram: the features of the data layer ``[frames, features]``; with output_type both, those of mel.
      alignment: attention weights ``[frames, text]``; of joined sentences, the symbols of each one are counted from its
        beginning.
      ending: what ended the speech, one of ``parts.tacotron.guards.ENDINGS``.
      timings: when each symbol is spoken. Without predicted durations, a symbol lasts as many frames as attend to it
        more than to other symbols.
    """

    samples: np.ndarray
    rate: int
    spectrogram: np.ndarray
    alignment: np.ndarray
    ending: str
    timings: list[Timing]

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return len(self.samples) / self.rate

    @property
    def stopped(self) -> bool:
        """Whether the model ended the speech by itself."""
        return self.ending in (ENDINGS[0], DURATIONS)


def timings_of(symbols: Sequence[str], durations: np.ndarray, frame_seconds: float, seconds: float) -> list[Timing]:
    """Returns when each symbol is spoken; symbols with an empty name are left out.

    Args:
      symbols: names of the symbols.
      durations: their numbers of frames ``[text]``.
      frame_seconds: seconds from one frame to the next.
      seconds: duration of the sound, which is a frame shorter than the spectrogram.
    """
    ends = np.minimum(np.cumsum(durations) * frame_seconds, seconds).round(4).tolist()
    return [Timing(symbol, start, end)
            for symbol, (start, end) in zip(symbols, itertools.pairwise([0.0, *ends]), strict=True) if symbol]


def joined(sentences: Sequence[Speech], pauses: Sequence[float], silence: np.ndarray, hop: int) -> Speech:
    """Returns the speech of the sentences of a text as one, with silence between them.

    Args:
      sentences: the speech of each sentence.
      pauses: seconds of silence after each sentence.
      silence: the features of a silent frame ``[features]``.
      hop: samples from one frame to the next.
    """
    if len(sentences) == 1 and not pauses[0]:
        return sentences[0]
    samples, spectrograms, alignments, timings = [], [], [], list[Timing]()
    width, start = max(one.alignment.shape[1] for one in sentences), 0
    for one, pause in zip(sentences, pauses, strict=True):
        hops = round(pause * one.rate / hop)
        # A spectrogram has one frame more than its sound has hops.
        frames = max(0, hops if one is sentences[-1] else hops - 1)
        samples.append(np.pad(one.samples, (0, hops * hop)))
        spectrograms += [one.spectrogram, np.tile(silence[:one.spectrogram.shape[1]], [frames, 1])]
        alignments.append(np.pad(one.alignment, [(0, frames), (0, width - one.alignment.shape[1])]))
        timings += [Timing(symbol, start / one.rate + begin, start / one.rate + end)
                    for symbol, begin, end in one.timings]
        start += len(samples[-1])
    ending = max((one.ending for one in sentences), key=ENDINGS.index)
    return Speech(np.concatenate(samples), sentences[0].rate, np.concatenate(spectrograms), np.concatenate(alignments),
                  ending, [Timing(symbol, round(begin, 4), round(end, 4)) for symbol, begin, end in timings])
