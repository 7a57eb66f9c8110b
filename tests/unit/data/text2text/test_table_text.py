"""The data layer of pairs in one file."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data import TableTextDataLayer
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

ROWS = [("1", "a b", "b a"), ("2", "c", "c"), ("3", "", "a"), ("4", "d e f a", "a")]


@pytest.fixture
def layer(tmp_path):
    (tmp_path / "vocab").write_text("\n".join("abcdef") + "\n", encoding="utf-8")

    def make(rows=ROWS, header=None, name="pairs.tsv", **changed):
        lines = ["\t".join(row) for row in ([header] if header else []) + list(rows)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return TableTextDataLayer({
            "source_file": str(tmp_path / name), "source_column": 2, "target_column": 3, "max_length": 5,
            "src_vocab_file": str(tmp_path / "vocab"), "tgt_vocab_file": str(tmp_path / "vocab"),
            "special_tokens_already_in_vocab": False, "use_start_token": False, "mode": "train", **changed})

    return make


@pytest.mark.parametrize("header", [None, ("id", "question", "answer")])
def test_examples_are_rows(layer, header):
    names = {"source_column": "question", "target_column": "answer"} if header else {}
    made = layer(header=header, **names)
    assert made.num_examples == 3 and made.report_dropped() == {"an empty side": 1}
    batch = made.make_batch(np.arange(3))
    first = 2 if header else 1
    for row, (_, source, target) in enumerate([ROWS[0], ROWS[1], ROWS[3]]):
        assert made.source_to_text(batch["source_tensors"][0][row]) == source
        assert made.ids_to_text(batch["target_tensors"][0][row]) == made.reference_text(row) == target
    places = [made.describe_example(example).rpartition("/")[2] for example in range(3)]
    assert places == [f"pairs.tsv:{line}" for line in (first, first + 1, first + 3)]
    assert layer(header=header, **names, mode="eval").num_examples == 4


def test_a_csv_text_may_have_lines(layer, tmp_path):
    (tmp_path / "table.csv").write_text('text,summary\n"a b\nc, d",b\n', encoding="utf-8")
    made = layer(source_file=str(tmp_path / "table.csv"), source_column="text", target_column="summary")
    assert made.source_to_text(made.make_batch(np.array([0]))["source_tensors"][0][0]) == "a b <UNK> d"


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_several_sources(layer, mode):
    made = layer([("a b", "c", "d"), ("e", "f a b", "a b")], source_column=[1, 2], mode=mode)
    batch = made.make_batch(np.array([1, 0]))
    first, first_lengths, second, second_lengths = batch["source_tensors"]
    assert first.tolist() == [[8, 1, 0], [4, 5, 1]] and second.tolist() == [[9, 4, 5, 1], [6, 1, 0, 0]]
    lengths = [first_lengths, second_lengths] + ([batch["target_tensors"][1]] if mode != "infer" else [])
    np.testing.assert_array_equal(made.lengths[[1, 0]], np.stack(lengths, axis=1))
    tf.nest.assert_same_structure(batch, made.input_signature)


def test_inference_reads_lines_of_sources(layer, tmp_path):
    (tmp_path / "lines").write_text("a b\tc\nd\te f\n", encoding="utf-8")
    given = TableTextDataLayer.params_for_files([str(tmp_path / "lines")])
    one = layer(mode="infer", **given)
    assert one.num_examples == 2 and "target_tensors" not in one.make_batch(np.arange(2))
    two = layer(mode="infer", **given, source_column=[2, 4])
    assert two.make_batch(np.array([1]))["source_tensors"][2].tolist() == [[8, 9, 1]]
    interactive = layer(mode="interactive_infer", source_column=[2, 4]).make_interactive_batch(["a\tb c"])
    assert [array.tolist() for array in interactive["source_tensors"]] == [[[4, 1]], [2], [[5, 6, 1]], [3]]


def test_the_name_of_the_target_implies_a_header_in_inference_too(layer):
    assert layer(header=("id", "question", "answer"), target_column="answer", mode="infer").num_examples == len(ROWS)


def test_tables_are_tokenised_by_several_threads(layer, monkeypatch):
    threads_of_calls, encode = [], DelimiterTokenizer.encode

    def noted(self, lines, threads=1):
        threads_of_calls.append(threads)
        return encode(self, lines, threads)

    monkeypatch.setattr(DelimiterTokenizer, "encode", noted)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    layer(map_parallel_calls=3)
    assert threads_of_calls == [3, 3]


def test_a_line_is_empty_if_all_its_sources_are(layer):
    made = layer([("a", "", "b"), ("", "", "b")], source_column=[1, 2], mode="infer")
    assert made.num_empty_sources == 1
    made = layer([("a", "b"), ("",), (" ",)], source_column=[1, 2], mode="infer", only_sources=True)
    assert made.num_empty_sources == 2 and made.num_examples == 3
    typed = layer(mode="interactive_infer", source_column=[1, 2])
    typed.make_interactive_batch(["\t", "a\t", "\ta b", ""])
    assert typed.num_empty_sources == 2 and typed.interactive_lengths(["\ta b", "a\t"]).tolist() == [3, 2]


def test_a_line_is_cut_if_one_of_its_sides_is(layer):
    long = " ".join("a" * 40)
    made = layer([("a", long, "b"), ("a", "b", "c"), (long, "b", "c")], source_column=[1, 2], mode="infer")
    assert ": 2 of 3 lines, the first is " in made.cut_remark() and made.cut_remark().endswith(":1")
    typed = layer(mode="interactive_infer", source_column=[1, 2])
    typed.make_interactive_batch(["a\tb", f"a\t{long}"])
    assert typed.newest_cut.tolist() == [1]


def test_targets_of_several_sources_are_not_scored(layer):
    assert "target_tensors" in layer(mode="interactive_infer").scoring_signature
    with pytest.raises(UserError, match="cannot be scored if examples have several sources"):
        _ = layer(mode="interactive_infer", source_column=[1, 2]).scoring_signature


@pytest.mark.parametrize(("rows", "changed", "error", "message"), [
    ([*ROWS, ("5", "a")], {}, DataError, r"pairs\.tsv:5: the line has only 2 columns, .* but column 3 is needed"),
    (ROWS, {"target_column": "answer"}, DataError, r"pairs\.tsv:1: there is no column named 'answer'"),
    (ROWS, {"target_column": 2}, ConfigError, "are both 2, but must be different"),
    (ROWS, {"source_column": 0}, ConfigError, "source_column' is 0 but has to be at least 1"),
    (ROWS, {"source_column": []}, ConfigError, "source_column' is an empty list"),
    (ROWS, {"source_column": [1, None]}, ConfigError, "columns must be numbers or names"),
    (ROWS, {"only_sources": True}, ConfigError, "only_sources' is True, but training"),
    ([("1", "", "")], {}, DataError, "were dropped"),
    ([("a b",)], {"mode": "infer", "only_sources": True, "source_column": [1, 2]}, DataError,
     r"pairs\.tsv:1: the line has 1 source, but the model needs 2: give one line"),
])
def test_mistakes(layer, rows, changed, error, message):
    with pytest.raises(error, match=message):
        layer(rows, **changed)
