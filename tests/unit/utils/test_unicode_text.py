"""Spellings of a text that are the same."""

from __future__ import annotations

import unicodedata

import pytest

from open_seq2seq.utils.unicode_text import TextIds, continuing_characters, plain, spelled

NFC, NFD = (lambda text, form=form: unicodedata.normalize(form, text) for form in ("NFC", "NFD"))


@pytest.mark.parametrize("known", [NFC("é"), NFD("é"), "don't", "don\u2019t"])
@pytest.mark.parametrize("text", [NFC("é"), NFD("é"), "don't", "don\u2019t", "don\u02bct", "other"])
def test_ids_of_other_spellings(known, text):
    assert TextIds({known: 7, "x": 8}, 3)[text] == (7 if plain(text) == plain(known) else 3)


def test_a_text_that_is_listed_as_it_is_keeps_its_id():
    both = TextIds({NFD("é"): 4, NFC("é"): 5, "\u2019": 6}, 3)  # as a vocabulary of a mixed text has them
    assert [both[text] for text in (NFD("é"), NFC("é"), "\u2019", "'")] == [4, 5, 6, 6]


@pytest.mark.parametrize(("text", "known", "expected"), [
    (NFD("là"), NFC("là"), NFC("là")), (NFC("là"), NFD("là"), NFD("là")), (NFC("ế"), NFD("ế"), NFD("ế")),
    ("l\u2019a", "al'", "l'a"), ("l'a", "al\u2019", "l\u2019a"), (NFD("l\u02bcà"), NFC("là'"), NFC("l'à")),
    (NFD("à"), NFC("à") + NFD("à"), NFD("à")), (NFD("là?"), NFC("là"), NFC("là?")), ("l\u2019a", "la", "l\u2019a")])
def test_a_text_in_the_characters_of_an_alphabet(text, known, expected):
    assert spelled(text, known) == expected


def test_characters_that_continue_a_word():
    marks = {char for char in map(chr, range(0x110000)) if unicodedata.category(char)[0] == "M"}
    ranges = continuing_characters()
    found = {chr(code) for first, last in zip(ranges[::3], ranges[2::3], strict=True)
             for code in range(ord(first), ord(last) + 1)}
    assert found == marks | {"\u200c", "\u200d"}
