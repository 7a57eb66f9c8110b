"""Tables: columns by number or name, and messages that name the file and the line."""

from __future__ import annotations

import gzip

import pytest

from open_seq2seq.data.tables import Table, column_problems
from open_seq2seq.utils.errors import DataError


@pytest.mark.parametrize(("name", "text", "columns", "options", "rows"), [
    ("a.tsv", "x\ty\tz\nu\tv, w\t\n", (3, 1), {}, [(1, ["z", "x"]), (2, ["", "u"])]),
    ("a.tsv", 'x\t"y\n', (2,), {}, [(1, ['"y'])]),  # no quoting
    ("a.txt", "x,y\n", (1,), {}, [(1, ["x,y"])]),
    ("a.txt", "x,y\n", (2,), {"format": "csv"}, [(1, ["y"])]),
    ("a.csv", 'label,text\n1,"a, ""b"""\n2,"two\nlines"\n', ("text", "label"), {},
     [(2, ['a, "b"', "1"]), (4, ["two\nlines", "2"])]),
    ("a.csv", "label,text\n1,a\n", (2, 1), {"has_header": True}, [(2, ["a", "1"])]),
    ("a.tsv", "label\ttext\n1\ta\n", ("text", 1), {}, [(2, ["a", "1"])]),
    ("a.tsv", "label\ttext\n1\ta\n", (2, "label"), {"num_read": 1}, [(2, ["a"])]),
    ("a.tsv", "x\ty\n", (None, "label"), {"num_read": 1}, [(1, ["x\ty"])]),
])
def test_rows(tmp_path, name, text, columns, options, rows):
    (tmp_path / name).write_text(text, encoding="utf-8")
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (tmp_path / name, packed):
        assert list(Table(str(path), columns, **options).rows()) == rows


@pytest.mark.parametrize(("name", "text", "columns", "message"), [
    ("a.tsv", "x\ty\nx y\n", (1, 2), r"a\.tsv:2: the line has only 1 column, separated by tabs, but column 2"),
    ("a.csv", "x,y\nx,y,z\n", (3,), r"a\.csv:1: the line has only 2 columns, separated by commas, but column 3"),
    ("a.csv", "label,text\n1\n", ("text",), r"a\.csv:2: the line has only 1 column, .* but column 2"),
    ("a.tsv", "label\ttext\n", ("txt",), r"a\.tsv:1: there is no column named 'txt'.*label, text.*mean 'text'"),
    ("a.csv", 'x,"y\n', (1,), r"a\.csv:1: the row that begins in this line has a double quote that"),
    ("a.csv", "x,y\nx\ry\n", (1,), r"a\.csv:2: the line contains a carriage return"),
    ("a.csv", f'x,y\n"{"z" * 131_072}",u\nv,"{"z" * 131_073}"\n', (1,),
     r"a\.csv:3: a value of the row that begins in this line has more than 131,072 characters: shorten it or, if"),
    ("a.csv", 'x\n"y\n' + "z\n" * 70_000, (1,), r"a\.csv:2: a value .* if a quote is not closed, close it\.$"),
    ("a.csv", "", (1,), r"a\.csv is empty"),
    ("b.csv", None, (1,), r"b\.csv does not exist"),
])
def test_mistakes(tmp_path, name, text, columns, message):
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(Table(str(tmp_path / name), columns).rows())


def test_columns_are_different_and_counted_from_one():
    assert column_problems("p", {"a": 1, "b": "x", "c": None, "d": None}) == []
    assert "'p/a' is 0, but columns are counted from 1." in column_problems("p", {"a": 0, "b": 1})
    assert ["'p/a' and 'p/b' are both 2, but must be different columns."] == column_problems("p", {"a": 2, "b": 2})
