"""Says how many tokens of a text are not in the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from open_seq2seq.data.lm.params import vocabulary_path
from open_seq2seq.data.lm.tokenizers import LMTokenizer
from open_seq2seq.data.lm.vocabulary import UNKNOWN
from open_seq2seq.data.text2text.corpus import TokenCorpus
from open_seq2seq.utils.data_files import shown

_MANY = 0.2  # above this share, the vocabulary is probably that of another text
_MOST_COUNTED = 10**8  # tokens of a text that are counted before a run; reading more would delay its start
_BLOCK = 1 << 24  # tokens that are compared at once, which limits the memory


def count_unknown(tokens: np.ndarray, tokenizer: LMTokenizer) -> int:
    """Returns how many of the given ids ``[tokens]`` are that of unknown tokens."""
    return sum(int(np.count_nonzero(tokens[begin:begin + _BLOCK] == tokenizer.unknown_id))
               for begin in range(0, len(tokens), _BLOCK))


def share_of(count: int, total: int) -> str:
    """Returns ``count`` and its share of ``total``, such as ``1,234 (5.6 %)``."""
    return f"{count:,} ({100 * count / total:.1f} %)"


def unknown_remarks(corpus: TokenCorpus, size: int, tokenizer: LMTokenizer, params: Mapping[str, Any],
                    text: str) -> list[str]:
    """Returns lines about the unknown tokens of a text: none if there are none, and a warning if there are many.

    Args:
      corpus: the text; of a large one, only the beginning is counted.
      size: number of the text's tokens that are used.
      tokenizer: the tokenizer of the corpus.
      params: parameters of the data layer; see ``tokenizer_params``.
      text: the file or folder of the text.
    """
    total = min(size, _MOST_COUNTED)
    unknown = count_unknown(corpus.tokens[:total], tokenizer)
    if not unknown:
        return []
    first = "the first " if total < size else ""
    lines = [f"Unknown tokens in {shown(text)}: {share_of(unknown, total)} of {first}{total:,}"
             + _example(corpus, tokenizer)]
    if unknown > _MANY * total:
        lines.append(f"WARNING: {_vocabulary(params)}.")
    return lines


def unknown_in_prompts(corpus: TokenCorpus, tokenizer: LMTokenizer) -> list[str]:
    """Returns a line about the unknown tokens of lines to continue or to score, if there are any."""
    unknown = count_unknown(corpus.tokens[:_MOST_COUNTED], tokenizer)
    return [f"Unknown tokens, which are read as {UNKNOWN}: {unknown:,}{_example(corpus, tokenizer)}"] if unknown else []


def _example(corpus: TokenCorpus, tokenizer: LMTokenizer) -> str:
    """Returns a clause that quotes the first unknown token of a text that has one."""
    blocks = ((begin, np.flatnonzero(corpus.tokens[begin:begin + _BLOCK] == tokenizer.unknown_id))
              for begin in range(0, len(corpus.tokens), _BLOCK))
    place = next(begin + int(found[0]) for begin, found in blocks if len(found))
    line = int(np.searchsorted(corpus.offsets, place, side="right")) - 1
    token = tokenizer.first_unknown(corpus.line(line))
    return f", such as {token[:40]!r} in line {line + 1:,}" if token else ""


def _vocabulary(params: Mapping[str, Any]) -> str:
    """Returns the clause that says which vocabulary may be the wrong one, and how to use another."""
    if (params["tokenizer"] or {}).get("type") == "sentencepiece":
        return f"the SentencePiece model {shown(params['tokenizer']['model'])} does not fit this text: name another one"
    where = f"the vocabulary {shown(vocabulary_path(params) or '')} does not fit this text"
    if params["lm_vocab_file"]:
        return f"{where}: if it is the wrong one, correct lm_vocab_file"
    return f"{where}: if it was built from another one, remove it, or name another processed_data_folder"
