"""The input symbols of speech synthesis: characters or phonemes, and their ids."""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from open_seq2seq.data.speech2text.alphabet import Characters, describe_characters
from open_seq2seq.data.text2speech.front_end import MARKS, SILENCE, Pronunciations, phonemes_of, spelled_out, tokens_of
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError

SPACE = "<space>"
"""The space in aligned lists, whose symbols are separated by spaces."""
_SHOWN = 5  # maximum number of unknown phonemes that a message names


class Symbols(abc.ABC):
    """Base class of the vocabularies.

    Attributes:
      labels: the symbols in the order of their ids.
      guesses: dict of word whose pronunciation had to be guessed → the guess.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.guesses: dict[str, str] = {}
        self._ids = {label: number for number, label in enumerate(self.labels)}

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.labels)

    @abc.abstractmethod
    def split(self, text: str) -> list[str]:
        """Returns the symbols of a text, also those that are not in the vocabulary."""

    @abc.abstractmethod
    def listed(self, column: str) -> list[str]:
        """Returns the symbols of the third column of an aligned list, also those that are not in the vocabulary."""

    @abc.abstractmethod
    def join(self, symbols: Iterable[str]) -> str:
        """Returns symbols as a text."""

    @abc.abstractmethod
    def describe(self, symbols: Sequence[str]) -> str:
        """Returns the first of the given unknown symbols as words of a message, with their kind."""

    def ids(self, symbols: Iterable[str]) -> list[int]:
        """Returns the ids of symbols, leaving out those that are not in the vocabulary."""
        return [self._ids[symbol] for symbol in symbols if symbol in self._ids]

    def unknown(self, symbols: Iterable[str]) -> list[str]:
        """Returns the symbols that are not in the vocabulary, each once."""
        return [symbol for symbol in dict.fromkeys(symbols) if symbol not in self._ids]


class CharacterSymbols(Symbols):
    """Characters, one per line of a file; see ``Characters``. Lower case, unless the file has upper-case letters.

    Numbers and abbreviations are spelled out in texts that have characters outside the vocabulary, if that leaves fewer
    of them.
    """

    def __init__(self, path: str) -> None:
        self._alphabet = Characters(path)
        super().__init__(self._alphabet.labels)
        self._lowers = all(character == character.lower() for character in self.labels)

    def split(self, text: str) -> list[str]:
        symbols = self._characters(text)
        if not self.unknown(symbols):
            return symbols
        try:
            spelled = self._characters(spelled_out(text))
        except DataError:  # num2words is not installed
            return symbols
        return min(symbols, spelled, key=lambda candidate: len(self.unknown(candidate)))

    def _characters(self, text: str) -> list[str]:
        text = " ".join(text.split())
        return list(self._alphabet.spelled(text.lower() if self._lowers else text))

    def listed(self, column: str) -> list[str]:
        return [" " if symbol == SPACE else symbol.lower() if self._lowers else symbol for symbol in column.split()]

    def join(self, symbols: Iterable[str]) -> str:
        return "".join(symbols)

    def describe(self, symbols: Sequence[str]) -> str:
        return f"characters that are not in the vocabulary: {describe_characters(''.join(symbols))}"


class EspeakSymbols(CharacterSymbols):
    """Characters of the International Phonetic Alphabet, and marks, into which espeak-ng turns texts.

    Characters in double brackets, ``[[ həlˈoʊ ]]``, are kept as they are.

    Args:
      path: file with one character per line; see ``Characters``.
      language: a language of espeak-ng, such as ``en-us``.

    Raises:
      DataError: the file cannot be used.
      UserError: phonemizer is not installed, or espeak-ng does not know the language.
    """

    def __init__(self, path: str, language: str) -> None:
        super().__init__(path)
        self._lowers, self._backend = False, _espeak(language)

    def split(self, text: str) -> list[str]:
        return self._characters(" ".join(
            piece[2:-2] if piece.startswith("[[") else self._backend.phonemize([piece], strip=True)[0]
            for piece in re.split(r"(?s)(\[\[.*?\]\])", text) if piece.strip()))


def _espeak(language: str) -> Any:
    """Returns phonemizer's interface to espeak-ng."""
    try:
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
    except ImportError as error:
        raise UserError("The model reads phonemes of espeak-ng, which needs phonemizer: run `pip install "
                        "open-seq2seq[espeak]` (its licence is the GPL).") from error
    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    try:
        return EspeakBackend(language, preserve_punctuation=True, with_stress=True)
    except RuntimeError as error:
        raise UserError(f"espeak-ng does not know the language {shown(language)}: set espeak_language to one such as "
                        "en-us or de.") from error


class PhonemeSymbols(Symbols):
    """Phonemes, one per line of a file, with which texts are pronounced; see ``phonemes_of``.

    Args:
      path: the file.
      pronunciations: file of pronunciations; see ``Pronunciations.read``. None if texts have no words, only phonemes.

    Raises:
      DataError: a file is missing, not UTF-8 or empty, a line of the first one has a space, or a phoneme occurs twice.
    """

    def __init__(self, path: str, pronunciations: str | None = None) -> None:
        labels: dict[str, None] = {}
        for number, line in enumerate(read_lines(path, "The vocabulary"), 1):
            if len(line.split()) > 1 or line in labels:
                raise DataError(f"{shown(path)}:{number}: the line {line[:60]!r} "
                                + ("occurs twice" if line in labels else "has several words")
                                + ", but the vocabulary must have one phoneme per line, each once.")
            if line.strip():
                labels[line.strip()] = None
        if not labels:
            raise DataError(f"The vocabulary {shown(path)} is empty: write one phoneme per line.")
        super().__init__(list(labels))
        self._path = pronunciations

    @functools.cached_property
    def _pronunciations(self) -> Pronunciations:
        return Pronunciations.read(self._path) if self._path else Pronunciations({})

    def split(self, text: str) -> list[str]:
        has_words = any(token.kind == "word" for token in tokens_of(text))
        if not self._path and has_words:
            raise DataError(f"The text {shown(text[:40])!r} has words, but no pronunciations are given: set "
                            "pronunciations of the data layer to a file with lines such as: hello HH AH L OW.")
        symbols, guesses = phonemes_of(text, self._pronunciations if has_words else Pronunciations({}))
        self.guesses.update({word: " ".join(phonemes) for word, phonemes in guesses.items()})
        missing = {SILENCE, *MARKS}.difference(self.labels)  # voices without pauses or marks
        return [symbol for symbol in symbols if symbol not in missing]

    def listed(self, column: str) -> list[str]:
        return column.split()

    def join(self, symbols: Iterable[str]) -> str:
        return " ".join(symbols)

    def describe(self, symbols: Sequence[str]) -> str:
        more = f" and {len(symbols) - _SHOWN} more" if len(symbols) > _SHOWN else ""
        return f"phonemes that are not in the vocabulary: {shown(', '.join(symbols[:_SHOWN]))}{more}"
