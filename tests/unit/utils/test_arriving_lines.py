"""Lines of standard input, in the order and at the time in which they arrive."""

from __future__ import annotations

import io
import os
import sys

import pytest

from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.given_files import arriving_lines, is_live_input


@pytest.fixture
def pipe(monkeypatch):
    """The descriptor of the other end of standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as typed:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield typed


def test_a_list_is_what_has_arrived(pipe):
    lines = arriving_lines(10)
    pipe.write("\ufeffä b\n".encode() + b"\n" + "\ufeffc".encode()[:1])  # the last character is incomplete
    assert next(lines) == ["ä b", ""]
    pipe.write("\ufeffc".encode()[1:] + b"\r\nd")
    assert next(lines) == ["\ufeffc"]  # without \r, as from a file
    pipe.close()
    assert list(lines) == [["d"]]


def test_lists_have_a_maximum(pipe):
    pipe.write(b"".join(b"%d\n" % number for number in range(25)))
    pipe.close()
    found = list(arriving_lines(10))
    assert sum(found, []) == [str(number) for number in range(25)] and max(map(len, found)) == 10


def test_nothing_arrives(pipe):
    pipe.close()
    assert list(arriving_lines(10)) == []


@pytest.mark.parametrize(("text", "message"), [
    (b"a\nb\n\xff\n", "standard input:3: the line is not valid UTF-8"), (b"a\n\xe4", "standard input:2"),
])
def test_mistakes_name_the_line(pipe, text, message):
    pipe.write(text)
    pipe.close()
    with pytest.raises(DataError, match=message):
        list(arriving_lines(2))


def test_a_line_without_end_is_refused(pipe, monkeypatch):
    monkeypatch.setattr("open_seq2seq.utils.given_files.MOST_LINE_BYTES", 10)
    pipe.write(b"a\n" + b"b" * 11)
    with pytest.raises(DataError, match="standard input:2: the line has more than"):
        list(arriving_lines(2))


def test_files_and_strings_are_not_live(pipe, monkeypatch, tmp_path):
    assert is_live_input()
    (tmp_path / "text").write_text("a\n")
    with open(tmp_path / "text") as file, open(os.devnull) as nothing:
        for stdin in (file, nothing, io.StringIO("a"), None):
            monkeypatch.setattr(sys, "stdin", stdin)
            assert not is_live_input()
