"""Sentences of all lengths, the pace of recordings, and failures by kind."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from benchmarks.stop_test import random_sentences, seconds_per_symbol, table_of
from open_seq2seq.data.text2speech.clips import Clip
from open_seq2seq.models.text2speech.evaluation import stop_failures
from open_seq2seq.utils.errors import UserError


def test_failures_are_counted_by_kind_and_length():
    sentences = random_sentences(["a b c", "d e."], 120, 3)
    sizes = [len(sentence.split()) for sentence in sentences]
    assert sorted(set(sizes)) == list(range(1, 61)) and {word for one in sentences for word in one.split()} == set(
        "abcd") | {"e."}
    ratios, endings = np.ones(120), np.array(["stop token"] * 120, object)
    ratios[:2], endings[0], endings[59] = (2.0, 0.5), "maximum length", "repeated frames"
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in table_of(sentences, stop_failures(ratios, endings)).splitlines()]
    assert rows[0] == ["words", "sentences", "stopped too early", "stopped too late", "not stopped",
                       "ended by guards", "any"]
    assert rows[2] == ["1 to 10", "20", "1", "1", "1", "0", "2"]
    assert rows[-2:] == [["51 to 60", "20", "0", "0", "0", "1", "1"], ["1 to 60", "120", "1", "1", "1", "1", "3"]]


def test_the_pace_is_that_of_the_recordings(tmp_path):
    clips = []
    for number, text in enumerate(("ab", "abcdef")):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.zeros(1000 + 500 * len(text)), 1000)
        clips.append(Clip(str(number), str(path), text, "list", number + 1))
    missing = Clip("x", "none.wav", "a", "list", 9)
    np.testing.assert_allclose(seconds_per_symbol([*clips, missing], list), 6.0 / 8)
    with pytest.raises(UserError, match="a readable recording"):
        seconds_per_symbol([missing], list)
