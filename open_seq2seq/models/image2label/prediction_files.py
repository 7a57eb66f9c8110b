"""Writer of predicted classes."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

from open_seq2seq.models.results import ResultWriter


class PredictionWriter(ResultWriter):
    """Writes a CSV file with the columns example, class and probability, and a row for each predicted class.

    Args:
      output_file: path of the file.
      describe: function from the index of an example to its name.
      class_names: names of the classes.
    """

    def __init__(self, output_file: str, describe: Callable[[int], str], class_names: Sequence[str]) -> None:
        super().__init__()
        self._name, self._describe, self._class_names = output_file, describe, class_names

    def begin(self) -> None:
        self._rows = csv.writer(self.outputs.open(self._name), lineterminator="\n")
        self._rows.writerow(("example", "class", "probability"))

    def write(self, example: int, result: Any) -> None:
        for number, probability in zip(*result, strict=True):
            self._rows.writerow((self._describe(example), self._class_names[number], f"{probability:.4f}"))
