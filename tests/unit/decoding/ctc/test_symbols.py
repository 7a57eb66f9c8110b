"""Texts of ids, beside SentencePiece's own; and the lexicon in bytes."""

from __future__ import annotations

import io

import numpy as np
import pytest
import sentencepiece

from open_seq2seq.data.speech2text.alphabet import make_alphabet
from open_seq2seq.decoding.ctc import Symbols
from open_seq2seq.decoding.ctc.scorers import Lexicon


@pytest.fixture(scope="module")
def alphabet(tmp_path_factory):
    """Pieces with all kinds: unknown, control, user-defined, bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["one two three four five six hello"] * 20), model_writer=model, vocab_size=290,
        byte_fallback=True, hard_vocab_limit=False, control_symbols=["<ctl>"], user_defined_symbols=["<usr>"],
        minloglevel=2)
    path = tmp_path_factory.mktemp("pieces") / "bytes.model"
    path.write_bytes(model.getvalue())
    return make_alphabet(str(path), bpe=True)


def squeezed(text):
    return " ".join(part for part in text.split(" ") if part)


def test_any_pieces_have_the_text_that_sentencepiece_gives(alphabet):
    symbols, rng = Symbols(alphabet.labels), np.random.default_rng(0)
    byte_ids = [i for i, label in enumerate(alphabet.labels) if label.startswith("<0x")]
    silent = [i for i, label in enumerate(alphabet.labels) if not label]
    plain = [i for i in range(alphabet.size) if i not in byte_ids and i not in silent]
    assert len(byte_ids) == 256 and len(silent) == 3
    for _ in range(300):
        # Silent pieces between the bytes of one character are left aside: SentencePiece takes it apart there.
        ids = [*rng.choice(silent, 2), *rng.choice(byte_ids + 8 * plain, 12), rng.choice(plain), *rng.choice(silent, 1)]
        want = squeezed(alphabet.decode(ids))
        assert symbols.text(ids) == want
        assert " ".join(word for word, _, _ in symbols.words(ids)) == want


@pytest.mark.parametrize("text", ["hello \u00e9", "\u4e00one \U0001f600 two"])
def test_characters_without_a_piece_are_spelled_by_their_bytes(alphabet, text):
    ids = alphabet.encode(text)
    symbols = Symbols(alphabet.labels)
    assert symbols.text(ids) == alphabet.decode(ids) == text
    words = symbols.words(ids)
    assert [word for word, _, _ in words] == text.split(" ") and words[-1][2] == len(ids)


def test_words_of_a_language_model_may_be_spelled_by_bytes(alphabet):
    symbols = Symbols(alphabet.labels)
    words = ["one", "caf\u00e9", "\u4e00"]
    lexicon = Lexicon(words, symbols)
    assert lexicon.left_out == []
    for number, word in enumerate(words):
        node = 0
        for symbol in alphabet.encode(word):
            node = lexicon.next_of_one(node)[symbol]
        assert lexicon.word_of_one(node) == number
