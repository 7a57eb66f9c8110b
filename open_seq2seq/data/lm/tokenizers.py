"""Tokenizers of running text: words, characters or SentencePiece."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from open_seq2seq.data.lm.review_words import review_words
from open_seq2seq.data.lm.vocabulary import LMVocabulary
from open_seq2seq.data.text2text.tokenizers import LookupTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.unicode_text import APOSTROPHES, composed, continuing_characters, plain, spelled

Split = Callable[[str], Sequence[str]]


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


class VocabularyTokenizer(LookupTokenizer):
    """Splits lines into tokens, and looks up the tokens in a vocabulary.

    Args:
      vocabulary: the known tokens.
      split: function that splits a line.
      separator: what ``decode`` puts between the tokens of a line.

    Attributes:
      end_id: the id of the token that ends a line.
    """

    def __init__(self, vocabulary: LMVocabulary, split: Split, separator: str) -> None:
        super().__init__(vocabulary, vocabulary.unknown_id)
        self.splits_by, self.separator, self.end_id = split, separator, vocabulary.end_id
        self.fingerprint = hashlib.sha256(f"plain {split.__name__} {vocabulary.fingerprint}".encode()).hexdigest()

    def split(self, line: str) -> Sequence[str]:
        return self.splits_by(spelled(line, self._ids) if self.splits_by is split_characters else line)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids; end tokens become line breaks."""
        lines: list[list[str]] = [[]]
        for number in np.asarray(ids).reshape(-1).tolist():
            if number == self.end_id:
                lines.append([])
            else:
                lines[-1].append(self.tokens[number if 0 <= number < self.vocab_size else self.unknown_id])
        return "\n".join(self.separator.join(line) for line in lines)


class PieceTokenizer(SentencePieceTokenizer):
    """Tokenizes raw text with a SentencePiece model, whose EOS ends lines.

    Args:
      path: the ``.model`` file; see ``SentencePieceTokenizer``.
    """

    end_id = int(SpecialTextTokens.EOS_ID)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.fingerprint = hashlib.sha256(f"lines of {self.fingerprint}".encode()).hexdigest()

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids; end tokens become line breaks."""
        flat, decode = np.asarray(ids).reshape(-1), super().decode
        return "\n".join(map(decode, np.split(flat, np.flatnonzero(flat == self.end_id) + 1)))


class FittingTokenizer(VocabularyTokenizer):
    """Splits raw text into words as in the training text of a language model; looks up unknown words in lower case.

    Typographic apostrophes are read as ASCII ones, and combining marks belong to their words, unless the vocabulary
    shows that its text was split in another way, as by the Moses tokenizer.
    """

    def __init__(self, vocabulary: LMVocabulary, split: Split, separator: str) -> None:
        super().__init__(vocabulary, split, separator)
        marks = re.compile(f"[{continuing_characters()}]")
        marked = [token for token in vocabulary.tokens if not token.isascii() and marks.search(token)]
        self._splits_at_marks = bool(marked) and all(len(token) == 1 for token in marked)
        self._keeps_apostrophes = any(char in vocabulary.ids for char in APOSTROPHES[1:])

    def split(self, line: str) -> list[str]:
        if self._splits_at_marks:
            words = split_at_marks(line)
        else:
            words = split_raw_words(composed(line) if self._keeps_apostrophes else plain(line))
        return [word if word in self._ids else word.lower() for word in words]


class ReviewTokenizer(FittingTokenizer):
    """Splits raw text as NVIDIA's OpenSeq2Seq did; see ``review_words``.

    Args:
      vocabulary: the known tokens.
      periods: whether every period is a token.
    """

    def __init__(self, vocabulary: LMVocabulary, periods: bool) -> None:
        super().__init__(vocabulary, split_words, " ")
        self._periods = periods
        self.fingerprint = hashlib.sha256(f"reviews {periods} {vocabulary.fingerprint}".encode()).hexdigest()

    def split(self, line: str) -> list[str]:
        return review_words(line, self._ids, self._periods)
