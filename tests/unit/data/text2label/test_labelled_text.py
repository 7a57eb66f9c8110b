"""The data layer of labelled text."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data import LabelledTextDataLayer
from open_seq2seq.utils.errors import ConfigError, DataError

ROWS = [("good", "a b c"), ("bad", "c"), ("good", "b b a c a"), ("bad", "d e f a b c d")]


class Files:
    """A folder with a vocabulary and a few labelled lines; ``layer`` reads them."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, lines):
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(self.folder / name)

    def layer(self, rows=ROWS, **changed):
        params = {"text_file": self.write("text.tsv", ["\t".join(row) for row in rows]), "max_length": 6,
                  "src_vocab_file": self.write("vocab.txt", "abcdef"), "special_tokens_already_in_vocab": False,
                  "labels": ["good", "bad"], "mode": "train", **changed}
        return LabelledTextDataLayer({key: value for key, value in params.items() if value != "unset"})


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.mark.parametrize(("options", "last"), [
    ({}, [7, 8, 9, 4, 5, 1]), ({"truncate": "start"}, [9, 4, 5, 6, 7, 1]),
    ({"use_start_token": True}, [2, 7, 8, 9, 4, 1])])
def test_a_batch_holds_texts_and_labels(files, options, last):
    layer = files.layer(**options)
    start = [2] * layer.params["use_start_token"]
    batch = layer.make_batch(np.array([3, 1, 0]))
    ids, lengths = batch["source_tensors"]
    assert ids[0].tolist() == last and ids[1, :lengths[1]].tolist() == [*start, 6, 1]
    assert lengths.tolist() == layer.lengths[[3, 1, 0]].tolist() and not ids[1, lengths[1]:].any()
    assert batch["target_tensors"][0].tolist() == [1, 1, 0] and batch["ids"].tolist() == [3, 1, 0]
    assert (layer.num_examples, layer.num_classes, layer.source_vocab_size) == (4, 2, 10)
    assert f": {1 + len(start)} of 4 lines" in layer.cut_remark()
    assert layer.describe_example(2).endswith("text.tsv:3")


def test_training_drops_empty_texts_and_evaluation_keeps_them(files):
    rows = [*ROWS[:2], ("bad", " "), *ROWS[2:]]
    training, evaluation = files.layer(rows), files.layer(rows, mode="eval")
    assert training.num_examples == 4 and training.report_dropped() == {"an empty text": 1}
    assert training.describe_example(2).endswith(":4")
    assert training.make_batch(np.arange(4))["target_tensors"][0].tolist() == [0, 1, 0, 1]
    assert evaluation.num_examples == 5 and evaluation.make_batch(np.array([2]))["source_tensors"][0].tolist() == [[1]]


def test_labels_come_from_a_file_and_columns_have_names(files):
    table = files.write("text.csv", ["text,id,class", '"a b",7,yes', "c,8,no"])
    layer = files.layer(text_file=table, labels="unset", label_file=files.write("labels", ["no", "yes"]),
                        label_column="class", text_column="text")
    assert layer.labels == ["no", "yes"]
    assert layer.make_batch(np.arange(2))["target_tensors"][0].tolist() == [1, 0]
    assert layer.source_to_text(layer.make_batch(np.arange(2))["source_tensors"][0][0]) == "a b"


def test_inference_reads_no_labels(files):
    layer = files.layer([("?", "a b"), ("", "c")], mode="infer")
    assert layer.num_examples == 2
    assert files.layer([("label", "text"), ("", "c")], mode="infer", label_column="label").num_examples == 1
    given = LabelledTextDataLayer.params_for_files([files.write("lines", ["a b", "", "c"])])
    lines = files.layer(mode="infer", **given)
    assert lines.lengths.tolist() == [3, 1, 2] and lines.num_empty_sources == 1
    interactive = files.layer(mode="interactive_infer", text_file="nowhere")
    batch = interactive.make_interactive_batch(["a", "b c"])
    assert batch["source_tensors"][0].tolist() == [[4, 1, 0], [5, 6, 1]] and interactive.num_empty_sources == 0
    interactive.make_interactive_batch([" ", "a", ""])
    assert interactive.num_empty_sources == 2


def test_examining_counts_classes(files):
    assert files.layer().examine() == ["good: 2 examples", "bad: 2 examples"]


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_texts_that_are_cut_are_counted_and_the_first_is_named(files, mode):
    rows = [("bad", ""), *ROWS[:3], ("good", "a b c d e f"), ROWS[3]]
    layer, count = files.layer(rows, mode=mode), 5 if mode == "train" else 6
    assert layer.cut_remark() == (
        f"Longer than max_length 6, so only the beginning is read: 2 of {count} lines, the first is "
        f"{files.folder}/text.tsv:5")
    assert "only the end is read" in files.layer(rows, mode=mode, truncate="start").cut_remark()
    assert files.layer(rows, mode=mode, max_length=9).cut_remark() == ""


@pytest.mark.parametrize(("rows", "changed", "error", "message"), [
    ([*ROWS, ("goood", "a")], {}, DataError, r"text\.tsv:5: the label 'goood' is not one of .*good, bad.*mean 'good'"),
    ([*ROWS, ("good",)], {}, DataError, r"text\.tsv:5: the line has only 1 column"),
    ([("good", "a")], {}, DataError, r"has no example of the class 'bad'"),
    ([("good", " ")], {}, DataError, r"All 1 texts of .* are empty"),
    (ROWS, {"labels": ["good", "bad", "good"]}, ConfigError, "'data_layer_params/labels' has the class 'good' more"),
    (ROWS, {"labels": ["good"]}, ConfigError, "must name at least two classes"),
    (ROWS, {"labels": "unset"}, ConfigError, "must have exactly one of 'labels'"),
    (ROWS, {"label_column": 2}, ConfigError, "are both 2"),
    (ROWS, {"label_column": None}, ConfigError, "must not be None in training"),
    (ROWS, {"max_length": 1}, ConfigError, "max_length' is 1, but must be at least 2"),
    (ROWS, {"src_vocab_file": "unset"}, ConfigError, "src_vocab_file' is missing"),
])
def test_mistakes(files, rows, changed, error, message):
    with pytest.raises(error, match=message):
        files.layer(rows, **changed)
