"""Tokenizers of running text: words, characters or SentencePiece; words of reviews as NVIDIA's OpenSeq2Seq had them.

Those are divided by the rules of the Penn Treebank, fitted to a vocabulary. The rules are those of NLTK's
``NLTKWordTokenizer``, which is applied to a whole text here, not to each sentence.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np

from open_seq2seq.data.lm.vocabulary import LMVocabulary
from open_seq2seq.data.text2text.tokenizers import LookupTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.unicode_text import APOSTROPHES, composed, continuing_characters, plain, spelled

_Rules = list[tuple[re.Pattern[str], str]]


def _rules(*pairs: tuple[str, str]) -> _Rules:
    return [(re.compile(pattern), replacement) for pattern, replacement in pairs]


_MARKS = _rules(("-", " - "), (r"\+", " + "), (r"\*", " * "), ("/", " / "), ("`", "'"))
_PERIODS = _rules(("<br />|[\x96\x97]", " "), (r"\.", " . "))
_TITLES = _rules((r" ms \.", " ms."), (r"Ms \.", "Ms."))
_TREEBANK = _rules(
    ("([«“‘„]|`+)", r" \1 "), ('^"', "``"), ("(``)", r" \1 "), (r"""([ (\[{<])("|'{2})""", r"\1 `` "),
    (r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' "),
    (r"""([^.])(\.)([\])}>"'»”’ ]*)\s*$""", r"\1 \2 \3 "), (r"([:,])([^\d])", r" \1 \2"), ("([:,])$", r" \1 "),
    (r"(\.{2,}|[;@#$%&\u2012-\u2015])", r" \1 "), (r"""([^.])(\.)([\])}>"']*)\s*$""", r"\1 \2\3 "), ("([?!])", r" \1 "),
    ("([^'])' ", r"\1 ' "), (r"([*\]\[(){}<>])", r" \1 "), ("--", " -- "))
_ENDINGS = _rules(
    ("([»”’])", r" \1 "), ("''|\"", " '' "), (r"\s+", " "), ("([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
    ("([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
    (r"(?i)\b(can)(not)\b", r" \1 \2 "), (r"(?i)\b(d)('ye)\b", r" \1 \2 "), (r"(?i)\b(gim|lem)(me)\b", r" \1 \2 "),
    (r"(?i)\b(gon)(na)\b", r" \1 \2 "), (r"(?i)\b(got)(ta)\b", r" \1 \2 "), (r"(?i)\b(more)('n)\b", r" \1 \2 "),
    (r"(?i)\b(wan)(na)(?=\s)", r" \1 \2 "), (r"(?i) ('t)(is|was)\b", r" \1 \2 "))
# Of words that the vocabulary lacks; "wounldn't" is what the original writes.
_UNKNOWN = _rules(("thats", "that's"), ("wouldnt", "wounldn't"), ("couldnt", "couldn't"), ("cant", "can't"),
                  ("dont", "don't"), ("didnt", "didn't"), ("isnt", "isn't"), ("wasnt", "wasn't"))
_JOINED = _rules(("``", '"'), ("''", '"'), ("' '", '"'), (" ' ll ", " 'll "), (" ' s ", " 's "), (" ' m ", " 'm "),
                 (" ' re ", " 're "), (r"etc \.", "etc. "), (" etc ", " etc. "))


def review_words(text: str, known: Container[str] | None = None, periods: bool = True) -> list[str]:
    """Returns the words of a review.

    Args:
      text: the review.
      known: the vocabulary; words that it lacks are divided again in lower case, with their apostrophes. None to leave
        all words as they are.
      periods: whether every period is a word, and ``<br />`` is left out, as in the reviews of IMDB; otherwise, only a
        period at the end is a word, as in the Stanford Sentiment Treebank.
    """
    for rules in (_PERIODS, _MARKS, _TITLES) if periods else (_MARKS,):
        text = _changed(text, rules)
    words: list[str] = []
    for word in _treebank_words(text):
        for part in ("'", word[1:]) if word.startswith("'") else (word,):
            words += [part] if known is None or part in known else _treebank_words(_changed(part.lower(), _UNKNOWN))
    return _changed(" ".join(words), _JOINED).split()


def _treebank_words(text: str) -> list[str]:
    return _changed(f" {_changed(text, _TREEBANK)} ", _ENDINGS).split()


def _changed(text: str, rules: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


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
