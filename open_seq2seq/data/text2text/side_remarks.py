"""What to say about the texts of translation and their vocabularies before a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from open_seq2seq.data.text2text.corpus import TokenCorpus
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer, other_vocabulary
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.data.text_remarks import changed_remarks, reserved_remarks, unknown_remarks


class Side(NamedTuple):
    """A text and its tokenizer; ``name`` is ``source`` or ``target``."""

    corpus: TokenCorpus
    tokenizer: Any
    name: str


def side_remarks(sides: Iterable[Side], params: Mapping[str, Any]) -> list[str]:
    """Returns lines about unknown and reserved tokens, and about targets that a SentencePiece model changes.

    Args:
      sides: the texts.
      params: the parameters of the data layer.
    """
    lines = []
    for corpus, tokenizer, name in sides:
        size = len(corpus.tokens)
        lines += unknown_remarks(corpus, size, tokenizer, other_vocabulary(params, name), corpus.path)
        if isinstance(tokenizer, DelimiterTokenizer):
            reserved = dict(enumerate(tokenizer.tokens[:SpecialTextTokens.UNK_ID]))
            lines += reserved_remarks(corpus, size, reserved, corpus.path)
        if name == "target" and isinstance(tokenizer, SentencePieceTokenizer):
            texts = map(corpus.line, range(len(corpus)))
            lines += changed_remarks(texts, tokenizer.normalized, tokenizer.path, corpus.path)
    return lines
