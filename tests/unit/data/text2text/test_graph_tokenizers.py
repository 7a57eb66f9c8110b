"""Tokenizers as operations: the same ids and texts as in Python, for odd texts too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.lm.tokenizers import (
    FittingTokenizer,
    LMVocabulary,
    VocabularyTokenizer,
    split_characters,
    split_normalized_words,
    split_words,
)
from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer, whole_texts, without_special
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer
from open_seq2seq.data.text2text.vocabulary import Vocabulary
from open_seq2seq.utils.errors import NoGraphForm

SPECIAL = ["<PAD>", "</S>", "<S>", "<UNK>"]
TOKENS = ["a", "b", "é", "n't", "do", "-", "▁x", "y", "don't", "名"]
LINES = ["a b", "", "   ", "a\u3000b\u00a0é\x85b\ta", "e\u0301 E\u0301 c", "don\u2019t don't do n 't", "a@-@b a-b",
         "|a||b| é|", "</S> <S> a", "a\x00b \ufeffa", "▁x y", "名 a\r", "b" * 3000, "a " * 3000, "\U0001f600 a"]


def lm(split, separator):
    tokens = ["<unk>", "<eos>", *TOKENS, *(" '" if split is split_characters else "")]
    return VocabularyTokenizer(LMVocabulary(tokens, [1] * len(tokens)), split, separator)


TOKENIZERS = {
    "white space": DelimiterTokenizer(Vocabulary([*SPECIAL, *TOKENS])),
    "delimiter": DelimiterTokenizer(Vocabulary([*SPECIAL, *TOKENS]), "|"),
    "pieces": DelimiterTokenizer(Vocabulary([*SPECIAL, *TOKENS]), " ", detokenize=True),
    "spaces in tokens": DelimiterTokenizer(Vocabulary([*SPECIAL, *TOKENS, "a\u3000b"])),
    "words": lm(split_words, " "), "normalized words": lm(split_normalized_words, " "),
    "characters": lm(split_characters, ""),
}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]


def test_ids_are_equal(tokenizer):
    lines = [line for line in LINES if tokenizer is not TOKENIZERS["characters"] or "\u0301" not in line]
    ids = graph_tokenizer(tokenizer).ids_of(whole_texts(tf.constant(lines)))
    for line, row in zip(lines, ids, strict=True):
        np.testing.assert_array_equal(row, tokenizer.encode([line])[0], repr(line[:20]))


def test_texts_are_equal(tokenizer):
    ids = np.random.default_rng(0).integers(-1, tokenizer.vocab_size + 2, (50, 9)).astype(np.int32)
    ragged = without_special(ids) if isinstance(tokenizer, DelimiterTokenizer) else tf.RaggedTensor.from_tensor(ids)
    texts = graph_tokenizer(tokenizer).texts_of(ragged).numpy()
    assert [text.decode() for text in texts] == [tokenizer.decode(row) for row in ids]


def test_bytes_that_are_no_text_are_replaced():
    assert whole_texts(tf.constant([b"a\xff b\n"])).numpy().tolist() == ["a\ufffd b ".encode()]


def test_what_looks_ahead_has_no_graph_form():
    vocabulary = LMVocabulary(["<unk>", "<eos>", "a"], [1] * 3)
    with pytest.raises(NoGraphForm, match="looks ahead"):
        graph_tokenizer(FittingTokenizer(vocabulary, split_words, " "))
    with pytest.raises(NoGraphForm, match="dict is not a tokenizer"):
        graph_tokenizer({})
