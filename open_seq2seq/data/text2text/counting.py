"""Counts the texts that a data layer cannot use as they are: empty ones, and those that it truncates."""

from __future__ import annotations

import numpy as np

from open_seq2seq.data.data_layer import DataLayer


class CountingDataLayer(DataLayer):
    """Base class of data layers of text that truncate texts to ``max_length``.

    Attributes:
      newest_cut: indices of the truncated inputs in the newest batch of interactive inference.
    """

    newest_cut = np.zeros(0, np.int64)
    _cut = np.zeros(0, np.int64)  # indices of the truncated examples
    _num_empty_sources = 0
    _keeps = "beginning"  # the part of a truncated text that is read

    @property
    def num_cut(self) -> int:
        """Number of examples that are truncated to ``max_length``."""
        return len(self._cut)

    @property
    def num_empty_sources(self) -> int:
        """Number of sources without a token; in interactive inference, of those passed so far."""
        return self._num_empty_sources

    def cut_remark(self) -> str:
        """Returns a line about the examples that are truncated, with the first of them; "" if there are none."""
        if not self.num_cut:
            return ""
        first = self._describe_cut(int(self._cut[0]))
        return (f"Longer than max_length {self.params['max_length']}, so only the {self._keeps} is read: "
                f"{self.num_cut:,} of {self.num_examples:,} lines, the first is {first}")

    def _describe_cut(self, example: int) -> str:
        """Returns how messages refer to a truncated example."""
        return self.describe_example(example)

    def _note_typed(self, counts: np.ndarray, max_tokens: int) -> None:
        """Notes which inputs of interactive inference, with these numbers of tokens ``[inputs]``, are empty or cut."""
        self._num_empty_sources += int((counts == 0).sum())
        self.newest_cut = np.flatnonzero(counts > max_tokens)
