"""The words of reviews as NVIDIA's OpenSeq2Seq divided them: by the rules of the Penn Treebank, fitted to a vocabulary.

The rules are those of NLTK's ``NLTKWordTokenizer``, which is applied to a whole text here, not to each sentence.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

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
