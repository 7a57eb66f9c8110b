"""Transcripts, encoded as ids of the alphabet and stored in one array."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from open_seq2seq.data.speech2text.alphabet import Alphabet, describe_characters

NORMALIZATION = ("unicode_form", "lower_case", "remove_characters")
"""The data layer's parameters that control the normalisation of transcripts."""


class Transcripts:
    """The labels (encoded transcripts) of all rows of a data set.

    Args:
      texts: normalised transcript of each row; None for a row without a transcript.
      alphabet: encodes the transcripts.

    Attributes:
      texts: the transcripts ``[rows]``.
      lengths: number of ids of each row ``[rows]``, including ``</S>`` if the alphabet has it.
      ctc_steps: number of steps that CTC needs for each row ``[rows]``: one for each id, and one more between equal
        neighbours.
      problems: dict of row → (kind, detail); see ``recordings.Problem``.
    """

    def __init__(self, texts: list[str | None], alphabet: Alphabet) -> None:
        self.texts = texts
        self.problems: dict[int, tuple[str, str]] = {}
        ids = [self._encode(row, text, alphabet) for row, text in enumerate(texts)]
        self.ctc_steps = np.asarray([len(row) + sum(a == b for a, b in zip(row, row[1:], strict=False)) for row in ids])
        if alphabet.end_id is not None:
            ids = [[*row, alphabet.end_id] for row in ids]
        self.lengths = np.asarray([len(row) for row in ids], np.int32)
        self._offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        self._ids = np.fromiter((i for row in ids for i in row), np.min_scalar_type(alphabet.size),
                                int(self._offsets[-1]))

    def _encode(self, row: int, text: str | None, alphabet: Alphabet) -> list[int]:
        if text is None:
            self.problems[row] = ("no transcript", "has no transcript")
        elif not text.strip():
            self.problems[row] = ("empty transcript", "has an empty transcript")
        elif unknown := alphabet.unknown(text):
            hint = " (set lower_case to True)" if not alphabet.unknown(text.lower()) else ""
            self.problems[row] = ("characters outside the alphabet", "has a transcript with characters outside the "
                                  f"alphabet: {describe_characters(unknown)}{hint}")
        else:
            return alphabet.encode(text)
        return []

    def batch(self, rows: Iterable[int]) -> list[np.ndarray]:
        """Returns the ids ``[batch, time]`` of some rows, padded with 0, and their lengths ``[batch]``, both int32."""
        rows = np.asarray(rows, np.int64)
        lengths = self.lengths[rows]
        ids = np.zeros([len(rows), int(lengths.max(initial=0))], np.int32)
        for place, row in enumerate(rows):
            ids[place, :lengths[place]] = self._ids[self._offsets[row]:self._offsets[row + 1]]
        return [ids, lengths]


def text_normalizer(params: Mapping[str, Any]) -> Callable[[str], str]:
    """Returns a function that normalises transcripts as the parameters ``NORMALIZATION`` specify."""
    form, lower, unwanted = (params[name] for name in NORMALIZATION)
    removed = {ord(character): None for character in unwanted}

    def normalize(text: str) -> str:
        if form:
            text = unicodedata.normalize(form, text)
        if lower:
            text = text.lower()
        return text.translate(removed) if removed else text

    return normalize
