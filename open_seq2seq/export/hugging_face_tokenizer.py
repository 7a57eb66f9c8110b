"""Tokenizers in the form of Hugging Face's ``tokenizer.json``, with the same ids."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from open_seq2seq.data.lm.tokenizers import FittingTokenizer, VocabularyTokenizer, split_characters, split_words
from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens

_CHARACTERS = {"type": "Split", "pattern": {"Regex": "(?s)."}, "behavior": "Isolated", "invert": False}


def refusal(tokenizer: Any) -> str | None:
    """Returns why ``tokenizers`` cannot split texts as a tokenizer does; None if it can."""
    if isinstance(tokenizer, DelimiterTokenizer):
        return None if tokenizer.at_white_space and not tokenizer.detokenize else (
            "its texts are not divided at white space alone")
    if isinstance(tokenizer, FittingTokenizer):
        return "its tokenizer of raw words looks ahead"
    if isinstance(tokenizer, VocabularyTokenizer) and tokenizer.splits_by not in (split_words, split_characters):
        return "its tokenizer changes the words of WikiText"
    return None


def tokenizer_of(tokenizer: Any, end: int, ends_texts: bool) -> dict[str, Any]:
    """Returns the content of ``tokenizer.json``.

    Special tokens that a text contains literally, such as ``<s>``, become special ids, as always in ``tokenizers``.

    Args:
      tokenizer: a tokenizer that ``refusal`` does not refuse.
      end: the id of the token that ends a text or a line.
      ends_texts: whether this token follows each text; otherwise, it precedes each text.
    """
    tokens, is_pieces = list(tokenizer.tokens), isinstance(tokenizer, SentencePieceTokenizer)
    parts = _pieces(tokenizer) if is_pieces else _words(tokenizer, tokens)
    special = [int(one) for one in SpecialTextTokens] if is_pieces or isinstance(tokenizer, DelimiterTokenizer) else [
        tokenizer.unknown_id, end]
    options = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": number, "content": tokens[number], **options} for number in sorted(special)]
    text, mark = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": tokens[end], "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}
    single = [text, mark] if ends_texts else [mark, text]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **parts,
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": [*single, second],
            "special_tokens": {tokens[end]: {"id": tokens[end], "ids": [end], "tokens": [tokens[end]]}}},
    }


def _words(tokenizer: Any, tokens: Sequence[str]) -> dict[str, Any]:
    """Returns the parts of a tokenizer that looks up words or characters."""
    is_characters = getattr(tokenizer, "splits_by", None) is split_characters
    return {"normalizer": None, "pre_tokenizer": _CHARACTERS if is_characters else {"type": "WhitespaceSplit"},
            "decoder": {"type": "Fuse"} if is_characters else None,
            "model": {"type": "WordLevel", "vocab": {token: number for number, token in enumerate(tokens)},
                      "unk_token": tokens[tokenizer.unknown_id]}}


def _pieces(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    """Returns normaliser, pre-tokenizer, decoder and model of a SentencePiece model."""
    messages: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    proto = messages.ModelProto.FromString(Path(tokenizer.path).read_bytes())
    steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                                   {"type": "Strip", "strip_left": True, "strip_right": True}]
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        steps.insert(0, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    metaspace = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": False}
    scores = [(piece.piece, float(piece.score)) for piece in proto.pieces]
    is_unigram = proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM
    return {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": metaspace,
            "decoder": metaspace, "model": _unigram(scores) if is_unigram else _bpe(scores)}


def _unigram(scores: Sequence[tuple[str, float]]) -> dict[str, Any]:
    return {"type": "Unigram", "unk_id": int(SpecialTextTokens.UNK_ID), "byte_fallback": False,
            "vocab": [list(pair) for pair in scores]}


def _bpe(scores: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Returns a model with a merge for each division of each piece into two pieces, the best piece first."""
    ids = {piece: number for number, (piece, _) in enumerate(scores)}
    ordered = [piece for piece, _ in sorted(scores[len(SpecialTextTokens):], key=lambda pair: -pair[1])]
    merges = [[piece[:cut], piece[cut:]] for piece in ordered
              for cut in sorted(range(1, len(piece)), reverse=True) if piece[:cut] in ids and piece[cut:] in ids]
    return {"type": "BPE", "dropout": None, "unk_token": scores[SpecialTextTokens.UNK_ID][0],
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": False,
            "vocab": ids, "merges": merges}
