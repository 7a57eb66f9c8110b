"""The output symbols of a recogniser: characters, or the pieces of a SentencePiece model."""

from __future__ import annotations

import abc
import unicodedata
from collections.abc import Iterable
from functools import partial

import numpy as np

from open_seq2seq.data.sentencepiece_models import load_sentencepiece, normalized
from open_seq2seq.data.text_remarks import changed_remarks
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import spelled


class Alphabet(abc.ABC):
    """Base class of alphabets. CTC's blank is not part of the alphabet.

    Attributes:
      path: the file that the alphabet was read from.
      labels: the text of each id, without ``<S>`` and ``</S>``. A SentencePiece piece is spelled as in the model, but a
        control piece is empty, and the unknown piece is the text to which SentencePiece decodes it.
      size: number of ids, including ``<S>`` and ``</S>`` if the alphabet has them.
      start_id: id of ``<S>``, or None.
      end_id: id of ``</S>``, or None.
    """

    def __init__(self, path: str, labels: list[str], autoregressive: bool) -> None:
        self.path, self.labels = path, labels
        self.size = len(labels) + (2 if autoregressive else 0)
        self.start_id = len(labels) if autoregressive else None
        self.end_id = len(labels) + 1 if autoregressive else None

    def spelled(self, text: str) -> str:
        """Returns a text in the form of the alphabet's characters: composed or decomposed, with its apostrophes."""
        return text

    def remarks(self, texts: Iterable[str], source: str) -> list[str]:
        """Returns lines about how the alphabet fits transcripts; ``source`` is their file."""
        return []

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without ``<S>`` and ``</S>``.

        Raises:
          DataError: the text has characters outside the alphabet.
        """

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to ``</S>``; ids without a label, such as the blank, are skipped."""

    @abc.abstractmethod
    def unknown(self, text: str) -> str:
        """Returns the characters of a text that are not in the alphabet, each once."""

    def _unknown_error(self, text: str) -> DataError:
        return DataError(f"The text {text!r} has characters that are not in the alphabet {self.path}: "
                         f"{describe_characters(self.unknown(text))}.")

    def _visible(self, ids: Iterable[int]) -> list[int]:
        """Returns the ids up to ``</S>`` that have a label."""
        array = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
        numbers = array.reshape(-1).astype(np.int64).tolist()
        if self.end_id in numbers:
            numbers = numbers[:numbers.index(self.end_id)]
        return [i for i in numbers if 0 <= i < len(self.labels)]


class Characters(Alphabet):
    """An alphabet of characters, listed in a file in the order of their ids.

    Args:
      path: a UTF-8 file with one character per line. A line with a single space is the space; empty lines are skipped.
      autoregressive: whether to add ``<S>`` and ``</S>`` after the characters.

    Raises:
      DataError: the file is missing, not UTF-8 or empty, a line has several characters, or a character occurs twice.
    """

    def __init__(self, path: str, autoregressive: bool = False) -> None:
        super().__init__(path, _read_characters(path), autoregressive)
        self._ids = {character: number for number, character in enumerate(self.labels)}

    def spelled(self, text: str) -> str:
        return spelled(text, self._ids)

    def remarks(self, texts: Iterable[str], source: str) -> list[str]:
        twice = [character for character in self.labels
                 if len(parts := unicodedata.normalize("NFD", character)) > 1 and set(parts) <= self._ids.keys()]
        return [f"WARNING: the alphabet {shown(self.path)} spells {describe_characters(''.join(twice))} in two ways, "
                "as one character and as several: make a new one with scripts/create_alphabet.py."] if twice else []

    def encode(self, text: str) -> list[int]:
        try:
            return [self._ids[character] for character in self.spelled(text)]
        except KeyError:
            raise self._unknown_error(text) from None

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.labels[i] for i in self._visible(ids))

    def unknown(self, text: str) -> str:
        return "".join(dict.fromkeys(character for character in self.spelled(text) if character not in self._ids))


class Pieces(Alphabet):
    """An alphabet of the pieces of a SentencePiece model.

    Args:
      path: the ``.model`` file.
      autoregressive: whether to add ``<S>`` and ``</S>`` after the pieces.

    Raises:
      DataError: the file is missing or is not a SentencePiece model.
    """

    def __init__(self, path: str, autoregressive: bool = False) -> None:
        self._processor = load_sentencepiece(path)
        labels = [self._label(number) for number in range(self._processor.get_piece_size())]
        super().__init__(path, labels, autoregressive)

    def _label(self, number: int) -> str:
        if self._processor.is_control(number) or self._processor.is_unknown(number):
            return self._processor.decode([number])
        return self._processor.id_to_piece(number)

    def encode(self, text: str) -> list[int]:
        ids = self._processor.encode(text, out_type=int)
        if self._processor.unk_id() in ids:
            raise self._unknown_error(text)
        return ids

    def remarks(self, texts: Iterable[str], source: str) -> list[str]:
        return changed_remarks(texts, partial(normalized, self._processor), self.path, source)

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode(self._visible(ids))

    def unknown(self, text: str) -> str:
        unknown = self._processor.unk_id()
        if unknown not in self._processor.encode(text, out_type=int):
            return ""
        return "".join(dict.fromkeys(c for c in text if unknown in self._processor.encode(c, out_type=int)))


def make_alphabet(path: str, bpe: bool = False, autoregressive: bool = False) -> Alphabet:
    """Reads an alphabet from a file of characters or, if ``bpe``, from a SentencePiece model."""
    return Pieces(path, autoregressive) if bpe else Characters(path, autoregressive)


def describe_characters(characters: str) -> str:
    """Formats up to five characters for a message, with their code points: ``'é' (U+00E9)``."""
    shown = ", ".join(f"{c!r} (U+{ord(c):04X})" for c in characters[:5])
    return shown + (f" and {len(characters) - 5} more" if len(characters) > 5 else "")


def _read_characters(path: str) -> list[str]:
    characters: dict[str, None] = {}
    for number, line in enumerate(read_lines(path, "The alphabet"), 1):
        if len(line) > 1:
            raise DataError(f"{path}:{number}: the line {line[:60]!r} has several characters: write one per line, or "
                            "set bpe to True for a SentencePiece model.")
        if line == "\0":
            raise DataError(f"{path}:{number}: the line is a NUL character, so the file is not an alphabet.")
        if line in characters:
            raise DataError(f"{path}:{number}: {line!r} is already in the alphabet: remove the line.")
        if line:
            characters[line] = None
    if not characters:
        raise DataError(f"The alphabet {path} is empty: write one character per line.")
    return list(characters)
