"""Tokenizers of running text: words, characters or SentencePiece; every line ends with an end token."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from open_seq2seq.data.lm.vocabulary import END, LMVocabulary
from open_seq2seq.data.text2text.tokenizers import SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens

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
_PARTS = re.compile(r"\w+(?=n't)|n't|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]", re.IGNORECASE)


def split_raw_words(line: str) -> list[str]:
    """Returns the words and punctuation of raw text, without ``<br>`` tags.

    Contractions are split as in WikiText: ``don't`` becomes ``do n't``, and ``it's`` becomes ``it 's``.
    """
    return _PARTS.findall(_MARKUP.sub(" ", line))


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
        self.fingerprint = hashlib.sha256(f"{split.__name__} {vocabulary.fingerprint}".encode()).hexdigest()

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        split = [[*self._split(line), END] for line in lines]
        counts = np.fromiter(map(len, split), np.int64, len(split))
        ids = map(self.vocabulary.ids.get, itertools.chain.from_iterable(split), itertools.repeat(self.unknown_id))
        return np.fromiter(ids, np.int32, int(counts.sum())), counts

    def decode(self, ids: Iterable[int]) -> str:
        lines: list[list[str]] = [[]]
        for number in np.asarray(ids).reshape(-1).tolist():
            if number == self.end_id:
                lines.append([])
            else:
                lines[-1].append(self.tokens[number if 0 <= number < self.vocab_size else self.unknown_id])
        return "\n".join(self._separator.join(line) for line in lines)

    def first_unknown(self, line: str) -> str:
        known = self.vocabulary.ids
        return next((token for token in self._split(line) if known.get(token, self.unknown_id) == self.unknown_id), "")


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
        self.fingerprint = hashlib.sha256(f"lines of {self._pieces.fingerprint}".encode()).hexdigest()

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = self._pieces.encode(lines, threads)
        return np.insert(ids, np.cumsum(counts), self.end_id), counts + 1

    def decode(self, ids: Iterable[int]) -> str:
        flat = np.asarray(ids).reshape(-1)
        return "\n".join(self._pieces.decode(line) for line in np.split(flat, np.flatnonzero(flat == self.end_id) + 1))

    def first_unknown(self, line: str) -> str:
        ids, _ = self._pieces.encode([line])
        places = np.flatnonzero(ids == self.unknown_id)
        return self._pieces.split(line)[int(places[0])] if len(places) else ""


class FittingTokenizer(VocabularyTokenizer):
    """Splits raw text into words as in the training text of a language model; looks up unknown words in lower case."""

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        return super().encode(list(map(self._fitted, lines)), threads)

    def first_unknown(self, line: str) -> str:
        return super().first_unknown(self._fitted(line))

    def _fitted(self, line: str) -> str:
        known = self.vocabulary.ids
        return self._separator.join(word if word in known else word.lower() for word in split_raw_words(line))


class WithoutEnds:
    """Wraps a tokenizer and leaves out the end token of each line, for callers that add special ids themselves.

    Args:
      tokenizer: the tokenizer to wrap.
    """

    def __init__(self, tokenizer: LMTokenizer) -> None:
        self.inner = tokenizer
        self.vocab_size, self.fingerprint = tokenizer.vocab_size, tokenizer.fingerprint

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all lines and the number of ids in each line."""
        ids, counts = self.inner.encode(lines, threads)
        return np.delete(ids, np.cumsum(counts) - 1), counts - 1

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids without line breaks."""
        return self.inner.decode(ids).replace("\n", " ").strip()
