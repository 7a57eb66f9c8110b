"""The sound of a text with what belongs to it, the joining of sentences, and the writer of sound files."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.decoders.endings import DURATIONS, ENDINGS
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.output_file import passes_through
from open_seq2seq.utils.sound_files import encoded

_PAUSE_SECONDS = 0.3  # between texts in one file
_TABLE = "speech.csv"
SPECTROGRAM = "given spectrogram"
"""What ends the sound of a spectrogram that is given; see ``Speech.ending``."""


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
        beginning. ``[frames, 0]`` without a text.
      ending: what ended the speech, one of ``decoders.endings.ENDINGS``, or ``SPECTROGRAM``.
      timings: when each symbol is spoken. Without predicted durations, a symbol lasts as many frames as attend to it
        more than to other symbols.
      speaker: name of the speaker, or of all speakers of joined sentences; "" for a model of one voice.
    """

    samples: np.ndarray
    rate: int
    spectrogram: np.ndarray
    alignment: np.ndarray
    ending: str
    timings: list[Timing]
    speaker: str = ""

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return len(self.samples) / self.rate

    @property
    def stopped(self) -> bool:
        """Whether the model ended the speech by itself."""
        return self.ending in (ENDINGS[0], DURATIONS, SPECTROGRAM)


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
        samples.append(np.pad(one.samples, (0, hops * hop)))
        # A spectrogram has one frame more than its sound has hops.
        frames = len(samples[-1]) // hop + (one is sentences[-1])
        silent = max(0, frames - len(one.spectrogram))
        spectrograms += [one.spectrogram[:frames], np.tile(silence[:one.spectrogram.shape[1]], [silent, 1])]
        alignments.append(np.pad(one.alignment, [(0, silent), (0, width - one.alignment.shape[1])])[:frames])
        timings += [Timing(symbol, start / one.rate + begin, start / one.rate + end)
                    for symbol, begin, end in one.timings]
        start += len(samples[-1])
    ending = max((one.ending for one in sentences), key=ENDINGS.index)
    return Speech(np.concatenate(samples), sentences[0].rate, np.concatenate(spectrograms), np.concatenate(alignments),
                  ending, [Timing(symbol, round(begin, 4), round(end, 4)) for symbol, begin, end in timings],
                  ", ".join(dict.fromkeys(one.speaker for one in sentences)))


class SpeechWriter(ResultWriter):
    """Writes synthesised speech.

    If the output is a file ``.wav``, or a stream such as stdout, it becomes one 16-bit sound file of all texts, with
    pauses between them. Otherwise it becomes a folder with, for each text, the sound ``0000.wav``, the spectrogram
    ``0000.npy`` ``[frames, features]`` and, unless the spectrogram was given, a picture of the alignment ``0000.png``
    and the symbols with their start and end in seconds ``0000.json``; and a table ``speech.csv``, which also says the
    speaker, if there are several.

    Args:
      output_file: path of the file or folder.
      rate: sampling rate in Hz.
      text_of: function from the number of an example to that of its text; examples of one text follow one another.
      join: function that turns the numbers of the examples of a text and their speech into the speech of the text.
      has_speakers: whether the table has a column for the speaker.
    """

    def __init__(self, output_file: str, rate: int, text_of: Callable[[int], int],
                 join: Callable[[list[int], list[Speech]], Speech], has_speakers: bool = False) -> None:
        super().__init__()
        self._has_speakers = has_speakers
        self._name, self._rate, self._text_of, self._join = output_file, rate, text_of, join
        self._is_file = passes_through(output_file) or Path(output_file).suffix.lower() in (".wav", ".wave")
        self._pieces: list[np.ndarray] = []
        self._sentences: list[tuple[int, Speech]] = []
        self._endings: Counter[str] = Counter()

    def begin(self) -> None:
        if self._is_file:
            self._file = self.outputs.open(self._name, "wb")
            return
        self._folder = self.outputs.folder(self._name)
        self._table = io.StringIO()
        self._rows = csv.writer(self._table, lineterminator="\n")
        self._rows.writerow(("wav_filename", "seconds", "stopped", "ending", *["speaker"] * self._has_speakers))

    def write(self, example: int, result: Any) -> None:
        if self._sentences and self._text_of(self._sentences[-1][0]) != self._text_of(example):
            self._write_text()
        self._sentences.append((example, result))

    def _write_text(self) -> None:
        examples, results = [example for example, _ in self._sentences], [speech for _, speech in self._sentences]
        self._sentences, result = [], self._join(examples, results)
        self._endings.update([result.ending])
        if self._is_file:
            pause = np.zeros(int(_PAUSE_SECONDS * self._rate) if self._pieces else 0, np.float32)
            self._pieces += [pause, result.samples]
            return
        stem, content = f"{self._text_of(examples[0]):04d}", io.BytesIO()
        np.save(content, result.spectrogram)
        files = {".wav": encoded(result.samples, self._rate), ".npy": content.getvalue()}
        if result.ending != SPECTROGRAM:
            timings = [{"symbol": one.symbol, "start": one.start, "end": one.end} for one in result.timings]
            files |= {".png": png(picture(result.alignment)), ".json": json.dumps(timings, ensure_ascii=False).encode()}
        for suffix, data in files.items():
            disk.write_new(self._folder / f"{stem}{suffix}", data)
        self._rows.writerow((f"{stem}.wav", f"{result.seconds:.3f}", "yes" if result.stopped else "no", result.ending,
                             *[result.speaker] * self._has_speakers))

    def finish(self) -> None:
        if self._sentences:
            self._write_text()
        if self._is_file:
            self._file.write(encoded(np.concatenate([np.zeros(0, np.float32), *self._pieces]), self._rate))
        else:
            disk.write_new(self._folder / _TABLE, self._table.getvalue())
        for ending in ENDINGS[1:]:
            if self._endings[ending] and ending != DURATIONS:
                deco_print(f"Texts at which the model did not stop, ended by {ending}: {self._endings[ending]:,}")


def free_name() -> Path:
    """Returns the first of ``speech-1.wav``, ``speech-2.wav``, … that does not exist in the current folder."""
    return next(path for number in itertools.count(1) if not (path := Path(f"speech-{number}.wav")).exists())


def picture(values: np.ndarray, height: int = 256) -> np.ndarray:
    """Returns an image uint8 ``[height, width, 1]`` of an array ``[time, channels]``: time to the right, channels up.

    Args:
      values: the array; its minimum becomes black, its maximum white.
      height: minimum height in pixels; values become squares of equal size.
    """
    values = np.asarray(values, np.float32)
    if not values.size:
        return np.zeros([height, height, 1], np.uint8)
    low, high = float(values.min()), float(values.max())
    pixels = ((values - low) / max(high - low, 1e-9) * 255).astype(np.uint8).T[::-1]
    size = max(1, height // len(pixels))
    return np.kron(pixels, np.ones([size, max(1, size // 2)], np.uint8))[..., np.newaxis]


def png(image: np.ndarray) -> bytes:
    """Returns the content of a PNG file of an image ``[height, width, 1]``."""
    import tensorflow as tf

    return tf.io.encode_png(image).numpy()
