"""Lines typed on a terminal, outputs that are refused, a signal before the precision is lowered, parameters."""

import io
import signal
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from open_seq2seq.checkpoints import Snapshot, write_snapshot
from open_seq2seq.checkpoints.packed import unpacked
from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers import argument_problems
from open_seq2seq.report.packing import pack
from open_seq2seq.run import session
from open_seq2seq.run.session import prompt
from open_seq2seq.training.recovery.recovery import PrecisionLowered
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import OutputFiles, never_written


def test_neither_a_packed_model_nor_what_a_report_has_written_is_overwritten_by_results(tmp_path):
    packed = pack(written_run(tmp_path / "run"), tmp_path / "model.zip")
    (tmp_path / "run" / "README.md").write_text("the card")
    for logdir, output in ((unpacked(str(packed)), packed), (str(tmp_path / "run"), tmp_path / "run" / "README.md")):
        before = output.read_bytes()
        config = SimpleNamespace(config_file=SimpleNamespace(files=(), sections={}))
        model = SimpleNamespace(params={"logdir": logdir}, ensemble=None,
                                data_layer=SimpleNamespace(params={}, example_files=lambda: ()))
        options = SimpleNamespace(config=config, infer_files=())
        with never_written(lambda options=options, model=model: session.protected_files(options, model)), \
                pytest.raises(UserError, match="would overwrite"), OutputFiles() as outputs:
            outputs.open(str(output)).write("results")
        assert output.read_bytes() == before


def written_run(folder):
    state = {"step": 3, "micro_batch": 3, "random_seed": 0}
    write_snapshot(Snapshot({"w": np.ones(2, np.float32)}, {}, state, "base_model: Text2Text\n"),
                   folder / "model.ckpt-3")
    return folder


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


def test_a_signal_is_heeded_by_the_trainer_of_another_precision(monkeypatch):
    trainers = [MagicMock(stop=SimpleNamespace(signum=None)) for _ in range(2)]

    def train(trainer):
        if trainer is trainers[0]:
            trainer.stop.signum = signal.SIGTERM  # it came during the update that diverged
            raise PrecisionLowered(MagicMock(), "float32")
        return trainer.stop.signum

    monkeypatch.setattr(session, "training_setup", MagicMock(
        resumed=lambda *_: (None, None), nothing_left=lambda *_: False, make_trainer=MagicMock(side_effect=trainers)))
    monkeypatch.setattr(session, "train", train)
    monkeypatch.setattr(session, "settle_precision", lambda specs, *_: specs)
    monkeypatch.setattr(session, "_in_dtype", lambda specs, dtype: specs)
    for name in ("print_training", "write_overview"):
        monkeypatch.setattr(session, name, MagicMock())
    assert session._train(MagicMock(), {"train": None}, MagicMock(), MagicMock()).signum == signal.SIGTERM


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
    trained_with = {"on_divergence": "roll_back", "sync_batch_norm": True, "hvd_compression": "fp16"}
    session._start_process(options, {"train": SimpleNamespace(params={}, full_params=trained_with)})


@pytest.mark.parametrize("given", [{}, {"loss_scaling": "Backoff"}, {"loss_scaling": 8.0, "loss_scaling_params": None}])
def test_arguments_of_the_loss_scaler_do_not_end_a_run_whose_precision_is_lowered(given):
    params = {"dtype": "mixed_float16", "loss_scaling_params": {"scale_max": 8.0}, **given}
    assert argument_problems(params) == []
    lowered = session._in_dtype({"train": ModelSpec(Model, params, "train")}, "mixed_bfloat16")["train"].params
    assert lowered["dtype"] == "mixed_bfloat16" and argument_problems(lowered) == []
