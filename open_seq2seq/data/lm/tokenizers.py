"""Tokenizers of running text: words, characters or SentencePiece; every line ends with an end token."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from open_seq2seq.data.lm.vocabulary import END, LMVocabulary
from open_seq2seq.data.text2text.tokenizers import SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.unicode_text import (
    APOSTROPHES,
    TextIds,
    composed,
    continuing_characters,
    plain,
    spelled,
)

Split = Callable[[str], Sequence[str]]


class LMTokenizer(Protocol):
    """Protocol of tokenizers that end every line with an end token.

    Attributes:
      vocab_size: number of ids.
      fingerprint: digest of everything that the ids depend on.
      end_id: the id that ends every line.
      unknown_id: the id of unknown tokens.
      tokens: the tokens in the order of their ids.
    """

    vocab_size: int
    fingerprint: str
    end_id: int
    unknown_id: int
    tokens: Sequence[str]

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all lines ``[tokens]`` and the number of ids in each line ``[lines]``.

        The ids of each line end with ``end_id``.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids; end tokens become line breaks."""
        ...

    def first_unknown(self, line: str) -> str:
        """Returns the first token of a line that is not in the vocabulary; an empty string if there is none."""
        ...


def split_words(line: str) -> list[str]:
    """Returns the words of a line, which are separated by white space."""
    return line.split()


def split_normalized_words(line: str) -> list[str]:
    """Returns the words of a line after the changes that the published recipes make to WikiText.

    ``@-@`` becomes ``-``, every ``-`` becomes a word, and ``don 't`` becomes ``do n't``.
    """
    return line.replace("@-@", "-").replace("-", " - ").replace("n 't", " n't").split()


def split_characters(line: str) -> list[str]:
    """Returns the characters of a line."""
    return list(line.rstrip("\r"))


_MARKUP = re.compile(r"<br\s*/?>")


@functools.cache
def _parts(more: str) -> re.Pattern[str]:
    """Returns the pattern of words and punctuation; ``more`` is a class of characters that continue a word."""
    word = rf"\w[\w{more}]*"
    return re.compile(rf"{word}(?=n't)|n't|'(?:s|re|ve|ll|d|m)\b|{word}|[^\w\s{more}]", re.IGNORECASE)


def split_raw_words(line: str) -> list[str]:
    """Returns the words and punctuation of raw text, without ``<br>`` tags; combining marks belong to their words.

    Contractions are split as in WikiText: ``don't`` becomes ``do n't``, and ``it's`` becomes ``it 's``.
    """
    return _parts(continuing_characters()).findall(_MARKUP.sub(" ", line))


def split_at_marks(line: str) -> list[str]:
    """Returns the words and punctuation of raw text as ``split_raw_words``, but each combining mark is a token."""
    return _parts("").findall(_MARKUP.sub(" ", line))


class VocabularyTokenizer:
    """Splits lines into tokens, and looks up the tokens in a vocabulary.

    Args:
      vocabulary: the known tokens.
      split: function that splits a line.
      separator: what ``decode`` puts between the tokens of a line.
    """

    def __init__(self, vocabulary: LMVocabulary, split: Split, separator: str) -> None:
        self.vocabulary, self._split, self._separator = vocabulary, split, separator
        self.vocab_size = len(vocabulary)
        self.tokens: Sequence[str] = vocabulary.tokens
        self.end_id, self.unknown_id = vocabulary.end_id, vocabulary.unknown_id
        self._ids = TextIds(vocabulary.ids, self.unknown_id)
        self.fingerprint = hashlib.sha256(f"plain {split.__name__} {vocabulary.fingerprint}".encode()).hexdigest()

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        split = [[*self._tokens_of(line), END] for line in lines]
        counts = np.fromiter(map(len, split), np.int64, len(split))
        ids = map(self._ids.__getitem__, itertools.chain.from_iterable(split))
        return np.fromiter(ids, np.int32, int(counts.sum())), counts

    def _tokens_of(self, line: str) -> Sequence[str]:
        return self._split(spelled(line, self._ids) if self._split is split_characters else line)

    def decode(self, ids: Iterable[int]) -> str:
        lines: list[list[str]] = [[]]
        for number in np.asarray(ids).reshape(-1).tolist():
            if number == self.end_id:
                lines.append([])
            else:
                lines[-1].append(self.tokens[number if 0 <= number < self.vocab_size else self.unknown_id])
        return "\n".join(self._separator.join(line) for line in lines)

    def first_unknown(self, line: str) -> str:
        return next((token for token in self._tokens_of(line) if self._ids[token] == self.unknown_id), "")


class PieceTokenizer:
    """Tokenizes raw text with a SentencePiece model, whose EOS ends every line.

    Args:
      path: the ``.model`` file; see ``SentencePieceTokenizer``.
    """

    end_id, unknown_id = int(SpecialTextTokens.EOS_ID), int(SpecialTextTokens.UNK_ID)

    def __init__(self, path: str) -> None:
        self._pieces = SentencePieceTokenizer(path)
        self.vocab_size = self._pieces.vocab_size
        self.tokens: Sequence[str] = self._pieces.tokens
        self.first_unknown, self.normalized = self._pieces.first_unknown, self._pieces.normalized
        self.fingerprint = hashlib.sha256(f"lines of {self._pieces.fingerprint}".encode()).hexdigest()

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = self._pieces.encode(lines, threads)
        return np.insert(ids, np.cumsum(counts), self.end_id), counts + 1

    def decode(self, ids: Iterable[int]) -> str:
        flat = np.asarray(ids).reshape(-1)
        return "\n".join(self._pieces.decode(line) for line in np.split(flat, np.flatnonzero(flat == self.end_id) + 1))


class FittingTokenizer(VocabularyTokenizer):
    """Splits raw text into words as in the training text of a language model; looks up unknown words in lower case.

    Typographic apostrophes are read as ASCII ones, and combining marks belong to their words, unless the vocabulary
    shows that its text was split in another way, as that of earlier versions.
    """

    def __init__(self, vocabulary: LMVocabulary, split: Split, separator: str) -> None:
        super().__init__(vocabulary, split, separator)
        marks = re.compile(f"[{continuing_characters()}]")
        marked = [token for token in vocabulary.tokens if not token.isascii() and marks.search(token)]
        self._splits_at_marks = bool(marked) and all(len(token) == 1 for token in marked)
        self._keeps_apostrophes = any(char in vocabulary.ids for char in APOSTROPHES[1:])

    def _tokens_of(self, line: str) -> list[str]:
        if self._splits_at_marks:
            words = split_at_marks(line)
        else:
            words = split_raw_words(composed(line) if self._keeps_apostrophes else plain(line))
        return [word if word in self._ids else word.lower() for word in words]


class WithoutEnds:
    """Wraps a tokenizer and leaves out the end token of each line, for callers that add special ids themselves.

    Args:
      tokenizer: the tokenizer to wrap.
    """

    def __init__(self, tokenizer: LMTokenizer) -> None:
        self.inner = tokenizer
        self.vocab_size, self.fingerprint = tokenizer.vocab_size, tokenizer.fingerprint
        self.unknown_id, self.first_unknown = tokenizer.unknown_id, tokenizer.first_unknown

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all lines and the number of ids in each line."""
        ids, counts = self.inner.encode(lines, threads)
        return np.delete(ids, np.cumsum(counts) - 1), counts - 1

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids without line breaks."""
        return self.inner.decode(ids).replace("\n", " ").strip()
