"""Vocabulary files."""

from __future__ import annotations

import pytest

from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.data.text2text.vocabulary import Vocabulary, rounded_up
from open_seq2seq.utils.errors import DataError

SPECIAL = "<PAD>\n</S>\n<S>\n<UNK>\n"


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_special_tokens():
    assert [t.value for t in SpecialTextTokens] == [0, 1, 2, 3]
    assert [SpecialTextTokens.to_string(t) for t in (0, 1, SpecialTextTokens.S_ID, SpecialTextTokens.UNK_ID.value)] == [
        "<PAD>", "</S>", "<S>", "<UNK>"]
    with pytest.raises(ValueError):
        SpecialTextTokens.to_string(4)


def test_counts_and_empty_lines_are_ignored(tmp_path):
    vocabulary = Vocabulary.load(write(tmp_path / "v", SPECIAL + "a\t-1.5\n\nb\tx\ty\r\n"))
    assert vocabulary.tokens == ("<PAD>", "</S>", "<S>", "<UNK>", "a", "b")
    assert all(vocabulary.tokens[i] == token for token, i in vocabulary.ids.items())


def test_special_tokens_are_added(tmp_path):
    vocabulary = Vocabulary.load(write(tmp_path / "v", "a\nb\n"), special_tokens_already_in_vocab=False)
    assert vocabulary.tokens == ("<PAD>", "</S>", "<S>", "<UNK>", "a", "b")


@pytest.mark.parametrize("count", range(1, 18))
def test_size_is_padded_to_eight(tmp_path, count):
    path = write(tmp_path / "v", "".join(f"t{i}\n" for i in range(count)))
    vocabulary = Vocabulary.load(path, False, pad_to_eight=True)
    assert len(vocabulary) == rounded_up(count + 4) and len(vocabulary) % 8 == 0
    assert vocabulary.tokens[count + 4:] == tuple(f"<${i}$>" for i in range(len(vocabulary) - count - 4))


@pytest.mark.parametrize(("text", "message"), [
    ("", "is empty"),
    ("\n\n", "is empty"),
    ("a\nb\nc\nd\n", "special_tokens_already_in_vocab to False"),
    ("<PAD>\n</S>\n", "special_tokens_already_in_vocab to False"),
    (SPECIAL + "a\na\n", "'a' more than once"),
    (SPECIAL.encode() + b"a\n\xff\n", ":6: the line is not valid UTF-8"),
])
def test_bad_files_are_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        Vocabulary.load(write(tmp_path / "v", text))


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Vocabulary.load(str(tmp_path / "none"))


@pytest.mark.parametrize(("content", "words"), [
    ("a\rb\rc\r", r"v:1: 'a\\rb\\rc' is not a token"), ("a\nb\0\n", r"v:2: 'b\\x00' is not a token"),
    ("a\0\n\0b\0\n", "v:1: .* is not a token"),  # UTF-16
])
def test_what_is_no_token(tmp_path, content, words):
    (tmp_path / "v").write_bytes(content.encode())
    with pytest.raises(DataError, match=words):
        Vocabulary.load(str(tmp_path / "v"), False)


def test_special_tokens_alone_are_no_vocabulary(tmp_path):
    (tmp_path / "v").write_text("<PAD>\n</S>\n<S>\n<UNK>\n \n\n")
    with pytest.raises(DataError, match="has only special tokens"):
        Vocabulary.load(str(tmp_path / "v"))
