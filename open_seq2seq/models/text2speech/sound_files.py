"""Writers of synthesised speech: one sound file for all texts, or a folder with files for each text."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.models.results import ResultWriter
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
    ``0000.npy`` ``[frames, features]`` and a picture of the alignment ``0000.png``, and a table ``speech.csv``.

    Args:
      output_file: path of the file or folder.
      rate: sampling rate in Hz.
    """

    def __init__(self, output_file: str, rate: int) -> None:
        super().__init__()
        self._name, self._rate = output_file, rate
        self._is_file = passes_through(output_file) or Path(output_file).suffix.lower() in (".wav", ".wave")
        self._pieces: list[np.ndarray] = []
        self._not_stopped = 0

    def begin(self) -> None:
        if self._is_file:
            self._file = self.outputs.open(self._name, "wb")
            return
        self._folder = self.outputs.folder(self._name)
        self._table = io.StringIO()
        self._rows = csv.writer(self._table, lineterminator="\n")
        self._rows.writerow(("wav_filename", "seconds", "stopped"))

    def write(self, example: int, result: Any) -> None:
        self._not_stopped += not result.stopped
        if self._is_file:
            pause = np.zeros(int(_PAUSE_SECONDS * self._rate) if self._pieces else 0, np.float32)
            self._pieces += [pause, result.samples]
            return
        stem, content = f"{example:04d}", io.BytesIO()
        np.save(content, result.spectrogram)
        disk.write_new(self._folder / f"{stem}.wav", encoded(result.samples, self._rate))
        disk.write_new(self._folder / f"{stem}.npy", content.getvalue())
        disk.write_new(self._folder / f"{stem}.png", png(picture(result.alignment)))
        self._rows.writerow((f"{stem}.wav", f"{result.seconds:.3f}", "yes" if result.stopped else "no"))

    def finish(self) -> None:
        if self._is_file:
            self._file.write(encoded(np.concatenate([np.zeros(0, np.float32), *self._pieces]), self._rate))
        else:
            disk.write_new(self._folder / _TABLE, self._table.getvalue())
        if self._not_stopped:
            deco_print(f"Cut at the maximum length, because the model did not stop: {self._not_stopped:,} texts")


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
