"""Writers of results, and models that write by the contract of before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from open_seq2seq.models import Text2Text
from open_seq2seq.models.model import Model
from open_seq2seq.models.reporter import Reporter, report_sample
from open_seq2seq.models.results import LineWriter, ResultWriter, open_results
from open_seq2seq.models.speech2text.speech2text import SpokenWord, TranscriptWriter
from open_seq2seq.utils.errors import DataError, UserError


class Result:
    def __init__(self, text: str) -> None:
        self.text, self.words, self.n_best = text, [SpokenWord(text, 0.0, 1.0, 0.5)], None


def bare(cls: type[Model]) -> Any:
    """A model without parameters or parts."""
    return cls.__new__(cls)


def test_results_are_written_in_the_order_of_the_examples_and_appear_together(tmp_path):
    writer = TranscriptWriter(f"{tmp_path}/new/out.csv", "{}.wav".format, True, False)
    with writer:
        writer.write_batches([[(2, Result("two")), (0, Result("nought"))], [], [(1, Result("one"))]])
        writer.write_batches([[(5, Result("five"))]])
        assert not (tmp_path / "new/out.csv").exists()
    assert (tmp_path / "new/out.csv").read_text().split() == [
        "wav_filename,predicted_transcript", "0.wav,nought", "1.wav,one", "2.wav,two", "5.wav,five"]
    assert [line.split(",")[0] for line in (tmp_path / "new/out.words.csv").read_text().split()[1:]] == [
        "0.wav", "1.wav", "2.wav", "5.wav"]
    assert len(list((tmp_path / "new").iterdir())) == 2


def test_first_transcripts_are_printed_at_the_end(tmp_path, capsys):
    writer = TranscriptWriter(f"{tmp_path}/out.csv", str, False, False)
    with writer:
        writer.write_batches([[(number, Result("text")) for number in range(30)]])
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out == "".join(f"***    {number}: text\n" for number in range(10))


def test_nothing_to_write_leaves_no_file(tmp_path):
    with pytest.raises(DataError, match="No recording could be used"), TranscriptWriter(
            f"{tmp_path}/out.csv", str, False, False) as writer:
        writer.write_batches([[], []])
    assert not list(tmp_path.iterdir())


def test_an_error_on_opening_the_second_file_leaves_none_of_the_first(tmp_path):
    (tmp_path / "out.words.csv").mkdir()
    with pytest.raises(UserError, match="out.words.csv, which is a folder"), TranscriptWriter(
            f"{tmp_path}/out.csv", str, True, False):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out.words.csv"]


def test_a_disk_that_is_full_ends_the_run_in_one_sentence():
    with pytest.raises(UserError, match="cannot be written to /dev/full"), LineWriter(
            "/dev/full", lambda example, result: result) as writer:
        writer.write_batches([[(0, "x" * 100_000 + "\n")]])


class Old(Model):
    """Written for the original."""

    def maybe_print_logs(self, input_values, output_values, training_step):
        print("sample of", training_step)
        return {"mine": 0.5, **super().maybe_print_logs(input_values, output_values, training_step)}

    def finalize_inference(self, results_per_batch, output_file):
        with open(output_file, "w", encoding="utf-8") as out:
            out.write(repr(results_per_batch))


class OldTranslation(Text2Text):
    """A class derived from the package's by somebody who knew the old contract."""

    def maybe_print_logs(self, input_values, output_values, training_step):
        print("sample of", training_step)
        return {"mine": 0.5}

    def finalize_inference(self, results_per_batch, output_file):
        with open(output_file, "w", encoding="utf-8") as out:
            out.write(repr(results_per_batch))


class NewAgain(OldTranslation):
    """And one derived from that by somebody who knows the new one."""

    def report_sample(self, batch, outputs, reporter):
        reporter.scalar("new", 1.0)

    def open_results(self, output_file):
        return LineWriter(output_file, lambda example, result: f"{result}\n")


