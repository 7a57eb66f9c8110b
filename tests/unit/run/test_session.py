"""Answers to lines typed on a terminal."""

import io
from types import SimpleNamespace

import pytest

from open_seq2seq.run.session import prompt
from open_seq2seq.utils.errors import DataError


class Terminal(io.StringIO):
    def isatty(self):
        return True


def answers_to(typed, monkeypatch):
    def infer(lines):
        if lines == ["bad"]:
            raise DataError("This line cannot be used.")
        return lines

    monkeypatch.setattr("sys.stdin", typed)
    prompt(SimpleNamespace(infer=infer, model=SimpleNamespace(prompt_answer=str.upper, interactive_hint="Type a line")))


def test_a_line_that_cannot_be_used_does_not_end_a_session_on_a_terminal(monkeypatch, capsys):
    answers_to(Terminal("bad\nword\n"), monkeypatch)
    out, err = capsys.readouterr()
    assert "WORD" in out and err == "Error: This line cannot be used.\n"


def test_lines_from_a_file_must_all_be_answered(monkeypatch):
    with pytest.raises(DataError, match="cannot be used"):
        answers_to(io.StringIO("bad\nword\n"), monkeypatch)
