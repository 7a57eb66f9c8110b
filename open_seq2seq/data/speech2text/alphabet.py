"""The output symbols of a recogniser, characters or the pieces of a SentencePiece model, and transcripts in them."""

from __future__ import annotations

import abc
import argparse
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from open_seq2seq.data.sentencepiece_models import load_sentencepiece, normalized
from open_seq2seq.data.speech2text.manifests import Utterance
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.data.text_remarks import changed_remarks
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import APOSTROPHES, spelled


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


ENGLISH = " abcdefghijklmnopqrstuvwxyz'"
"""The characters of the alphabet of NVIDIA's recipes."""
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


def add_spelling_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that change the transcripts; their names are those of the data layer's parameters."""
    parser.add_argument("--unicode_form", choices=["NFC", "NFD", "NFKC", "NFKD"], default="NFC",
                        help="Unicode normalisation (default: %(default)s, which composes letters and their accents)")
    parser.add_argument("--lower_case", action="store_true", help="convert transcripts to lower case")
    parser.add_argument("--remove_characters", default="", metavar="CHARACTERS",
                        help="characters to remove from the transcripts")


def write_alphabet(path: str, utterances: Sequence[Utterance], normalize: Callable[[str], str], shown: int,
                   place: str | None = None) -> None:
    """Writes each character of the transcripts once, the space first, the others sorted.

    If there are ASCII and typographic apostrophes, only the ASCII one is written; transcripts are then read as if they
    had it (see ``Alphabet.spelled``).

    Prints how often the rarest characters occur and where each first occurs, because these are often typing errors.

    Args:
      path: the file to write.
      utterances: recordings with transcripts.
      normalize: the function that normalises a transcript.
      shown: maximum number of characters to print.
      place: path that the file will get; None if it is ``path``.

    Raises:
      DataError: all transcripts are empty, or one has several lines.
    """
    counts, first_uses = _count_characters(utterances, normalize)
    if not counts:
        lists = ", ".join(dict.fromkeys(utterance.source for utterance in utterances))
        raise DataError(f"All transcripts in {lists} are empty, so there is no alphabet to write.")
    _merge_apostrophes(counts)
    write_lines(path, sorted(counts, key=lambda character: (character != " ", character)))
    deco_print(f"{place or path}: {len(counts):,} characters from {len(utterances):,} transcripts, the rarest first:")
    for line in _describe(counts, first_uses, shown):
        deco_print(line, offset=1)
    if any(character.lower() != character and character.lower() in counts for character in counts):
        deco_print("Some letters occur in upper and lower case: --lower_case merges them.")


def _merge_apostrophes(counts: Counter[str]) -> None:
    """Counts typographic apostrophes as ASCII ones if there are some of both, and prints how many."""
    usual = APOSTROPHES[0]
    for other in APOSTROPHES[1:]:
        if usual in counts and other in counts:
            counts[usual] += (number := counts.pop(other))
            deco_print(f"{describe_characters(other)} is read as {describe_characters(usual)}: "
                       f"{format_count(number, 'time')}")


def _count_characters(utterances: Sequence[Utterance], normalize: Callable[[str], str],
                      ) -> tuple[Counter[str], dict[str, str]]:
    """Returns how often each character occurs, and the file and line where it first occurs."""
    counts: Counter[str] = Counter()
    first_uses: dict[str, str] = {}
    for utterance in utterances:
        text = normalize(utterance.text or "")
        if "\n" in text or "\r" in text:
            raise DataError(f"{utterance.place}: the transcript contains a line break, which cannot be in an alphabet: "
                            "write the transcript on one line.")
        counts.update(text)
        for character in text:
            first_uses.setdefault(character, utterance.place)
    return counts, first_uses


def _describe(counts: Counter[str], places: dict[str, str], shown: int) -> list[str]:
    """Returns one line for each of the rarest characters, the rarest first, and one for the number of the others."""
    rarest = sorted(counts, key=lambda character: (counts[character], character))
    lines = [f"{counts[c]:>9,}  {c!r}  U+{ord(c):04X} {unicodedata.name(c, '(no name)')}, first in {places[c]}"
             for c in rarest[:shown]]
    return lines + ([f"and {len(rarest) - shown:,} more frequent characters"] if len(rarest) > shown else [])
