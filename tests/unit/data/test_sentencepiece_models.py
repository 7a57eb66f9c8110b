"""SentencePiece models keep the text, except for composed letters and white space."""

from __future__ import annotations

import unicodedata

import pytest

from open_seq2seq.data.sentencepiece_models import load_sentencepiece, train_pieces, train_sentencepiece
from open_seq2seq.utils.errors import DataError

LINE = "10² ½… ﬁn ™ Ａ カ ｶ ① é ế क़ 한 xyz z\u200cw"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "text").write_text(f"{LINE}\n" * 50, encoding="utf-8")
    return load_sentencepiece(train_sentencepiece([str(folder / "text")], str(folder / "m"), 28, "unigram"))


@pytest.mark.parametrize(("line", "expected"), [
    (LINE, unicodedata.normalize("NFC", LINE)),
    (unicodedata.normalize("NFD", LINE), unicodedata.normalize("NFC", LINE)),
    ("e\u0302\u0301 \u00ea\u0301", "ế ế"),  # from all parts, and from a letter that is partly composed
    ("x\u00a0y\u3000z\ty  x\u2009z ", "x y z y x z"),
])
def test_a_trained_model_composes_letters_and_changes_nothing_else(model, line, expected):
    assert model.decode(model.encode(line)) == expected


def test_rare_characters_are_among_the_pieces(tmp_path):
    """SentencePiece leaves out the rarest characters of a text by default; here, one of 20,000."""
    lines = ["abcdefghij" * 4] * 500 + ["2"]
    train_pieces(lines, "the text", str(tmp_path / "m"), 60, model_type="bpe", hard_vocab_limit=False)
    model = load_sentencepiece(str(tmp_path / "m.model"))
    assert model.decode(model.encode("2")) == "2"


@pytest.mark.parametrize("text", ["abc de-f ghi " * 400 + "ж", "abcdefghi" * 600 + "ж"])
def test_long_lines_are_read(tmp_path, text):
    """SentencePiece ignores lines of more than 4,192 bytes by default."""
    train_pieces([text] * 20, "the text", str(tmp_path / "m"), 30, model_type="unigram", hard_vocab_limit=False)
    model = load_sentencepiece(str(tmp_path / "m.model"))
    assert model.decode(model.encode("abc ж")) == "abc ж"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_text_is_named(tmp_path, text):
    (tmp_path / "text").write_text(text)
    with pytest.raises(DataError, match="^SentencePiece cannot make 30 pieces from .*/text: there is no text in it.$"):
        train_sentencepiece([str(tmp_path / "text")], str(tmp_path / "m"), 30)
