from __future__ import annotations

import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.speech2text.alphabet import Transcripts, make_alphabet, text_normalizer
from open_seq2seq.models.speech2text.serving import texts_of
from open_seq2seq.utils.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes) -> str:
        path = tmp_path / "vocab.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)
    return write


def test_characters_in_the_order_of_the_file(write):
    alphabet = make_alphabet(write(" \na\nb\n'\n"))
    assert (alphabet.size, alphabet.start_id, alphabet.end_id) == (4, None, None)
    assert alphabet.encode("b a'") == [2, 0, 1, 3]
    assert alphabet.decode([2, 0, 4, 1, 3, -1]) == "b a'"  # the blank and padding have no text
    texts = texts_of(alphabet, tf.constant([[2, 0, 4, 1, 3], [1, 2, 0, 0, 0]]), tf.constant([5, 2]))
    assert texts.numpy().tolist() == [b"b a'", b"ab"]


@pytest.mark.parametrize("text", ["привет мир", "こんにちは", "नमस्ते", "straße é", "𝔸b"])
def test_any_script(write, text):
    alphabet = make_alphabet(write("\r\n".join(dict.fromkeys(text)) + "\r\n"))
    assert alphabet.decode(np.asarray(alphabet.encode(text))) == text


def test_start_and_end_follow_the_characters(write):
    alphabet = make_alphabet(write("a\nb\n"), autoregressive=True)
    assert (alphabet.size, alphabet.start_id, alphabet.end_id) == (4, 2, 3)
    assert alphabet.decode([2, 0, 1, 3, 0]) == "ab"


@pytest.mark.parametrize(("content", "words"), [
    ("a\nbc\n", "vocab.txt:2"), ("a\nb\na\n", "vocab.txt:3"), ("\n\n", "is empty"), (b"a\n\xff\n", "not valid UTF-8"),
])
def test_files_that_are_no_alphabet(write, content, words):
    with pytest.raises(DataError, match=words):
        make_alphabet(write(content))


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        make_alphabet(str(tmp_path / "none"))


def test_unknown_characters_are_named(write):
    alphabet = make_alphabet(write("a\nb\n"))
    assert alphabet.unknown("aébéc") == "éc"
    with pytest.raises(DataError, match=r"'é' \(U\+00E9\)"):
        alphabet.encode("aé")


def test_pieces(tmp_path):
    from open_seq2seq.data.sentencepiece_models import train_sentencepiece

    (tmp_path / "text").write_text("\n".join(["one two three four five six"] * 20) + "\n")
    path = train_sentencepiece([str(tmp_path / "text")], str(tmp_path / "m"), 20, "unigram")
    alphabet = make_alphabet(path, bpe=True, autoregressive=True)
    assert alphabet.size == 22
    ids = alphabet.encode("two five")
    assert alphabet.decode([*ids, alphabet.end_id, ids[0]]) == "two five"
    assert texts_of(alphabet, tf.constant([ids]), tf.constant([len(ids)])).numpy().tolist() == [b"two five"]
    assert alphabet.unknown("two 5") == "5"
    with pytest.raises(DataError, match="'5'"):
        alphabet.encode("5")


def test_transcripts(write):
    alphabet = make_alphabet(write("a\nb\n"), autoregressive=True)
    found = Transcripts(["ab", "aabb", "", None, "ax", "B"], alphabet)
    assert {row: kind for row, (kind, _) in found.problems.items()} == {
        2: "empty transcript", 3: "no transcript", 4: "characters outside the alphabet",
        5: "characters outside the alphabet"}
    assert "lower_case" in found.problems[5][1]
    assert "lower_case" not in found.problems[4][1]
    ids, lengths = found.batch([1, 0])
    assert ids.tolist() == [[0, 0, 1, 1, 3], [0, 1, 3, 0, 0]]
    assert lengths.tolist() == [5, 3]
    assert found.ctc_steps[:2].tolist() == [2, 6]


def test_normalisation_only_by_parameters():
    none = {"unicode_form": None, "lower_case": False, "remove_characters": ""}
    assert text_normalizer(none)(" Ä!") == " Ä!"
    assert text_normalizer({**none, "lower_case": True, "remove_characters": "!."})("Ä!.") == "ä"
    assert text_normalizer({**none, "unicode_form": "NFD"})("é") == "e\u0301"


@pytest.mark.parametrize(("characters", "text", "expected"), [
    ("là", unicodedata.normalize("NFD", "là"), "là"), (unicodedata.normalize("NFD", "là"), "là", None),
    ("l'a", "l\u2019a", "l'a"), ("l\u2019a", "l'a", "l\u2019a")])
def test_transcripts_are_spelled_as_the_alphabet(write, characters, text, expected):
    alphabet = make_alphabet(write("\n".join(dict.fromkeys(characters))))
    expected = expected or unicodedata.normalize("NFD", text)
    assert alphabet.unknown(text) == "" and alphabet.decode(alphabet.encode(text)) == expected
    assert alphabet.spelled(text) == expected


def test_an_alphabet_that_spells_a_letter_in_two_ways_is_named(write):
    found = make_alphabet(write("e\n\u00e9\n\u0301\nx\n")).remarks([], "list.csv")
    assert len(found) == 1 and "spells 'é' (U+00E9) in two ways" in found[0]
    assert make_alphabet(write("e\n\u00e9\nx\n")).remarks([], "list.csv") == []
