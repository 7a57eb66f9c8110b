"""Tokenizers of running text, and vocabularies that are built from it: words, characters or SentencePiece.

Words of reviews, as NVIDIA's OpenSeq2Seq had them, are divided by the rules of the Penn Treebank, fitted to a
vocabulary. The rules are those of NLTK's ``NLTKWordTokenizer``, which is applied to a whole text here, not to each
sentence.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from open_seq2seq.data.text2text.tokenizers import LookupTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import is_count, read_data, read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import APOSTROPHES, composed, continuing_characters, plain, spelled

UNKNOWN, END = "<unk>", "<eos>"
"""The token of all unknown words, and the token that ends every line."""
_DIGEST = "vocabulary"  # key of the vocabulary's checksum in the file of its settings
_MOST_SETTINGS_BYTES = 1 << 16


class LMVocabulary:
    """Mapping between tokens and ids. A vocabulary built by ``of_counts`` is sorted by frequency.

    Args:
      tokens: the tokens in the order of their ids; ``<unk>`` and ``<eos>`` are among them.
      counts: how often each token occurs in the training text.
      path: the file that the tokens were read from.

    Attributes:
      settings: the settings with which the vocabulary was built; empty if they are unknown.

    Raises:
      DataError: a token occurs twice, or a special token is missing.
    """

    def __init__(self, tokens: Sequence[str], counts: Sequence[int], path: str = "") -> None:
        self.tokens, self.counts, self.path = tuple(tokens), tuple(counts), path
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        name = shown(path) or "The vocabulary"
        if len(self.ids) < len(self.tokens):
            double = next(token for number, token in enumerate(self.tokens) if self.ids[token] != number)
            raise DataError(f"{name} has the token {double!r} twice: use the vocab.txt that training wrote.")
        missing = [token for token in (UNKNOWN, END) if token not in self.ids]
        if missing:
            raise DataError(f"{name} has no token {missing[0]}: use the vocab.txt that training wrote.")
        self.unknown_id, self.end_id = self.ids[UNKNOWN], self.ids[END]
        self.fingerprint = hashlib.sha256("\n".join(self.tokens).encode("utf-8", "surrogatepass")).hexdigest()
        self.settings: Mapping[str, Any] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of_counts(cls, counts: Counter[str], min_count: int = 1) -> LMVocabulary:
        """Returns the vocabulary of a text: ``<unk>``, then the tokens by descending frequency.

        Args:
          counts: how often each token occurs; tokens of equal frequency keep their order.
          min_count: rarer tokens are left out, except ``<eos>``.
        """
        frequent = {token: count for token, count in counts.items() if token != UNKNOWN and count >= min_count}
        frequent.setdefault(END, counts[END])
        rare = sum(count for token, count in counts.items() if token not in frequent)
        ordered = sorted(frequent.items(), key=lambda item: -item[1])
        return cls([UNKNOWN, *(token for token, _ in ordered)], [rare, *(count for _, count in ordered)])

    @classmethod
    def load(cls, path: str) -> LMVocabulary:
        """Reads a vocabulary file: lines ``id<TAB>token<TAB>count``, then a line with the number of tokens.

        The settings are read from the file that ``save`` has written beside it, unless that is of another vocabulary.

        Raises:
          DataError: the file cannot be read, or does not have this format.
        """
        tokens: list[str] = []
        counts: list[int] = []
        last = ""
        for number, line in enumerate(read_lines(path, "The vocabulary of the language model"), 1):
            identity, tab, rest = line.partition("\t")
            token, second, count = rest.rpartition("\t")
            if last:
                raise DataError(f"{shown(path)}:{number}: the line before, the number of tokens, must be the last one: "
                                "remove all lines after it.")
            if not tab and is_count(line.strip()):
                last = line.strip()
            elif not second or not is_count(count.strip()) or identity != str(len(tokens)):
                raise DataError(f"{shown(path)}:{number}: the line must be the id {len(tokens)}, a tab, the token, a "
                                "tab and its count: use the vocab.txt that training wrote, or remove the file "
                                "to build it again.")
            else:
                tokens.append(token)
                counts.append(int(count))
        if last != str(len(tokens)):
            raise DataError(f"{shown(path)} has {len(tokens)} tokens, but its last line, the number of tokens, is "
                            f"{last or 'missing'}: the file is incomplete; remove it to build it again.")
        vocabulary = cls(tokens, counts, path)
        vocabulary.settings = _settings_beside(path, vocabulary.fingerprint)
        return vocabulary

    def save(self, path: str, settings: Mapping[str, Any] | None = None) -> None:
        """Writes the vocabulary file, and creates its folder if necessary.

        Args:
          path: the file.
          settings: the settings with which the vocabulary was built, which are written beside it as JSON.

        Raises:
          DataError: the file cannot be written, or an existing file with this name is not a vocabulary file.
        """
        rows = [f"{number}\t{token}\t{count}\n" for number, (token, count) in
                enumerate(zip(self.tokens, self.counts, strict=True))]
        if settings:
            content = json.dumps({_DIGEST: self.fingerprint, **settings})
            _write(_settings_path(path), content, lambda file: file.read(1 << 6).startswith(f'{{"{_DIGEST}"'.encode()))
        _write(path, "".join([*rows, f"{len(self)}\n"]), lambda file: file.readline(1 << 16).startswith(b"0\t"))
        self.path, self.settings = path, settings or {}


def _write(path: str, content: str, is_own: Callable[[BinaryIO], bool]) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with disk.writing(path, is_own) as file:
            file.write(content.encode())
    except OSError as error:
        raise DataError(f"The vocabulary cannot be written to {shown(path)} ({error.strerror or error}): set "
                        "processed_data_folder to a writable folder.") from error


def _settings_path(path: str) -> str:
    return f"{os.path.splitext(path)[0]}_settings.json"


def _settings_beside(path: str, fingerprint: str) -> dict[str, Any]:
    with contextlib.suppress(DataError, ValueError, RecursionError):
        settings = json.loads(read_data(_settings_path(path), most_bytes=_MOST_SETTINGS_BYTES))
        if isinstance(settings, dict) and settings.pop(_DIGEST, None) == fingerprint:
            return settings
    return {}


def count_tokens(lines: Iterable[Sequence[str]]) -> Counter[str]:
    """Returns how often each token occurs in lines of tokens, and counts one ``<eos>`` for each line.

    Tokens of equal frequency are in the order of their first occurrence.
    """
    counts: Counter[str] = Counter()
    number = 0
    for tokens in lines:
        counts.update(tokens)
        number += 1
    counts[END] += number
    return counts


_Rules = list[tuple[re.Pattern[str], str]]


def _rules(*pairs: tuple[str, str]) -> _Rules:
    return [(re.compile(pattern), replacement) for pattern, replacement in pairs]


_MARKS = _rules(("-", " - "), (r"\+", " + "), (r"\*", " * "), ("/", " / "), ("`", "'"))
_PERIODS = _rules(("<br />|[\x96\x97]", " "), (r"\.", " . "))
_TITLES = _rules((r" ms \.", " ms."), (r"Ms \.", "Ms."))
_TREEBANK = _rules(
    ("([«“‘„]|`+)", r" \1 "), ('^"', "``"), ("(``)", r" \1 "), (r"""([ (\[{<])("|'{2})""", r"\1 `` "),
    (r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' "),
    (r"""([^.])(\.)([\])}>"'»”’ ]*+)\s*+$""", r"\1 \2 \3 "), (r"([:,])([^\d])", r" \1 \2"), ("([:,])$", r" \1 "),
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
            words = _parts("").findall(_MARKUP.sub(" ", line))  # each combining mark is a word
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
