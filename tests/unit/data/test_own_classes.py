"""Labelled examples of one's own: folders of classes, repeats, and parts with the same share of each class."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from open_seq2seq.data.own_classes import MOST_HELD_OUT, class_files, class_names, keep_distinct, split
from open_seq2seq.data.own_tables import Kept
from open_seq2seq.utils.errors import DataError


@dataclass(frozen=True)
class Row:
    line: int
    label: str
    key: str = ""
    part: str = ""


def rows(**sizes):
    return [Row(line, label) for line, label in enumerate(
        (label for label, size in sizes.items() for _ in range(size)), 1)]


def folders(root, *files):
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    return str(root)


def counts(parts):
    return {part: dict(Counter(row.label for row in rows)) for part, rows in parts.items()}


def test_parts_have_the_same_share_of_each_class():
    examples = rows(a=200, b=50, c=3)
    parts = split(examples, 0.1, 0.2, 0)
    assert counts(parts) == {"train": {"a": 140, "b": 35, "c": 1}, "dev": {"a": 20, "b": 5, "c": 1},
                             "test": {"a": 40, "b": 10, "c": 1}}
    assert sorted(row.line for part in parts.values() for row in part) == list(range(1, 254))
    assert parts["train"] == sorted(parts["train"], key=lambda row: row.line)
    assert split(examples, 0.1, 0.2, 0) == parts != split(examples, 0.1, 0.2, 1)


def test_of_many_examples_about_a_thousand_are_held_out():
    parts = split(rows(a=30_000, b=10_000), 0.1, 0.1, 0)
    assert counts(parts)["dev"] == {"a": 750, "b": 250} and len(parts["test"]) == MOST_HELD_OUT


def test_given_parts_stay_and_missing_ones_are_taken_from_train():
    examples = [*rows(a=20, b=20), *(Row(line, label, part="test") for line, label in ((50, "a"), (51, "b")))]
    parts = split(examples, 0.1, 0.4, 0)
    assert [row.line for row in parts["test"]] == [50, 51]
    assert counts(parts)["dev"] == {"a": 2, "b": 2} and counts(parts)["train"] == {"a": 18, "b": 18}


@pytest.mark.parametrize(("examples", "words"), [
    (rows(a=10), "Only 1 of the classes have at least 3 usable examples"), ([], "Only 0 of the classes"),
    ([*rows(a=5), *(Row(line, "b", part="test") for line in range(6, 9))], "The class b has no example in train")])
def test_classes_that_cannot_be_split(examples, words):
    with pytest.raises(DataError, match=words):
        split(examples, 0.1, 0.1, 0)


def test_repeats_and_small_classes_are_left_out():
    examples = [Row(n, label, f"{label}{n}") for n, label in enumerate("aaabbb")] + [
        Row(6, "a", "a0"), Row(7, "b", "a1"), Row(8, "c", "c8"), Row(9, "c", "c9"), Row(10, "c", "c9")]
    kept = Kept(list(examples))
    keep_distinct(kept)
    assert {reason: [row.line for row in some] for reason, some in kept.dropped.items()} == {
        "repeated": [6, 10], "repeated with another label": [7], "of a class with fewer than 3 examples": [8, 9]}
    assert kept.rows == examples[:6]


def test_what_is_in_train_and_in_test_stays_in_test():
    examples = [Row(1, "a", "x", "train"), Row(2, "a", "x", "dev"), Row(3, "a", "x", "test"), Row(4, "a", "y"),
                Row(5, "a", "z")]
    kept = Kept(examples)
    keep_distinct(kept)
    assert [row.line for row in kept.rows] == [3, 4, 5]


def test_folders_of_classes_are_found(tmp_path):
    folders(tmp_path, "top/.hidden/1.txt", "top/data/cat/1.txt", "top/data/cat/sub/2.txt", "top/data/dog/3.txt",
            "top/data/dog/.DS_Store", "top/readme.txt", "__MACOSX/top/data/cat/._1.txt")
    found = class_files(str(tmp_path))
    assert [(file.path.removeprefix(f"{tmp_path}/top/data/"), file.label, file.part) for file in found] == [
        ("cat/1.txt", "cat", ""), ("cat/sub/2.txt", "cat", ""), ("dog/3.txt", "dog", "")]


def test_folders_that_are_split_already(tmp_path):
    folders(tmp_path, "Train/a/1", "Train/b/2", "valid/a/3", "test/b/4")
    assert [(file.label, file.part) for file in class_files(str(tmp_path))] == [
        ("a", "train"), ("b", "train"), ("b", "test"), ("a", "dev")]


@pytest.mark.parametrize("files", [["one.txt"], ["a/1.txt"], ["train/a/1", "test/a/2"]])
def test_fewer_than_two_folders_are_refused(tmp_path, files):
    with pytest.raises(DataError, match="a folder of files for each class, at least two"):
        class_files(folders(tmp_path, *files))


@pytest.mark.parametrize("files", [["data/a/1", "data/b/2", "other/3"], ["data/a/1", "data/b/2", "new/a/3", "new/b/4"]])
def test_a_folder_above_those_of_the_classes_is_refused(tmp_path, files):
    with pytest.raises(DataError, match=r"data contains folders \(a, b\) but no files: .* give --folder=.*data; "):
        class_files(folders(tmp_path, *files))


def test_classes_are_in_the_order_of_numbers_or_names():
    assert class_names(["10", "9", "-1", "9"]) == ["-1", "9", "10"]
    assert class_names(["b", "10", "a"]) == ["10", "a", "b"]
