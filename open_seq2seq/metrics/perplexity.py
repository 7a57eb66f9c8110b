"""Perplexity of a text: per token, per word and as bits per byte.

The last two do not depend on what the tokens are, so they can be compared between tokenizers if the text has no unknown
tokens. An unknown word costs only minus the log probability of ``<unk>``, which is smaller the more words are unknown;
therefore, figures of a text with unknown tokens can only be compared for the same vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class TextPerplexity(NamedTuple):
    """Perplexity of a text.

    Attributes:
      per_token: perplexity per token, line ends included.
      per_word: perplexity per word (words are separated by white space), line ends included; None if unknown.
      bits_per_byte: minus the text's log likelihood in bits, divided by its number of bytes; None if unknown.
    """

    per_token: float
    per_word: float | None
    bits_per_byte: float | None


def text_perplexity(nll: float, tokens: float, words: int | None = None,
                    num_bytes: int | None = None) -> TextPerplexity:
    """Returns the perplexity of a text.

    Args:
      nll: minus the log likelihood of the whole text, in nats.
      tokens: number of tokens.
      words: number of words and line ends; None if unknown.
      num_bytes: size of the text in bytes; None if unknown.
    """
    return TextPerplexity(_exp(nll / max(tokens, 1.0)), None if words is None else _exp(nll / max(words, 1)),
                          None if num_bytes is None else nll / math.log(2.0) / max(num_bytes, 1))


def _exp(nats: float) -> float:
    return math.inf if nats >= 700.0 else math.exp(nats)  # math.exp raises OverflowError above 709
