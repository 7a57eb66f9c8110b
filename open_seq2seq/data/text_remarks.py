"""Says how a text and its vocabulary fit: unknown tokens, reserved tokens, and lines that SentencePiece changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from open_seq2seq.data.text2text.corpus import TokenCorpus
from open_seq2seq.data.text2text.token_table import Column
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.console import format_count
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.unicode_text import composed

_MANY = 0.2  # above this share, the vocabulary is probably that of another text
_MOST_COUNTED = 10**8  # tokens of a text that are counted before a run; reading more would delay its start
_MOST_NORMALIZED = 2000  # lines that are compared with what a SentencePiece model makes of them
_BLOCK = 1 << 24  # tokens that are compared at once, which limits the memory


def count_ids(tokens: np.ndarray, number: int) -> int:
    """Returns how many of the given ids ``[tokens]`` are a number."""
    return sum(int(np.count_nonzero(tokens[begin:begin + _BLOCK] == number))
               for begin in range(0, len(tokens), _BLOCK))


def share_of(count: int, total: int) -> str:
    """Returns ``count`` and its share of ``total``, such as ``1,234 (5.6 %)``."""
    return f"{count:,} ({100 * count / total:.1f} %)"


def column_remarks(corpus: TokenCorpus, column: Column, remedy: str, size: int | None = None) -> list[str]:
    """Returns lines about unknown and reserved tokens, and about text to learn that a SentencePiece model changes.

    Args:
      corpus: the text; of a large one, only the beginning is counted.
      column: the column that it is in.
      remedy: clause that says what to do if the vocabulary does not fit the text.
      size: number of the text's tokens that are used; all by default.
    """
    size = len(corpus.tokens) if size is None else size
    lines = _unknown_remarks(corpus, column, remedy, size) + _reserved_remarks(corpus, column, size)
    if isinstance(column.tokenizer, SentencePieceTokenizer) and (
            column.side == "target" or column.line_end is not None):
        texts = map(corpus.line, range(len(corpus)))
        lines += changed_remarks(texts, column.tokenizer.normalized, column.tokenizer.path, corpus.path)
    return lines


def _unknown_remarks(corpus: TokenCorpus, column: Column, remedy: str, size: int) -> list[str]:
    """Returns the share of unknown tokens in a text, if it has any, and a warning if they are many."""
    total, tokenizer = min(size, _MOST_COUNTED), column.tokenizer
    unknown = count_ids(corpus.tokens[:total], tokenizer.unknown_id)
    if not unknown:
        return []
    first = "the first " if total < size else ""
    lines = [f"Unknown tokens in {shown(corpus.path)}: {share_of(unknown, total)} of {first}{total:,}"
             + _example(corpus, column)]
    if unknown > _MANY * total:
        misfit = f"the SentencePiece model {shown(tokenizer.path)} does not fit this text: name another one" \
            if isinstance(tokenizer, SentencePieceTokenizer) else \
            f"the vocabulary {shown(tokenizer.vocabulary.path)} does not fit this text: {remedy}"
        lines.append(f"WARNING: {misfit}.")
    return lines


def _reserved_remarks(corpus: TokenCorpus, column: Column, size: int) -> list[str]:
    """Returns a warning for each token that is added to lines, but also occurs in the text itself."""
    total, tokenizer, reserved = min(size, _MOST_COUNTED), column.tokenizer, dict[int, str]()
    if column.line_end is not None:
        reserved = {column.line_end: tokenizer.tokens[column.line_end]}
    elif isinstance(tokenizer, DelimiterTokenizer):
        reserved = dict(enumerate(tokenizer.tokens[:SpecialTextTokens.UNK_ID]))
    ends = int(np.searchsorted(corpus.offsets, total, side="right")) - 1
    counts = {token: count_ids(corpus.tokens[:total], number) - (ends if number == column.line_end else 0)
              for number, token in reserved.items()}
    return [f"WARNING: {token} occurs {format_count(count, 'time')} in {shown(corpus.path)} itself, but it is added to "
            "each line: remove it from the text, or results mean something else."
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


def unknown_in_prompts(corpus: TokenCorpus, column: Column, unknown: str) -> list[str]:
    """Returns a line about the unknown tokens of lines to continue or to score, if there are any.

    Args:
      corpus: the lines.
      column: the column that they are in.
      unknown: the token as which unknown tokens are read.
    """
    count = count_ids(corpus.tokens[:_MOST_COUNTED], column.tokenizer.unknown_id)
    return [f"Unknown tokens, which are read as {unknown}: {count:,}{_example(corpus, column)}"] if count else []


def _example(corpus: TokenCorpus, column: Column) -> str:
    """Returns a clause that quotes the first unknown token of a text that has one."""
    unknown = column.tokenizer.unknown_id
    blocks = ((begin, np.flatnonzero(corpus.tokens[begin:begin + _BLOCK] == unknown))
              for begin in range(0, len(corpus.tokens), _BLOCK))
    position = next(begin + int(positions[0]) for begin, positions in blocks if len(positions))
    line = int(np.searchsorted(corpus.offsets, position, side="right")) - 1
    token = column.tokenizer.first_unknown(column.text(corpus.line(line)))
    return f", such as {token[:40]!r} in line {line + 1:,}" if token else ""
