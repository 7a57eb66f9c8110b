"""What the data layers of text say about unknown and reserved tokens, and about lines that SentencePiece changes."""

from __future__ import annotations

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from open_seq2seq.data import (
    LabelledTextDataLayer,
    MultiCorpusDataLayer,
    ParallelTextDataLayer,
    TableTextDataLayer,
    WKTDataLayer,
)
from open_seq2seq.data.sentencepiece_models import normalized, train_sentencepiece
from open_seq2seq.data.speech2text.alphabet import make_alphabet


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, *lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return name

    return write


def parallel(mode="train", kind=ParallelTextDataLayer, **params):
    return kind({"src_vocab_file": "vocab", "tgt_vocab_file": "vocab", "special_tokens_already_in_vocab": False,
                 "max_length": 20, "batch_size": 2, "mode": mode, **params})


TEXTS = {
    "source": lambda: parallel(source_file="text", target_file="known"),
    "target": lambda: parallel(source_file="known", target_file="text"),
    "evaluation": lambda: parallel("eval", source_file="text", target_file="known"),
    "inference": lambda: parallel("infer", source_file="text"),
    "given translations": lambda: parallel("infer", source_file="known", score_file="text"),
    "source of a table": lambda: parallel(kind=TableTextDataLayer, source_file="table", target_column=3),
    "second source of a table": lambda: parallel(kind=TableTextDataLayer, source_file="table", source_column=[2, 1],
                                                 target_column=3),
    "target of a table": lambda: parallel(kind=TableTextDataLayer, source_file="table", source_column=2,
                                          target_column=1),
    "a corpus": lambda: parallel(kind=MultiCorpusDataLayer, corpora={
        "a": {"source_file": "known", "target_file": "known"}, "b": {"source_file": "text", "target_file": "known"}}),
    "inference of several corpora": lambda: parallel("infer", MultiCorpusDataLayer, source_file="text", corpora={
        "a": {"source_file": None, "target_file": None}}),
    "prefixes": lambda: parallel("infer", source_file="text", prefix_file="known"),
    "labelled texts to learn": lambda: LabelledTextDataLayer({
        "text_file": "table", "src_vocab_file": "vocab", "special_tokens_already_in_vocab": False, "max_length": 20,
        "labels": ["a c", "other"], "label_column": 3, "text_column": 1, "mode": "eval", "batch_size": 2}),
    "labelled texts": lambda: LabelledTextDataLayer({
        "text_file": "table", "src_vocab_file": "vocab", "special_tokens_already_in_vocab": False, "max_length": 20,
        "labels": ["a c", "other"], "label_column": 3, "text_column": 1, "mode": "infer", "batch_size": 2}),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_unknown_tokens_are_counted_and_the_signature_fits_the_batches(write, kind):
    write("vocab", *"abc")
    write("known", "a b c", "a c")
    write("text", "a B C", "b D")
    write("table", "a B C\ta b c\ta c", "b D\ta c\ta c")
    layer = TEXTS[kind]()
    batch = layer.make_batch(np.array([1, 0]))
    tf.nest.assert_same_structure(batch, layer.input_signature)
    for array, spec in zip(tf.nest.flatten(batch), tf.nest.flatten(layer.input_signature), strict=True):
        assert spec.is_compatible_with(tf.constant(array))
    file = "table" if "table" in kind or "labelled" in kind else "text"
    count, warning = layer.remarks()
    assert count == f"Unknown tokens in {file}: 3 (60.0 %) of 5, such as 'B' in line 1"
    assert warning.startswith("WARNING: the vocabulary vocab does not fit this text: correct ")


def test_nothing_is_said_about_known_tokens_and_no_warning_about_few_others(write):
    write("vocab", *"abc")
    write("known", "a b c", "a c")
    write("few", "a b c a b c a b c", "a c d")
    assert parallel(source_file="known", target_file="known").remarks() == []
    assert parallel(source_file="known", target_file="few").remarks() == [
        "Unknown tokens in few: 1 (8.3 %) of 12, such as 'd' in line 2"]


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2009", "\t", "  "])
def test_every_white_space_separates_tokens(write, space):
    write("vocab", *"abc")
    write("text", f"a{space}b c")
    layer = parallel(source_file="text", target_file="text")
    assert layer.remarks() == [] and layer.lengths.tolist() == [[5, 5]]


def test_a_space_in_a_token_of_the_vocabulary_does_not_separate(write):
    write("vocab", "a\u00a0b", "c")
    write("text", "a\u00a0b c")
    layer = parallel(source_file="text", target_file="text")
    assert layer.remarks() == [] and layer.lengths.tolist() == [[4, 4]]


def test_reserved_tokens_in_a_text(write):
    write("vocab", *"abc")
    write("text", "a b </S>", "c </S>")
    write("known", "a", "b")
    assert parallel(source_file="known", target_file="text").remarks() == [
        "WARNING: </S> occurs 2 times in text itself, but it is added to each line: remove it from the text, or "
        "results mean something else."]


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_the_end_token_in_the_text_of_a_language_model(write, kind):
    def layer():
        return WKTDataLayer({"data_root": ".", "processed_data_folder": kind, "bptt": 4, "batch_size": 1,
                             "tokenizer": {"type": kind}, "min_count": 1}, mode="train")

    write("train.txt", "a b <eos>", "", "c <eos> a <eos>")
    expected = [] if kind == "characters" else [
        "WARNING: <eos> occurs 3 times in ./train.txt itself, but it is added to each line: remove it from the text, "
        "or results mean something else."]
    assert layer().remarks() == expected
    write("train.txt", "a b", "", "c a")
    assert layer().remarks() == []


def test_the_size_of_a_text_does_not_depend_on_its_line_ends(write, tmp_path):
    sizes = set()
    for name, end in (("unix.txt", b"\n"), ("windows.txt", b"\r\n")):
        (tmp_path / name).write_bytes(end.join([b"a b", b"c", "é".encode(), b""]))
        sizes.add(WKTDataLayer({"text_file": name, "processed_data_folder": name[:-4], "data_root": ".", "bptt": 4,
                                "batch_size": 1, "min_count": 1}, mode="train").text_size())
    assert sizes == {(7, 9)}


LINES = ["10² ½… abc", "abc abc"] * 20


def nfkc(folder):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_prefix=str(folder / "old"), vocab_size=15, pad_id=0, eos_id=1, bos_id=2,
        unk_id=3, minloglevel=2)
    return "old.model"


def test_lines_that_a_sentencepiece_model_changes(write, tmp_path):
    write("text", *LINES)
    new, old = train_sentencepiece(["text"], "new", 14), nfkc(tmp_path)
    expected = ("old.model changes 20 (50.0 %) of the first 40 lines of text, such as '10²' to '102', which no output "
                "can contain: a model of scripts/tokenizer_wrapper.py keeps them")
    for model, remarks in ((old, [expected]), (new, [])):
        tokenizer = {"type": "sentencepiece", "model": model}
        assert parallel(source_file="text", target_file="text", tokenizer=tokenizer).remarks() == remarks
        assert WKTDataLayer({"text_file": "text", "bptt": 4, "batch_size": 1, "tokenizer": tokenizer},
                            mode="eval").remarks() == remarks
        assert make_alphabet(model, bpe=True).remarks(LINES, "text") == remarks
    assert normalized(sentencepiece.SentencePieceProcessor(model_file=old), " 10²  a ") == "102 a"
