"""Preparing one's own pairs: what is left out, and parts without a common sentence."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from open_seq2seq.data.text2text.own_text import Pair, clean, read_table, split, swapped_pairs
from open_seq2seq.utils.errors import DataError

SPANISH = "el perro grande corre por la calle y una niña pequeña mira los árboles verdes del jardín".split()
ENGLISH = "the big dog runs along the street and a little girl looks at green trees in the garden".split()


def pairs(count, seed=0):
    rng = random.Random(seed)
    rows = [(" ".join(rng.choices(SPANISH, k=length)), " ".join(rng.choices(ENGLISH, k=length)))
            for length in (rng.randint(5, 12) for _ in range(count))]
    return [Pair(number, *row) for number, row in enumerate(rows, 1)]


def test_what_would_harm_is_left_out_with_its_reason():
    good = pairs(50)
    bad = {"empty on one side": Pair(101, "  ", "a dog"), "longer than 20 words": Pair(102, "la " * 21, "the " * 21),
           "one side more than 4 times as long": Pair(103, "sí", "the dog runs along the street and a little girl"),
           "not translated": Pair(104, "the big dog runs", "the big  dog runs"),
           "repeated": Pair(105, good[0].source + " ", good[0].target),
           "languages in the wrong order": Pair(106, good[1].target, good[1].source)}
    kept = clean([*good, *bad.values()], 20, 4.0)
    assert {reason: [pair.line for pair in found] for reason, found in kept.dropped.items()} == {
        reason: [pair.line] for reason, pair in bad.items()}
    assert kept.rows == good


def test_only_the_swapped_pair_of_a_line_is_left_out():
    """A translation memory without line breaks has all its pairs in one line."""
    good = [Pair(1, pair.source, pair.target) for pair in pairs(50)]
    swapped = Pair(1, *(getattr(pairs(60)[-1], side) for side in ("target", "source")))
    kept = clean([*good, swapped], 20, 4.0)
    assert kept.rows == good and kept.dropped == {"languages in the wrong order": [swapped]}


def test_white_space_and_unicode_are_normalised():
    (pair,) = clean([Pair(1, " nin\u0303a\u00a0 x ", "girl x")], 20, 9.0).rows
    assert (pair.source, pair.target) == ("niña x", "girl x")


def test_swapped_pairs_are_found_and_no_others():
    rows = pairs(300)
    wrong = {7, 100, 299}
    mixed = [Pair(p.line, p.target, p.source) if p.line in wrong else p for p in rows]
    assert {pair.line for pair in swapped_pairs(mixed)} == wrong
    assert swapped_pairs(rows) == []
    same = [Pair(p.line, p.source, q.source) for p, q in zip(rows, pairs(300, 1), strict=True)]  # one language
    assert swapped_pairs(same) == []


def test_the_search_for_swapped_pairs_needs_little_memory():
    rows = pairs(1000)
    tracemalloc.start()
    swapped_pairs(rows)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.5e6  # bytes; the trigrams of all pairs need 5 million


@pytest.mark.parametrize("seed", range(5))
def test_no_sentence_is_in_two_parts(seed):
    rng = random.Random(seed)
    rows = [Pair(number, f"uno {rng.randrange(150)}", f"one {rng.randrange(300)}.") for number in range(200)]
    rows.append(Pair(200, "UNO, 3", "one 1"))  # differs only in case and punctuation
    try:
        parts = split(rows, (10, 15), seed)
    except DataError as error:
        assert "groups without a common sentence" in str(error)
        return
    assert sorted(pair.line for part in parts for pair in part) == list(range(201))
    assert len(parts[1]) >= 10 and len(parts[2]) >= 15
    for side in ("source", "target"):
        sets = [{getattr(pair, side).lower().strip(".").replace(",", "") for pair in part} for part in parts]
        assert not (sets[0] & sets[1] or sets[0] & sets[2] or sets[1] & sets[2])


def test_a_split_depends_only_on_its_seed():
    rows = pairs(100)
    assert split(rows, (5, 5), 1) == split(rows, (5, 5), 1) != split(rows, (5, 5), 2)
    with pytest.raises(DataError, match="too few to hold out 60 and 60"):
        split(rows, (60, 60))


def test_columns_of_a_table(tmp_path, capsys):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{n}\tone {n}\tuno {n}\n" for n in range(40)) + "no tab\n", encoding="utf-8")
    rows, _ = read_table(str(table), ("es", "en"), (3, 2))
    assert rows[0] == Pair(1, "uno 0", "one 0") and rows[40] == Pair(41, "", "")
    assert "no letters" not in capsys.readouterr().out
    with pytest.raises(DataError, match=r"41 of the 41 lines .*line 1 has 3"):
        read_table(str(table), ("es", "en"), (3, 4))
    assert len(read_table(str(table), ("es", "en"))[0]) == 41
    assert "Column 1 of" in (out := capsys.readouterr().out) and "has no letters in 40 of 41 lines" in out


@pytest.mark.parametrize(("name", "text", "columns", "used", "first"), [
    ("a.csv", 'id,en,es\n1,"Yes, one",uno\n', None, ["es", "en"], Pair(2, "uno", "Yes, one")),
    ("a.csv", "English,Spanish\none,uno\n", None, ["Spanish", "English"], Pair(2, "uno", "one")),
    ("a.csv", "English,Spanish\none,uno\n", (2, 1), [2, 1], Pair(2, "uno", "one")),
    ("a.tsv", "source\ttarget\nuno\tone\n", None, [1, 2], Pair(2, "uno", "one")),
    ("a.tsv", "No\tEn\nuno\tone\n", None, [1, 2], Pair(1, "No", "En")),
    ("a.tsv", "the end\tel fin\nuno\tone\n", None, [1, 2], Pair(1, "the end", "el fin")),
    ("a.jsonl", '{"translation": {"en": "one", "es": "uno"}}\n', None, ["es", "en"], Pair(1, "uno", "one")),
    ("a.jsonl", '{"question": "one", "answer": "uno"}\n', ("answer", "question"), ["answer", "question"],
     Pair(1, "uno", "one")),
])
def test_columns_by_their_names(tmp_path, name, text, columns, used, first):
    (tmp_path / name).write_text(text, encoding="utf-8")
    rows, columns = read_table(str(tmp_path / name), ("es", "en"), columns)
    assert columns == used and rows[0] == first
    if "question" in text:
        with pytest.raises(DataError, match="keys question, answer: name those .* --columns"):
            read_table(str(tmp_path / name), ("es", "en"))


def test_lengths_of_scripts_that_need_fewer_characters():
    """A Chinese sentence has a third of the characters of an English one, and no spaces."""
    good = [Pair(n, "The man in the red car is waiting for the bus to the city. " * (1 + n % 3) + str(n),
                 "红色汽车里的男人在等去城里的车。" * (1 + n % 3) + str(n)) for n in range(50)]
    bad = {"one side more than 4 times as long": [Pair(60, good[0].source, "车。"), Pair(61, "A bus.", good[2].target)],
           "longer than 100 words": [Pair(62, "the " * 90, "车" * 201)],
           "not translated": [Pair(63, "人人生而自由在尊严", "人人生而自由在尊严")]}
    for exchanged in (False, True):
        rows = [Pair(p.line, p.target, p.source) if exchanged else p for p in [*good, *sum(bad.values(), [])]]
        kept = clean(rows, 100, 4.0)
        assert {reason: [p.line for p in pairs] for reason, pairs in kept.dropped.items()} == {
            reason: [p.line for p in pairs] for reason, pairs in bad.items()}
        assert len(kept.rows) == len(good)
