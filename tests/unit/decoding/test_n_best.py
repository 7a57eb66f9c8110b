"""N-best lists: beam dumps, tables of scores, and sums of scores."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from open_seq2seq.decoding.n_best import (
    Candidate,
    best_choices,
    is_beam_dump,
    read_beam_dump,
    read_n_best,
    rescore,
    scored_candidate,
    write_beam_dump,
    write_n_best,
)
from open_seq2seq.models.text2text.translations import Translation, Translations, TranslationWriter, read_scores
from open_seq2seq.utils.errors import DataError

# As NVIDIA's OpenSeq2Seq writes it; the third list is of a silent recording.
DUMP = """B=>>>>>>>>
-3.5 0.0 0.0 the cat sat
-4.25 0.0 0.0 the cat sad
E=>>>>>>>>
B=>>>>>>>>
-1 0.0 0.0 one
E=>>>>>>>>
B=>>>>>>>>
-0.5 0.0 0.0 
E=>>>>>>>>
"""
LISTS = [[("the cat sat", -3.5), ("the cat sad", -4.25)], [("one", -1.0)], [("", -0.5)]]


def summary(lists: list[list[Candidate]]) -> list[list[tuple[str, float]]]:
    return [[(c.text, c.score) for c in candidates] for candidates in lists]


def test_a_dump_is_read_written_and_read_again(tmp_path: Path):
    path = tmp_path / "beams"
    path.write_text(DUMP)
    found = read_beam_dump(str(path))
    assert is_beam_dump(str(path)) and summary(found) == LISTS
    assert all(c.score == c.acoustic + c.lm for candidates in found for c in candidates)
    write_beam_dump(str(tmp_path / "again"), found)
    assert read_beam_dump(str(tmp_path / "again")) == found
    first, _, _, *words = (tmp_path / "again").read_text().splitlines()[1].split(" ")
    assert float(first) == -3.5 and words == ["the", "cat", "sat"]
    write_n_best(str(tmp_path / "table"), {str(number): candidates for number, candidates in enumerate(found)})
    assert not is_beam_dump(str(tmp_path / "table")) and list(read_n_best(str(tmp_path / "table")).values()) == found


BAD_DUMPS = {
    "no end": ("B=>>>>>>>>\n-1 0.0 0.0 one\n", "ends before the last list is complete"),
    "two beginnings": ("B=>>>>>>>>\n-1 0.0 0.0 one\nB=>>>>>>>>\n", ":3: B=>>>>>>>> is not expected"),
    "two ends": ("B=>>>>>>>>\n-1 0.0 0.0 one\nE=>>>>>>>>\nE=>>>>>>>>\n", ":4: E=>>>>>>>> is not expected"),
    "empty list": ("B=>>>>>>>>\nE=>>>>>>>>\n", "not empty"),
    "outside": ("B=>>>>>>>>\n-1 0.0 0.0 one\nE=>>>>>>>>\n-1 0.0 0.0 one\n", ":4: expected B=>>>>>>>>"),
    "text": ("B=>>>>>>>>\none two three four\n", ":2: expected a score"),
    "too short": ("B=>>>>>>>>\n-1 0.0\n", ":2: expected a score"),
    "nan": ("B=>>>>>>>>\nnan 0.0 0.0 one\n", ":2: expected a score"),
}


@pytest.mark.parametrize("name", BAD_DUMPS)
def test_a_damaged_dump_is_refused_with_its_line(tmp_path: Path, name: str):
    text, expected = BAD_DUMPS[name]
    (tmp_path / "beams").write_text(text)
    with pytest.raises(DataError, match=expected) as error:
        read_beam_dump(str(tmp_path / "beams"))
    assert str(tmp_path / "beams") in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("fields", ["nan\t-1\t0", "-1\tnan\t0", "-1\t-1\tinf", "-1\t-1\tx", "-1\t-1", "-1\t-1\t0\t0"])
def test_a_damaged_table_of_recordings_is_refused(tmp_path: Path, fields: str):
    write_n_best(str(tmp_path / "table"), {"a.wav": [Candidate("one", -np.inf, -np.inf, 0.0)]})
    assert read_n_best(str(tmp_path / "table"))["a.wav"][0].score == -np.inf
    with open(tmp_path / "table", "a") as file:
        file.write(f"a.wav\t1\t{fields}\tone\n")
    with pytest.raises(DataError, match="table, line 3: expected an utterance"):
        read_n_best(str(tmp_path / "table"))


def translations(tmp_path: Path) -> str:
    """Path of a table of scores that inference has written for three lines, one of them empty."""
    results = [Translations([Translation(-1.5, "ein hund"), Translation(-2.0, "der hund")], [3, 3], None),
               Translations([Translation(0.0, "")], [1], None),
               Translations([Translation(-0.25, "zwei"), Translation(-np.inf, "")], [2, 1], None)]
    writer = TranslationWriter(str(tmp_path / "out"), in_lines=False, scores=True, pictures=None,
                               data_layer=SimpleNamespace(num_empty_sources=1))
    with writer:
        for example, result in enumerate(results):
            writer.write(example, result)
    return str(tmp_path / "out.scores.tsv")


def test_the_table_of_scores_of_inference_is_read(tmp_path: Path):
    found = read_scores(translations(tmp_path))
    assert list(found) == [1, 2, 3]
    assert summary(list(found.values())) == [[("ein hund", -1.5), ("der hund", -2.0)], [("", 0.0)],
                                             [("zwei", -0.25), ("", -np.inf)]]


def test_a_damaged_table_of_scores_is_refused(tmp_path: Path):
    header, *rows = Path(translations(tmp_path)).read_text().splitlines()
    for lines, expected in (([*rows], "is not a table of scores"), ([header, rows[0], rows[3]], "lacks lines"),
                            ([header, "1\t1\t-1.5\tein hund"], ":2: expected line"),
                            ([header, rows[0].replace("-1.5", "x")], ":2: expected line")):
        (tmp_path / "table").write_text("\n".join(lines) + "\n")
        with pytest.raises(DataError, match=expected):
            read_scores(str(tmp_path / "table"))


def test_the_best_choices_are_those_of_all_choices():
    rng = np.random.default_rng(0)
    lists = [[scored_candidate(str(score), "") for score in sorted(rng.normal(size=count).tolist(), reverse=True)]
             for count in (3, 1, 4, 2)]
    totals = {ranks: sum(one[rank].score for one, rank in zip(lists, ranks, strict=True))
              for ranks in itertools.product(*map(range, map(len, lists)))}
    expected = sorted(totals, key=lambda ranks: -totals[ranks])
    assert best_choices(lists, 100) == expected and best_choices(lists, 5) == expected[:5]
    assert best_choices(lists, 1) == [(0, 0, 0, 0)]


def test_scores_are_summed_and_sorted():
    lists = {"a": [Candidate("x", -1.0, -1.0, 0.0), Candidate("x y", -1.5, -1.25, -0.25)]}
    log_prob = {"x": -4.0, "x y": -2.0}.__getitem__
    assert [c.text for c in rescore(lists, log_prob, 0.0)["a"]] == ["x", "x y"]
    best, other = rescore(lists, log_prob, 0.5, beta=0.125)["a"]
    assert best == Candidate("x y", -1.5 - 1.0 + 0.25, -1.25, -0.25 - 1.0 + 0.25)
    assert other.score == -1.0 - 2.0 + 0.125
