"""Preparing one's own recordings: what is left out, the parts, and names that work from another folder."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.speech2text.manifests import Utterance
from open_seq2seq.data.speech2text.own_speech import Recording, clean, read_recordings, split
from open_seq2seq.utils.errors import DataError

TONE = 0.3 * np.sin(np.arange(4000) * 0.2)


def recordings(speakers, names=None):
    """Recordings of these speakers, one for each; None for no speakers."""
    return [Recording(Utterance(f"{n}.wav", f"{n}.wav", "text", "t.csv", n + 2), [], speaker)
            for n, speaker in zip(names or range(len(speakers)), speakers, strict=True)]


def test_what_cannot_be_used_is_left_out_with_its_reason(tmp_path):
    for name, audio in {"a": TONE, "b": TONE, "silent": 0 * TONE, "infinite": TONE + np.inf}.items():
        soundfile.write(tmp_path / f"{name}.wav", audio, 16000, subtype="FLOAT")
    content = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(content[:len(content) // 2])
    (tmp_path / "text.wav").write_text("no audio " * 9)
    (tmp_path / "nothing.wav").write_bytes(b"")
    (tmp_path / "link.wav").symlink_to("a.wav")
    rows = [("a.wav", "one", "x"), ("a.wav", "again", "x"), ("./link.wav", "again", "x"), ("b.wav", "?!", "x"),
            ("b.wav", "two", ""), ("b.wav", '"two\nthree"', "x"), ("b.wav", "two", " y "), ("none.wav", "one", "x"),
            ("cut.wav", "one", "x"), ("text.wav", "one", "x"), ("nothing.wav", "one", "x"), ("silent.wav", "one", "x"),
            ("infinite.wav", "one", "x"), ("a\0.wav", "one", "x"), ("..", "one", "x")]
    (tmp_path / "t.csv").write_text("wav_filename,transcript,who\n" + "".join(",".join(row) + "\n" for row in rows))
    header, found = read_recordings(str(tmp_path / "t.csv"), None, "who")
    assert header == ["wav_filename", "transcript", "who"] and len(found) == len(rows)
    kept = clean(found, lambda text: text.replace("?", "").replace("!", ""))
    assert [(row.line, row.speaker, row.seconds) for row in kept.rows] == [(2, "x", 0.25), (9, "y", 0.25)]
    assert {reason: [row.line for row in rows] for reason, rows in kept.dropped.items()} == {
        "repeated": [3, 4], "empty transcript": [5], "no speaker": [6], "transcript with a line break": [7],
        "missing": [10, 16], "truncated": [11], "unreadable": [12, 17], "empty": [13], "silent": [14],
        "not finite": [15]}
    assert [row.line for _, row in kept.all_dropped()] == [3, 4, 5, 6, 7, *range(10, 18)]


@pytest.mark.parametrize(("column", "words"), [
    ("speakr", r"no column named 'speakr' for --speaker_column.* Did you mean 'speaker'\?"),
    ("note", "column note more than once"),
])
def test_a_column_of_speakers_that_cannot_be(tmp_path, column, words):
    (tmp_path / "t.csv").write_text("wav_filename,transcript,speaker,note,note\na.wav,a,x,1,2\n")
    with pytest.raises(DataError, match=words):
        read_recordings(str(tmp_path / "t.csv"), None, column)


@pytest.mark.parametrize("count", [3, 4, 20, 21, 500])
def test_parts_of_recordings_have_their_sizes(count):
    given = recordings([None] * count)
    parts = split(given, 0.05, 0.1)
    sizes = [max(1, round(share * count)) for share in (0.05, 0.1)]
    assert [len(part) for part in parts] == [count - sum(sizes), *sizes]
    assert sorted(row.line for part in parts for row in part) == [row.line for row in given]
    mixed = random.Random(1).sample(given, count)
    again = split(mixed, 0.05, 0.1)
    assert [{row.line for row in part} for part in again] == [{row.line for row in part} for part in parts]
    assert all(part == [row for row in mixed if row in part] for part in again)


def test_recordings_stay_in_their_parts_when_the_table_grows():
    before, after = (split(recordings([None] * count), 0.1, 0.1) for count in (400, 440))
    for one, two in ((1, 2), (2, 1)):
        assert not {row.line for row in before[one]} & {row.line for row in after[two]}
    stayed = [len({row.line for row in a} & {row.line for row in b}) for a, b in zip(before, after, strict=True)]
    assert sum(stayed) > 0.95 * 400


@pytest.mark.parametrize("seed", range(20))
def test_speakers_are_in_one_part_each(seed):
    """Whatever the sizes, every part has speakers, and no large one is taken from train without need."""
    rng = random.Random(seed)
    counts = [1, 1, *(rng.choice([1, 3, 30, 200]) for _ in range(rng.randint(1, 30)))]
    given = recordings([f"speaker {number}" for number, count in enumerate(counts) for _ in range(count)])
    parts = split(given, 0.05, 0.05)
    speakers = [Counter(row.speaker for row in part) for part in parts]
    assert all(parts) and sum(map(len, speakers)) == len(counts) and sum(speakers, Counter()) == Counter(
        row.speaker for row in given)
    assert all(len(part) <= max(1, round(0.05 * len(given))) for part in parts[1:])


def test_few_large_speakers():
    parts = split(recordings(["a"] * 50 + ["b"] * 20 + ["c"] * 30), 0.05, 0.05)
    assert [{row.speaker for row in part} for part in parts] == [{"a"}, {"b"}, {"c"}]


@pytest.mark.parametrize(("speakers", "shares", "words"), [
    ([], (0.1, 0.1), "^0 usable recordings cannot be split"), ([None, None], (0.1, 0.1), "at least 3 recordings"),
    (["a", "b"] * 9, (0.1, 0.1), "^2 usable speakers cannot be split .* at least 3 speakers"),
    ([None] * 10, (0.499, 0.499), "smaller --dev_share and --test_share"),
])
def test_too_few(speakers, shares, words):
    with pytest.raises(DataError, match=words):
        split(recordings(speakers), *shares)
