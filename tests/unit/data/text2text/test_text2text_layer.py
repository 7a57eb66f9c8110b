"""The data layer of parallel text."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data import ParallelTextDataLayer
from open_seq2seq.utils.errors import ConfigError, DataError

LETTERS = "abcdefgh"


class Files:
    """A folder with a vocabulary and a small corpus; ``params`` names them."""

    def __init__(self, folder):
        self.folder = folder
        self.vocab = self.write("vocab.txt", list(LETTERS))
        self.source_lines = [" ".join(LETTERS[:i % 7 + 1]) for i in range(20)]
        self.target_lines = [" ".join(reversed(line.split())) for line in self.source_lines]

    def write(self, name, lines):
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(self.folder / name)

    def params(self, **changed):
        return {"source_file": self.write("source.txt", self.source_lines),
                "target_file": self.write("target.txt", self.target_lines),
                "src_vocab_file": self.vocab, "tgt_vocab_file": self.vocab, "special_tokens_already_in_vocab": False,
                "max_length": 16, "batch_size": 4, "mode": "train", **changed}

    def layer(self, **changed):
        return ParallelTextDataLayer(self.params(**changed))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def ids_of(line):
    return [4 + LETTERS.index(token) for token in line.split()]


@pytest.mark.parametrize("start", [False, True])
def test_a_batch_holds_its_examples(files, start):
    layer = files.layer(use_start_token=start)
    examples = np.array([3, 0, 13])
    batch = layer.make_batch(examples)
    assert batch["ids"].tolist() == [3, 0, 13]
    for side, lines in (("source_tensors", files.source_lines), ("target_tensors", files.target_lines)):
        ids, lengths = batch[side]
        for row, length, example in zip(ids, lengths, examples, strict=True):
            assert row[:length].tolist() == [2] * start + ids_of(lines[example]) + [1]
            assert not row[length:].any()
    np.testing.assert_array_equal(layer.lengths[examples], np.stack(
        [batch["source_tensors"][1], batch["target_tensors"][1]], axis=1))


def test_texts_of_examples(files):
    layer = files.layer(mode="eval")
    batch = layer.make_batch(np.arange(20))
    for example in range(20):
        assert layer.reference_text(example) == files.target_lines[example]
        assert layer.source_to_text(batch["source_tensors"][0][example]) == files.source_lines[example]
        assert layer.ids_to_text(batch["target_tensors"][0][example]) == files.target_lines[example]


def test_training_drops_empty_and_long_pairs(files):
    files.source_lines[2], files.target_lines[5], files.source_lines[7] = "", "  ", " ".join("a" * 15)
    files.source_lines[9] = " ".join("a" * 14)  # fits: 14 tokens and two special ones
    layer = files.layer()
    assert layer.num_examples == 17 and layer.lengths.max() == 16
    assert layer.report_dropped() == {"an empty side": 2, "longer than max_length 16": 1}
    kept = [i for i in range(20) if i not in (2, 5, 7)]
    assert [layer.describe_example(example).rpartition("/")[2] for example in range(17)] == [
        f"source.txt:{i + 1}" for i in kept]
    assert [layer.reference_text(example) for example in range(17)] == [files.target_lines[i] for i in kept]
    batch = layer.make_batch(np.arange(17))
    assert layer.ids_to_text(batch["target_tensors"][0][16]) == files.target_lines[19]


def test_training_cuts_long_pairs_to_max_length(files):
    long = "abcdefgh" * 3
    files.source_lines[3] = files.target_lines[4] = " ".join(long)
    layer = files.layer(cut_long=True)
    assert layer.num_examples == 20 and not layer.report_dropped()
    batch = layer.make_batch(np.array([3, 4]))
    for row in (batch["source_tensors"][0][0], batch["target_tensors"][0][1]):
        assert row.tolist() == [2] + ids_of(" ".join(long[:14])) + [1]


@pytest.mark.parametrize("mode", ["eval", "infer"])
def test_evaluation_keeps_every_line(files, mode):
    files.source_lines[2], files.source_lines[7] = "", " ".join("a" * 30)
    layer = files.layer(mode=mode)
    assert layer.num_examples == 20 and not layer.report_dropped()
    assert layer.cut_remark() == ("Longer than max_length 16, so only the beginning is read: 1 of 20 lines, "
                                  f"the first is {files.folder}/source.txt:8")
    ids, lengths = layer.make_batch(np.array([2, 7]))["source_tensors"]
    assert lengths.tolist() == [2, 16]
    assert ids[0, :2].tolist() == [2, 1] and ids[1].tolist() == [2] + [4] * 14 + [1]


def test_the_first_line_that_is_cut_is_named_with_its_file(files):
    files.target_lines[11] = files.source_lines[15] = " ".join("a" * 15)
    assert files.layer(mode="eval").cut_remark().endswith(f"2 of 20 lines, the first is {files.folder}/target.txt:12")
    assert files.layer(mode="infer", target_file=None).cut_remark().endswith("source.txt:16")
    files.source_lines[15] = files.target_lines[11] = " ".join("a" * 14)  # fits: 14 tokens and two special ones
    assert files.layer(mode="eval").cut_remark() == "" == files.layer(max_length=9).cut_remark()


def test_typed_lines_that_are_cut_are_known(files):
    layer = files.layer(mode="interactive_infer")
    layer.make_interactive_batch(["a", " ".join("a" * 15), " ".join("b" * 14), " ".join("b" * 20)])
    assert layer.newest_cut.tolist() == [1, 3] and layer.cut_remark() == ""
    layer.make_scoring_batch([" ".join("a" * 15), "a"], ["a", "b"])
    assert layer.newest_cut.tolist() == [0]


def test_inference_reads_no_targets(files):
    layer = files.layer(mode="infer", target_file=None)
    assert layer.lengths.shape == (20,) and "target_tensors" not in layer.make_batch(np.arange(2))
    with pytest.raises(DataError, match="not available in inference"):
        layer.reference_text(0)


def test_sources_can_be_the_targets(files):
    batch = files.layer(use_targets=False, target_file=None).make_batch(np.arange(5))
    np.testing.assert_array_equal(batch["source_tensors"][0], batch["target_tensors"][0])


def test_lengths_padded_to_eight(files):
    layer = files.layer(pad_lengths_to_eight=True)
    ids, lengths = layer.make_batch(np.arange(20))["source_tensors"]
    assert ids.shape[1] % 8 == 0 and lengths.max() == 9 < ids.shape[1]
    assert set(layer.lengths.ravel()) == {8, 16}
    with pytest.raises(ConfigError, match="multiple of 8"):
        files.layer(pad_lengths_to_eight=True, max_length=17)


def test_sentencepiece_on_raw_text(files, model_path, sentences):
    raw = files.write("raw.txt", sentences)
    layer = ParallelTextDataLayer({
        "source_file": raw, "target_file": raw, "max_length": 60, "mode": "eval",
        "tokenizer": {"type": "sentencepiece", "model": model_path}})
    batch = layer.make_batch(np.arange(len(sentences)))
    assert [layer.ids_to_text(row) for row in batch["target_tensors"][0]] == sentences
    assert [layer.reference_text(i) for i in range(len(sentences))] == sentences
    assert layer.source_vocab_size == 44


def test_interactive_mode_needs_no_files(files):
    layer = files.layer(mode="interactive_infer", source_file="nowhere", target_file=None)
    batch = layer.make_interactive_batch(["a b", "", " ".join("c" * 50)])
    ids, lengths = batch["source_tensors"]
    assert lengths.tolist() == [4, 2, 16] and ids[0, :4].tolist() == [2, 4, 5, 1]
    assert batch["ids"].tolist() == [0, 1, 2] and layer.make_interactive_batch("a b")["ids"].tolist() == [0]
    tf.nest.assert_same_structure(batch, layer.input_signature)
    for bad in ([], [1]):
        with pytest.raises(DataError):
            layer.make_interactive_batch(bad)
    with pytest.raises(DataError):
        layer.make_batch(np.arange(2))


def test_interactive_batches_equal_those_of_files(files):
    layer = files.layer(mode="infer")
    typed = layer.make_interactive_batch(files.source_lines)
    read = layer.make_batch(np.arange(20))
    for a, b in zip(tf.nest.flatten(typed), tf.nest.flatten(read), strict=True):
        np.testing.assert_array_equal(a, b)


def test_assets_can_be_moved(files, tmp_path, model_path):
    params = files.params()
    assets = ParallelTextDataLayer(params).assets()
    assert set(assets) == {"src_vocab_file", "tgt_vocab_file"}
    moved = {name: files.write(f"moved-{name}", LETTERS) for name in assets}
    assert ParallelTextDataLayer(ParallelTextDataLayer.params_with_assets(params, moved)).assets() == moved

    tokenizer = {"type": "sentencepiece", "model": model_path}
    piece_params = files.params(mode="interactive_infer", tokenizer=tokenizer)
    assert ParallelTextDataLayer(piece_params).assets() == {"tokenizer_model": model_path}
    changed = ParallelTextDataLayer.params_with_assets(piece_params, {"tokenizer_model": "there", "unknown": "x"})
    assert changed["tokenizer"] == {"type": "sentencepiece", "model": "there"}
    assert piece_params["tokenizer"]["model"] == model_path


def test_unequal_numbers_of_lines(files):
    files.target_lines.append("a")
    with pytest.raises(DataError, match="has 20 lines, but .* has 21"):
        files.layer()


def test_nothing_left(files):
    files.source_lines, files.target_lines = ["", "a b c d"], ["a", "b"]
    with pytest.raises(DataError, match="All 2 .* 1 have an empty side, 1 are longer than max_length 5"):
        files.layer(max_length=5)


@pytest.mark.parametrize(("changed", "error", "message"), [
    ({"target_file": None}, ConfigError, "target_file' is missing"),
    ({"max_length": 3}, ConfigError, "max_length' is 3"),
    ({"src_vocab_file": None}, ConfigError, "src_vocab_file' is missing"),
    ({"max_lenght": 5}, ConfigError, "Did you mean 'max_length'"),
    ({"source_file": "nowhere.txt"}, DataError, "nowhere.txt does not exist"),
    ({"tgt_vocab_file": "nowhere.txt"}, DataError, "nowhere.txt does not exist"),
])
def test_bad_params_are_refused(files, changed, error, message):
    with pytest.raises(error, match=message):
        files.layer(**changed)


def test_a_check_compares_indexes_with_the_whole_texts(files, tmp_path, capsys):
    params = files.params(index_dir=str(tmp_path / "i"))
    layer = ParallelTextDataLayer(params)
    said = [f"the index of {params[side]} was compared with the whole text" for side in ("source_file", "target_file")]
    batch = layer.make_batch(np.arange(20))["source_tensors"][0].tolist()
    assert layer.examine() == said and "anew" not in capsys.readouterr().out
    for index in (tmp_path / "i").glob("*.index"):
        content = bytearray(index.read_bytes())
        content[10] ^= 1
        index.write_bytes(content)
    layer = ParallelTextDataLayer(params)
    assert capsys.readouterr().out.count(": it is damaged, or has another version") == 2
    assert layer.examine() == said and capsys.readouterr().out == ""
    assert layer.make_batch(np.arange(20))["source_tensors"][0].tolist() == batch
    assert files.layer().examine() == []
