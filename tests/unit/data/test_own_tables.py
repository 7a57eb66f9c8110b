"""Tables as programs write them: quoting, delimiters, JSON lines, and rows with too few columns."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json

import pytest

from open_seq2seq.data.own_tables import read_own_table
from open_seq2seq.utils.errors import DataError

ROWS = [["one two", "eins zwei"], ['He said "x"', 'Er sagte "x"'], ["a, b; c", "a b"], ["two\nlines", "zwei"],
        ["", "leer"]]


def written(rows, **how):
    text = io.StringIO()
    csv.writer(text, **{"lineterminator": "\r\n", **how}).writerows(rows)
    return text.getvalue()


def read(tmp_path, name, content, columns=(1, 2)):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [values for _, values in read_own_table(str(path)).rows(columns)]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.txt", "\t"), ("a.csv", ","), ("a.csv", ";"),
                                                 ("a.csv", "\t"), ("a", "\t")])
def test_what_programs_write_is_read(tmp_path, name, delimiter, quoting):
    text = written(ROWS, delimiter=delimiter, quoting=quoting)
    assert read(tmp_path, name, text) == ROWS
    assert read(tmp_path, name, codecs.BOM_UTF8 + text.encode()) == ROWS
    assert read(tmp_path, name, text.encode("utf-16")) == ROWS  # "Unicode text" of spreadsheets
    for encoding in ("utf-8", "utf-16"):
        assert read(tmp_path, f"{name}.gz", gzip.compress(text.encode(encoding))) == ROWS


@pytest.mark.parametrize("rows", [
    [['"Hello," he said.', "x"], ["a", 'the "b"']],          # text after a closing quote
    [['"Hello."', '"Hallo."'], ["Hello, you.", "Hallo, du."]],  # quotes, but not around all values with commas
    [['5" disk', '5"-Diskette'], ["a", "b"]],
    [['"open', "x"], ["y", "z"]],                           # not closed
    [['x', '"open'], ['closed"', "z"], ["u", "v"]],         # would be one value with a line break
    [['"quoted"', "x"], ["b", "c"]],
    [['"a ""strange"" one"', "x"], ['"Hello."', "y"], ['"Yes."', "z"]],
])
def test_quotes_of_the_text_stay(tmp_path, rows):
    assert read(tmp_path, "a.tsv", "".join("\t".join(row) + "\n" for row in rows)) == rows


def test_the_separator_is_found_below_many_empty_lines(tmp_path):
    assert read(tmp_path, "a.csv", "\n" * 1001 + "a;b\nc;d\n") == [["a", "b"], ["c", "d"]]


def test_values_with_commas_in_quotes(tmp_path):
    """Some spreadsheets put values with commas into quotes although tabs separate the columns."""
    assert read(tmp_path, "a.txt", '"Hello, you"\tHallo du\r\nYes\t"Ja, ja"\r\n') == [["Hello, you", "Hallo du"],
                                                                                      ["Yes", "Ja, ja"]]


def test_all_values_but_numbers_are_quoted(tmp_path):
    rows = [[1, "one", 'the "one"'], [2, "two", "two"]]
    assert read(tmp_path, "a.tsv", written(rows, delimiter="\t", quoting=csv.QUOTE_NONNUMERIC), (2, 3)) == [
        row[1:] for row in rows]


def test_a_row_that_is_not_as_the_others_is_named(tmp_path):
    text = written([['a "b"', 'c "d"']] * 5, delimiter="\t") + '"a" b\tc\n'
    with pytest.raises(DataError, match=r"a\.tsv:6: the line is not valid CSV"):
        read(tmp_path, "a.tsv", text)


def test_json_lines_and_arrays(tmp_path):
    objects = [{"id": 1, "translation": {"en": "a", "de": "b"}}, {"id": None, "translation": {"de": "d", "en": "c"}}]
    lines = "".join(f"{json.dumps(row)}\n\n" for row in objects)
    for name, content in (("a.jsonl", lines), ("a.json", json.dumps(objects)), ("a.ndjson", lines)):
        assert read(tmp_path, name, content, ("de", "en", "id")) == [["b", "a", "1"], ["d", "c", ""]]


def test_json_lines_without_the_column_of_a_number(tmp_path):
    with pytest.raises(DataError, match="there is no column named '5' for --columns: the columns are en, es"):
        read(tmp_path, "a.jsonl", '{"en": "a", "es": "b"}\n' * 3, (1, 5))


def test_half_of_a_surrogate_pair_is_replaced(tmp_path):
    assert read(tmp_path, "a.jsonl", r'{"a": "cut \ud83d", "b": ["\ud83d"]}', ("a", "b")) == [["cut ?", '["?"]']]


def test_lines_and_columns(tmp_path, capsys):
    rows = "".join(f"{n},x{n}\n" for n in range(98))
    path = tmp_path / "a.csv"
    path.write_text(f'id,"the text"\n{rows}98\n99,a,b\n"100\n",c\n')
    table = read_own_table(str(path))
    found = table.rows(["the text", "id"])
    assert found[0] == (2, ["x0", "0"]) and found[98:] == [(100, ["", ""]), (101, ["", ""]), (102, ["c", "100\n"])]
    assert "WARNING: 2 of the 101 lines" in (out := capsys.readouterr().out) and "first: line 100 has 1" in out
    assert "a.csv: 102 rows" in table.describe() and "a.csv: 101 rows" in table.describe(has_names=True)
    assert table.describe(["the text"]).endswith("a.csv: 101 rows, columns separated by commas, values quoted where "
                                                  "necessary, 1 value with line breaks")
    assert table.rows([1])[0] == (1, ["id"]) and table.rows([1], has_names=True)[0] == (2, ["0"])


def test_more_columns_than_needed(tmp_path):
    """Without names, some rows of a table with tabs may have remarks; with commas, a comma is not quoted."""
    assert read(tmp_path, "a.tsv", "a\tb\tx\nc\td\n") == [["a", "b"], ["c", "d"]]
    assert read(tmp_path, "a.tsv", "a\tb\n" * 30 + "c\td\te\n")[-1] == ["", ""]  # a tab within the text
    with pytest.raises(DataError, match="2 of the 5 lines .* more or fewer than 2 columns, .*commas .*double"):
        read(tmp_path, "a.csv", "a,b\nc,d\ne,f\nc,d,x\nc,d,y\n")


@pytest.mark.parametrize(("name", "content", "columns", "words"), [
    ("a.csv", "text,label\nx,y\n", ("txt",), r"a\.csv:1: there is no column named 'txt' for --columns.*mean 'text'"),
    ("a.csv", "text,text\nx,y\n", ("text",), "column text more than once"),
    ("a.csv", "text,label\n", ("text",), "no rows below its header"),
    ("a.csv", "\n \n", (1,), "is empty"), ("a.csv", ",,\n,,\n", (1,), "is empty"),
    ("a.tsv", "x\ty\nz\n", (1, 2),
     r"1 of the 2 lines .* have more or fewer than 2 columns, separated by tabs \(first: line 2 has 1"),
    ("a.txt", "one sentence.\nanother\n", (1, 2), "2 of the 2 lines"),
    ("a.csv", 'a,b\n"c,d\n', (1, 2), r"a\.csv:2: .*double quote that is not closed"),
    ("a.jsonl", '{"a": 1}\n{"a": \n', ("a",), r"a\.jsonl:2: the line is not valid JSON"),
    ("a.jsonl", '"a"\n', ("a",), r"a\.jsonl:1: the line must be a JSON object"),
    ("a.json", '[{"a": 1},\n{]', ("a",), r"a\.json:2: the line is not valid JSON"),
    ("a.jsonl", "[" * 100_000, ("a",), r"a\.jsonl:1: the line is not valid JSON"),
    ("a.jsonl", '{"a": 1}\n', ("b",), "no column named 'b'"), ("a.csv", b"a,\xff\n", (1,), "not valid UTF-8"),
    ("a.tsv", codecs.BOM_UTF16_LE + b"a", (1,), "begins like UTF-16"), ("none.csv", None, (1,), "does not exist"),
])
def test_bad_tables(tmp_path, name, content, columns, words):
    if content is None:
        with pytest.raises(DataError, match=words):
            read_own_table(str(tmp_path / name))
        return
    with pytest.raises(DataError, match=words):
        read(tmp_path, name, content, columns)