@pytest.mark.parametrize("cls", [Old, OldTranslation])
def test_models_of_the_old_contracts_write_and_show_as_they_did(tmp_path, capsys, cls):
    with open_results(bare(cls), f"{tmp_path}/out") as writer:
        writer.write_batches([["b", "a"]])
        writer.write_batches(["anything"])
    assert (tmp_path / "out").read_text() == "[['b', 'a'], 'anything']"
    reporter = Reporter(7)
    report_sample(bare(cls), {}, [], reporter)
    assert reporter.scalars == {"mine": 0.5} and capsys.readouterr().out == "sample of 7\n"


def test_the_class_nearest_to_the_models_own_decides(tmp_path, capsys):
    with open_results(bare(NewAgain), f"{tmp_path}/out") as writer:
        writer.write_batches([[(1, "b"), (0, "a")]])
    assert (tmp_path / "out").read_text() == "a\nb\n"
    reporter = Reporter(7)
    report_sample(bare(NewAgain), {}, [], reporter)
    assert reporter.scalars == {"new": 1.0} and capsys.readouterr().out == "***    New: 1.0000\n"


def test_the_old_methods_of_new_models_can_be_called(tmp_path, capsys):
    class New(Model):
        report_sample = NewAgain.report_sample
        open_results = NewAgain.open_results

    model = bare(New)
    model.finalize_inference([[(1, "b")], [(0, "a")]], f"{tmp_path}/out")
    assert (tmp_path / "out").read_text() == "a\nb\n"
    assert model.maybe_print_logs({}, [], 3) == {"new": 1.0} and "New: 1.0000" in capsys.readouterr().out
    assert Model.maybe_print_logs(bare(Model), {}, [np.zeros(1)], 3) == {}
    with pytest.raises(NotImplementedError, match="open_results"):
        open_results(bare(Model), "x")
    with pytest.raises(NotImplementedError, match="write"):
        ResultWriter().write(0, "x")


def test_results_in_another_order_than_the_examples_are_refused(tmp_path):
    with pytest.raises(DataError, match="example 3 came after that of example 10: the 'ids'"):
        with LineWriter(f"{tmp_path}/out", lambda example, text: text) as writer:
            writer.write_batches([[(10, "a")]])
            writer.write_batches([[(3, "b")]])
    assert not list(tmp_path.iterdir())


def test_errors_of_a_model_that_writes_by_itself_are_its_own(tmp_path):
    class Careless(Text2Text):
        def finalize_inference(self, results_per_batch, output_file):
            open(f"{tmp_path}/missing/file")

    with pytest.raises(FileNotFoundError, match="missing/file"), open_results(bare(Careless), f"{tmp_path}/out"):
        pass


def test_the_worst_examples_come_first():
    from types import SimpleNamespace

    from open_seq2seq.models import Speech2Text, Text2Text

    rows = [[(0, "ein Hund", "ein Hund"), (1, "", "eine Katze")], [(2, "ein Hut", "ein Hund"), (3, "x", "")]]
    layer = SimpleNamespace(data_layer=SimpleNamespace(
        describe_example=lambda example: f"line {example}", source_to_text=lambda ids: f"source {ids[0]}",
        make_batch=lambda examples: {"source_tensors": [examples[:, np.newaxis], np.ones_like(examples)]}))
    found = Text2Text.worst_examples(layer, rows, 2)
    assert [row["example"] for row in found] == ["line 1", "line 2"] and found[0]["chrF"] == "0.0"
    assert [row["source"] for row in found] == ["source 1", "source 2"]
    heard = [[(0, "a.wav", "one two", "one two"), (1, "b.wav", "one two", "two")]]
    assert Speech2Text.worst_examples(None, heard, 1) == [
        {"example": "b.wav", "WER": "50%", "target": "one two", "prediction": "two"}]
    assert Speech2Text.worst_examples(None, [], 1) == []
