"""Lines to ids and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.data.sentencepiece_models import load_sentencepiece
from open_seq2seq.data.text2text.tokenizers import (
    DelimiterTokenizer,
    SentencePieceTokenizer,
    make_tokenizers,
    visible_ids,
)
from open_seq2seq.data.text2text.vocabulary import Vocabulary
from open_seq2seq.utils.errors import ConfigError, DataError

VOCABULARY = Vocabulary(["<PAD>", "</S>", "<S>", "<UNK>", "a", "b", "c"])


def params(**changed):
    return {"tokenizer": None, "src_vocab_file": None, "tgt_vocab_file": None, "delimiter": " ", "detokenize": False,
            "special_tokens_already_in_vocab": True, "pad_vocab_to_eight": False, **changed}


@pytest.mark.parametrize("delimiter", [" ", "|", "--"])
def test_delimiter_round_trip(delimiter):
    tokenizer = DelimiterTokenizer(VOCABULARY, delimiter)
    lines = [delimiter.join(line) for line in ("abc", "", "ccba", "a")]
    ids, counts = tokenizer.encode(lines)
    assert counts.tolist() == [3, 0, 4, 1]
    parts = np.split(ids, np.cumsum(counts)[:-1])
    assert [tokenizer.decode(part) for part in parts] == lines


def test_unknown_tokens_and_blanks():
    tokenizer = DelimiterTokenizer(VOCABULARY)
    assert tokenizer.encode(["  a   zzz b \t"])[0].tolist() == [4, 3, 5]
    assert tokenizer.decode([4, 3, 99]) == "a <UNK> <UNK>"


def test_decoding_ends_at_eos_and_leaves_special_tokens_out():
    assert visible_ids([2, 0, 5, 6, 1, 7, 1]) == [5, 6]
    assert visible_ids(np.array([[4, 5]])) == [4, 5]
    assert DelimiterTokenizer(VOCABULARY).decode(np.array([2, 4, 5, 1, 4])) == "a b"


def test_pieces_are_joined_on_request():
    pieces = Vocabulary([*VOCABULARY.tokens[:4], "▁ein", "▁Hau", "s"])
    tokenizer = DelimiterTokenizer(pieces, detokenize=True)
    assert tokenizer.decode([4, 5, 6, 1]) == "ein Haus"
    assert tokenizer.to_text("▁ein ▁Hau s") == "ein Haus"
    assert DelimiterTokenizer(pieces).to_text("▁ein ▁Hau s") == "▁ein ▁Hau s"


def test_sentencepiece_round_trip(model_path, sentences):
    tokenizer = SentencePieceTokenizer(model_path)
    ids, counts = tokenizer.encode(sentences, threads=2)
    assert len(counts) == len(sentences) and ids.min() >= 3 and ids.max() < tokenizer.vocab_size
    parts = np.split(ids, np.cumsum(counts)[:-1])
    assert [tokenizer.decode(part) for part in parts] == sentences


def test_sentencepiece_vocabulary_padded_to_eight(model_path):
    tokenizer = SentencePieceTokenizer(model_path, pad_vocab_to_eight=True)
    assert (SentencePieceTokenizer(model_path).vocab_size, tokenizer.vocab_size) == (44, 48)
    assert isinstance(tokenizer.decode([5, 47, 10**6]), str)


def test_sentencepiece_with_other_ids_is_refused(sentences, tmp_path):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_prefix=str(tmp_path / "d"),
                                             vocab_size=40, minloglevel=2)
    with pytest.raises(DataError, match="pad -1, eos 2, bos 1, unk 0.*tokenizer_wrapper"):
        SentencePieceTokenizer(str(tmp_path / "d.model"))


def test_not_a_sentencepiece_model(tmp_path):
    (tmp_path / "x.vocab").write_text("<pad>\t0\n")
    with pytest.raises(DataError, match="name the .model file"):
        SentencePieceTokenizer(str(tmp_path / "x.vocab"))
    with pytest.raises(DataError, match="does not exist"):
        SentencePieceTokenizer(str(tmp_path / "none.model"))


def test_one_model_is_loaded_once(model_path):
    source, target = make_tokenizers(params(tokenizer={"type": "sentencepiece", "model": model_path}))
    assert source is target
    source, target = make_tokenizers(params(tokenizer={
        "type": "sentencepiece", "source_model": model_path, "target_model": model_path}))
    assert source is target


def test_fingerprints_follow_the_content(tmp_path, model_path):
    other = Vocabulary([*VOCABULARY.tokens[:-1], "d"])
    prints = {DelimiterTokenizer(VOCABULARY).fingerprint, DelimiterTokenizer(other).fingerprint,
              DelimiterTokenizer(VOCABULARY, "|").fingerprint, SentencePieceTokenizer(model_path).fingerprint}
    assert len(prints) == 4


@pytest.mark.parametrize(("changed", "message"), [
    ({"tokenizer": {"type": "bpe"}}, "'delimiter' or 'sentencepiece'"),
    ({"tokenizer": {"model": "x"}}, "'delimiter' or 'sentencepiece'"),
    ({"tokenizer": {"type": "sentencepiece", "modell": "x"}}, "Did you mean 'model'"),
    ({"tokenizer": {"type": "sentencepiece"}}, "names no SentencePiece model"),
    ({"tokenizer": {"type": "sentencepiece", "source_model": "x"}}, "names no SentencePiece model"),
    ({}, "src_vocab_file' is missing"),
    ({"src_vocab_file": "x"}, "tgt_vocab_file' is missing"),
])
def test_bad_settings_are_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        make_tokenizers(params(**changed))


def test_an_empty_delimiter_is_refused():
    with pytest.raises(ConfigError, match="delimiter' is empty"):
        DelimiterTokenizer(VOCABULARY, "")


@pytest.mark.parametrize("kind", ["empty", "cut", "text", "zeros", "of another kind"])
def test_damaged_sentencepiece_models(tmp_path, model_path, kind):
    whole = Path(model_path).read_bytes()
    content = {"empty": b"", "cut": whole[:len(whole) // 2], "text": b"a\nb\n" * 100, "zeros": bytes(len(whole)),
               "of another kind": b"\x93NUMPY" + whole}[kind]
    (tmp_path / "m.model").write_bytes(content)
    with pytest.raises(DataError, match=r"m\.model is not a valid SentencePiece model"):
        load_sentencepiece(str(tmp_path / "m.model"))


def test_tokens_as_text(model_path, sentences):
    pieces = SentencePieceTokenizer(model_path)
    line = sentences[0]
    ids, _ = pieces.encode([line])
    assert pieces.tokens_of(ids) == [pieces.tokens[i] for i in ids] == pieces.split(line)
    assert pieces.join(pieces.split(line)) == line
    assert pieces.join(pieces.split(f"{line} ☃")) == f"{line} ☃"  # an unknown piece stays as it is
    words = DelimiterTokenizer(VOCABULARY)
    assert words.split(" a  zzz b") == ["a", "zzz", "b"] and words.tokens_of([2, 4, 9, 1, 5]) == ["a", "<UNK>"]
    assert words.join(["a", "zzz"]) == "a zzz"
