"""Says how a text and its vocabulary fit: unknown tokens, reserved tokens, and lines that SentencePiece changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from open_seq2seq.data.text2text.corpus import TokenCorpus
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.progress import format_count
from open_seq2seq.utils.unicode_text import composed

_MANY = 0.2  # above this share, the vocabulary is probably that of another text
_MOST_COUNTED = 10**8  # tokens of a text that are counted before a run; reading more would delay its start
_MOST_NORMALIZED = 2000  # lines that are compared with what a SentencePiece model makes of them
_BLOCK = 1 << 24  # tokens that are compared at once, which limits the memory


class NamingTokenizer(Protocol):
    """Protocol of tokenizers that know their unknown tokens.

    Attributes:
      unknown_id: the id of unknown tokens.
    """

    unknown_id: int

    def first_unknown(self, line: str) -> str:
        """Returns the first token of a line that is not in the vocabulary; an empty string if there is none."""
        ...


def count_ids(tokens: np.ndarray, number: int) -> int:
    """Returns how many of the given ids ``[tokens]`` are a number."""
    return sum(int(np.count_nonzero(tokens[begin:begin + _BLOCK] == number))
               for begin in range(0, len(tokens), _BLOCK))


def share_of(count: int, total: int) -> str:
    """Returns ``count`` and its share of ``total``, such as ``1,234 (5.6 %)``."""
    return f"{count:,} ({100 * count / total:.1f} %)"


def unknown_remarks(corpus: TokenCorpus, size: int, tokenizer: NamingTokenizer, remedy: str, text: str) -> list[str]:
    """Returns lines about the unknown tokens of a text: none if there are none, and a warning if there are many.

    Args:
      corpus: the text; of a large one, only the beginning is counted.
      size: number of the text's tokens that are used.
      tokenizer: the tokenizer of the corpus.
      remedy: clause of the warning that says which vocabulary may be the wrong one, and what to do.
      text: the file or folder of the text.
    """
    total = min(size, _MOST_COUNTED)
    unknown = count_ids(corpus.tokens[:total], tokenizer.unknown_id)
    if not unknown:
        return []
    first = "the first " if total < size else ""
    lines = [f"Unknown tokens in {shown(text)}: {share_of(unknown, total)} of {first}{total:,}"
             + _example(corpus, tokenizer)]
    if unknown > _MANY * total:
        lines.append(f"WARNING: {remedy}.")
    return lines


def reserved_remarks(corpus: TokenCorpus, size: int, reserved: Mapping[int, str], text: str,
                     line_end: int | None = None) -> list[str]:
    """Returns a warning for each reserved token that a text itself contains.

    Args:
      corpus: the text; of a large one, only the beginning is counted.
      size: number of the text's tokens that are used.
      reserved: dict of id → token.
      text: the file of the text.
      line_end: the id that ends every line of the corpus, if one does.
    """
    total = min(size, _MOST_COUNTED)
    ends = int(np.searchsorted(corpus.offsets, total, side="right")) - 1
    counts = {token: count_ids(corpus.tokens[:total], number) - (ends if number == line_end else 0)
              for number, token in reserved.items()}
    return [f"WARNING: {token} occurs {format_count(count, 'time')} in {shown(text)} itself, but it is added to each "
            "line: remove it from the text, or results mean something else."
            for token, count in counts.items() if count > 0]


def changed_remarks(lines: Iterable[str], normalized: Callable[[str], str], model: str, text: str) -> list[str]:
    """Returns a line about what a SentencePiece model changes in a text to learn, if it changes anything.

    Args:
      lines: the lines; only the first are read.
      normalized: the function that returns a line after the model's changes.
      model: file of the model.
      text: file of the text.
    """
    some = [" ".join(line.split()) for line in itertools.islice(lines, _MOST_NORMALIZED)]
    changed = [(line, other) for line in some if (other := normalized(line)) != line]
    if not changed:
        return []
    before, after = next(((one, other) for one, other in zip(*map(str.split, changed[0]), strict=False)
                          if one != other), changed[0])
    show = ascii if composed(before) == composed(after) else repr
    count = share_of(len(changed), len(some))
    return [f"{shown(model)} changes {count} of the first {format_count(len(some), 'line')} of {shown(text)}, such as "
            f"{show(before[:40])} to {show(after[:40])}, which no output can contain: a model of "
            "scripts/tokenizer_wrapper.py keeps them"]


def unknown_in_prompts(corpus: TokenCorpus, tokenizer: NamingTokenizer, unknown: str) -> list[str]:
    """Returns a line about the unknown tokens of lines to continue or to score, if there are any.

    Args:
      corpus: the lines.
      tokenizer: the tokenizer of the corpus.
      unknown: the token as which unknown tokens are read.
    """
    count = count_ids(corpus.tokens[:_MOST_COUNTED], tokenizer.unknown_id)
    return [f"Unknown tokens, which are read as {unknown}: {count:,}{_example(corpus, tokenizer)}"] if count else []


def _example(corpus: TokenCorpus, tokenizer: NamingTokenizer) -> str:
    """Returns a clause that quotes the first unknown token of a text that has one."""
    blocks = ((begin, np.flatnonzero(corpus.tokens[begin:begin + _BLOCK] == tokenizer.unknown_id))
              for begin in range(0, len(corpus.tokens), _BLOCK))
    place = next(begin + int(found[0]) for begin, found in blocks if len(found))
    line = int(np.searchsorted(corpus.offsets, place, side="right")) - 1
    token = tokenizer.first_unknown(corpus.line(line))
    return f", such as {token[:40]!r} in line {line + 1:,}" if token else ""
