"""Writers of synthesised speech: one sound file for all texts, or a folder with files for each text."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.text2speech.speech import Speech
from open_seq2seq.parts.tacotron.guards import ENDINGS
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.output_file import passes_through
from open_seq2seq.utils.sound_files import encoded

_PAUSE_SECONDS = 0.3  # between texts in one file
_TABLE = "speech.csv"


class SpeechWriter(ResultWriter):
    """Writes synthesised speech.

    If the output is a file ``.wav``, or a stream such as stdout, it becomes one 16-bit sound file of all texts, with
    pauses between them. Otherwise it becomes a folder with, for each text, the sound ``0000.wav``, the spectrogram
    ``0000.npy`` ``[frames, features]``, a picture of the alignment ``0000.png``, and the symbols with their start and
    end in seconds ``0000.json``; and a table ``speech.csv``.

    Args:
      output_file: path of the file or folder.
      rate: sampling rate in Hz.
      text_of: function from the number of an example to that of its text; examples of one text follow one another.
      join: function that turns the numbers of the examples of a text and their speech into the speech of the text.
    """

    def __init__(self, output_file: str, rate: int, text_of: Callable[[int], int],
                 join: Callable[[list[int], list[Speech]], Speech]) -> None:
        super().__init__()
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
        self._rows.writerow(("wav_filename", "seconds", "stopped", "ending"))

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
        timings = [{"symbol": one.symbol, "start": one.start, "end": one.end} for one in result.timings]
        for suffix, data in ((".wav", encoded(result.samples, self._rate)), (".npy", content.getvalue()),
                             (".png", png(picture(result.alignment))),
                             (".json", json.dumps(timings, ensure_ascii=False).encode())):
            disk.write_new(self._folder / f"{stem}{suffix}", data)
        self._rows.writerow((f"{stem}.wav", f"{result.seconds:.3f}", "yes" if result.stopped else "no", result.ending))

    def finish(self) -> None:
        if self._sentences:
            self._write_text()
        if self._is_file:
            self._file.write(encoded(np.concatenate([np.zeros(0, np.float32), *self._pieces]), self._rate))
        else:
            disk.write_new(self._folder / _TABLE, self._table.getvalue())
        for ending in ENDINGS[1:]:
            if self._endings[ending]:
                deco_print(f"Texts at which the model did not stop, ended by {ending}: {self._endings[ending]:,}")


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
