"""What a recogniser writes: characters, or the pieces of a SentencePiece model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from open_seq2seq.data.text2text.tokenizers import load_sentencepiece
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError

START, END = "<S>", "</S>"


class Alphabet(Protocol):
    """What data layer, decoders and metrics ask of an alphabet; CTC's blank is not part of it.

    Attributes:
      labels: the text of each id, without ``<S>`` and ``</S>``; pieces as SentencePiece spells them, but empty for its
        control pieces, which have no text.
      size: ids are below it; with ``<S>`` and ``</S>`` where there are such.
      start_id: id of ``<S>``, or None.
      end_id: id of ``</S>``, or None.
    """

    labels: list[str]
    size: int
    start_id: int | None
    end_id: int | None

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without ``<S>`` and ``</S>``.

        Raises:
          DataError: it has something outside of the alphabet.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to ``</S>``; ids that have no text, as the blank, are left out."""
        ...

    def unknown(self, text: str) -> str:
        """Returns the characters of a text that the alphabet does not have, each once."""
        ...


class Characters:
    """An alphabet of characters, one a line of a file; their order gives the ids.

    Args:
      path: a UTF-8 file. A line that is a blank is the blank; empty lines are skipped.
      autoregressive: whether ``<S>`` and ``</S>`` follow the characters.

    Raises:
      DataError: the file is missing, not UTF-8, empty, has a line of several characters, or one character twice.
    """

    def __init__(self, path: str, autoregressive: bool = False) -> None:
        self.path = path
        self.characters = self.labels = _read_characters(path)
        self._ids = {character: number for number, character in enumerate(self.characters)}
        self.size = len(self.characters) + (2 if autoregressive else 0)
        self.start_id = len(self.characters) if autoregressive else None
        self.end_id = len(self.characters) + 1 if autoregressive else None

    def encode(self, text: str) -> list[int]:
        try:
            return [self._ids[character] for character in text]
        except KeyError:
            raise _unknown_error(text, self.unknown(text), self.path) from None

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.characters[i] for i in _visible(ids, self.end_id) if 0 <= i < len(self.characters))

    def unknown(self, text: str) -> str:
        return "".join(dict.fromkeys(character for character in text if character not in self._ids))


class Pieces:
    """An alphabet of the pieces of a SentencePiece model.

    Args:
      path: the ``.model`` file.
      autoregressive: whether ``<S>`` and ``</S>`` follow the pieces.

    Raises:
      DataError: the file is missing or no SentencePiece model.
    """

    def __init__(self, path: str, autoregressive: bool = False) -> None:
        self.path = path
        self._processor = load_sentencepiece(path)
        self._pieces = self._processor.get_piece_size()
        self.labels = [self._label(number) for number in range(self._pieces)]
        self.size = self._pieces + (2 if autoregressive else 0)
        self.start_id = self._pieces if autoregressive else None
        self.end_id = self._pieces + 1 if autoregressive else None

    def _label(self, number: int) -> str:
        if self._processor.is_control(number) or self._processor.is_unknown(number):
            return self._processor.decode([number])
        return self._processor.id_to_piece(number)

    def encode(self, text: str) -> list[int]:
        ids = self._processor.encode(text, out_type=int)
        if self._processor.unk_id() in ids:
            raise _unknown_error(text, self.unknown(text), self.path)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode([i for i in _visible(ids, self.end_id) if 0 <= i < self._pieces])

    def unknown(self, text: str) -> str:
        unknown = self._processor.unk_id()
        if unknown not in self._processor.encode(text, out_type=int):
            return ""
        return "".join(dict.fromkeys(c for c in text if unknown in self._processor.encode(c, out_type=int)))


def make_alphabet(path: str, bpe: bool = False, autoregressive: bool = False) -> Alphabet:
    """Returns the alphabet of a file: characters, or with ``bpe`` a SentencePiece model."""
    return Pieces(path, autoregressive) if bpe else Characters(path, autoregressive)


def describe_characters(characters: str) -> str:
    """Returns characters for a message, with their code points: ``'é' (U+00E9)``; a few of many."""
    shown = ", ".join(f"{c!r} (U+{ord(c):04X})" for c in characters[:5])
    return shown + (f" and {len(characters) - 5} more" if len(characters) > 5 else "")


def _unknown_error(text: str, unknown: str, path: str) -> DataError:
    return DataError(f"The text {text!r} has characters that the alphabet {path} does not have: "
                     f"{describe_characters(unknown)}.")


def _visible(ids: Iterable[int], end_id: int | None) -> list[int]:
    found = np.asarray(list(ids) if not isinstance(ids, np.ndarray) else ids).reshape(-1).astype(np.int64).tolist()
    return found[:found.index(end_id)] if end_id is not None and end_id in found else found


def _read_characters(path: str) -> list[str]:
    characters: dict[str, None] = {}
    for number, line in enumerate(read_lines(path, "The alphabet", unpack=False), 1):
        if len(line) > 1:
            raise DataError(f"{path}:{number}: {line[:60]!r} is several characters: the alphabet has one a line (for a "
                            "SentencePiece model set bpe to True).")
        if line == "\0":
            raise DataError(f"{path}:{number}: the line is a NUL: this is no alphabet.")
        if line in characters:
            raise DataError(f"{path}:{number}: {line!r} stands in the alphabet twice.")
        if line:
            characters[line] = None
    if not characters:
        raise DataError(f"The alphabet {path} is empty: give one character a line.")
    return list(characters)
