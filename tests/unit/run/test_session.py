"""Answers to lines typed on a terminal, and the parameters with which a process starts."""

import io
from types import SimpleNamespace

import pytest

from open_seq2seq.run import session
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


@pytest.mark.parametrize(("mode", "params"), [
    ("train", {"on_divergence": "roll_back", "sync_batch_norm": True, "hvd_compression": "fp16"}),
    ("eval", {"on_divergence": "stop", "sync_batch_norm": False, "hvd_compression": None})])
def test_what_concerns_training_alone_is_for_training_alone(monkeypatch, mode, params):
    def make_runner(asked):
        assert asked == params
        return SimpleNamespace(num_processes=1, world_size=1, describe=list)

    monkeypatch.setattr(session, "make_runner", make_runner)
    monkeypatch.setattr(session.training_setup, "set_up_process", lambda params: [])
    options = SimpleNamespace(mode=mode, config=SimpleNamespace(config_file=SimpleNamespace(checkpoint=None)))
    given = {"on_divergence": "roll_back", "sync_batch_norm": True, "hvd_compression": "fp16"}
    session._start_process(options, {"train": SimpleNamespace(params={}, full_params=given)})
