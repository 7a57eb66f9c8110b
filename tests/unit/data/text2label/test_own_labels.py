"""Labelled texts of one's own: the columns that are found, and what is left out."""

from __future__ import annotations

import pytest

from open_seq2seq.data.own_classes import read_class_files
from open_seq2seq.data.own_tables import read_own_table
from open_seq2seq.data.text2label.own_labels import clean, columns_of, of_files, of_table
from open_seq2seq.utils.errors import DataError


def table(tmp_path, content, name="table.csv"):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return read_own_table(str(tmp_path / name))


@pytest.mark.parametrize(("content", "given", "columns"), [
    ("id,Review,stars\n1,good,5\n2,bad,1\n", (None, None), ["Review", "stars"]),
    ("id,Review,stars\n1,good,5\n2,bad,1\n", ("id", None), ["id", "stars"]),
    ("label,text\na,b\n", (None, None), ["text", "label"]),
    ("pos,good\npos,fine\nneg,bad\n", (None, None), [2, 1]), ("good,pos\nfine,pos\nbad,neg\n", (None, None), [1, 2]),
    ("a,b,c\n1,2,3\n", (3, 1), [3, 1]), ("text,b\n1,2\n", (None, "b"), ["text", "b"]),
])
def test_columns_are_found(tmp_path, content, given, columns):
    assert columns_of(table(tmp_path, content), *given) == columns


@pytest.mark.parametrize(("content", "given"), [
    ("a,b,c\n1,2,3\n", (None, None)), ("text,b\n1,2\n", (None, None)), ("a,b\n1,2\n", ("a", None))])
def test_columns_that_cannot_be_found(tmp_path, content, given):
    with pytest.raises(DataError, match="table.csv:1: .* give both with --text_column and --label_column"):
        columns_of(table(tmp_path, content), *given)


def test_what_cannot_be_used_is_left_out_with_its_line():
    good = [(line, [f"text {line}", "ab"[line % 2]]) for line in range(2, 10)]
    bad = [(20, ["", "a"]), (21, ["something", " "]), (22, [" TEXT 2!", "a"]), (23, ["text 3", "a"]),
           (24, ["rare", "c"])]
    kept = clean(of_table([*good, *bad]))
    assert {reason: [row.line for row in rows] for reason, rows in kept.dropped.items()} == {
        "empty or not UTF-8 text": [20], "without a label": [21], "repeated": [22], "repeated with another label": [23],
        "of a class with fewer than 3 examples": [24]}
    assert [row.line for row in kept.rows] == list(range(2, 10))


def test_white_space_and_letters_are_normalised():
    (row,) = of_table([(1, ["  nin\u0303a\u00a0 \n x ", " a\tb "])])
    assert (row.text, row.label) == ("niña x", "a b")


def test_a_folder_of_files_for_each_class(tmp_path, capfd):
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for number in range(3):
            (tmp_path / label / f"{number}.txt").write_text(f"first {label}\nand {number}\n", encoding="utf-8")
    (tmp_path / "pos" / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "pos" / "binary.txt").write_bytes(b"a\0b")
    kept = clean(of_files(read_class_files(str(tmp_path))))
    assert f"Read {tmp_path}: 8 files in the folders of 2 classes\n" in capfd.readouterr().out
    assert [(row.label, row.text) for row in kept.rows][::3] == [("neg", "first neg and 0"), ("pos", "first pos and 0")]
    assert {reason: [row.place for row in rows] for reason, rows in kept.dropped.items()} == {
        "empty or not UTF-8 text": [f"{tmp_path}/pos/binary.txt", f"{tmp_path}/pos/latin.txt"]}
