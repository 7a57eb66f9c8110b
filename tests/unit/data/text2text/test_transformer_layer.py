"""The data layer of Transformer configs."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data import ParallelTextDataLayer, TransformerDataLayer
from open_seq2seq.utils.errors import ConfigError, DataError


@pytest.fixture
def params(tmp_path):
    (tmp_path / "v").write_text("<pad>\n</s>\n<s>\n<unk>\na\nb\nc\n")
    (tmp_path / "s").write_text("a b c\nb\nc c c c\n")
    (tmp_path / "t").write_text("c\na b\na a a\n")
    return {"data_dir": str(tmp_path), "source_file": "s", "target_file": "t", "src_vocab_file": str(tmp_path / "v"),
            "max_length": 8, "batch_size": 16, "mode": "train", "delimiter": " ", "shuffle": True, "repeat": 3}


def test_it_gives_what_parallel_text_gives_without_start_token(params, tmp_path):
    layer = TransformerDataLayer(params)
    ids, lengths = layer.make_batch(np.array([0, 2]))["source_tensors"]
    assert ids.tolist() == [[4, 5, 6, 1, 0], [6, 6, 6, 6, 1]] and lengths.tolist() == [4, 5]
    other = ParallelTextDataLayer({
        "source_file": str(tmp_path / "s"), "target_file": str(tmp_path / "t"),
        "src_vocab_file": params["src_vocab_file"],
        "tgt_vocab_file": params["src_vocab_file"], "max_length": 8, "use_start_token": False, "mode": "train"})
    np.testing.assert_array_equal(layer.lengths, other.lengths)
    assert layer.assets() == other.assets()


def test_batches_are_counted_in_tokens_by_default(params):
    assert TransformerDataLayer(params).params["batch_size_unit"] == "tokens"
    layer = TransformerDataLayer({**params, "batch_in_tokens": False, "pad_data_to_eight": True})
    assert layer.params["batch_size_unit"] == "sentences"
    assert layer.make_batch(np.arange(3))["target_tensors"][0].shape == (3, 8)


def test_tfrecords_are_refused_with_advice(params, tmp_path):
    for i in range(2):
        (tmp_path / f"wmt32k-train-0000{i}-of-00002").write_bytes(b"")
    old = {**params, "source_file": None, "file_pattern": "wmt32k-train-*-of-*"}
    with pytest.raises(DataError, match=r"wmt32k-train-00000-of-00002, .*TFRecord files.* source_file and target_file"):
        TransformerDataLayer(old)
    with pytest.raises(ConfigError, match="source_file' is missing"):
        TransformerDataLayer({**old, "file_pattern": "nothing-*"})


def test_interactive_mode_needs_no_text(params):
    layer = TransformerDataLayer({**params, "source_file": None, "target_file": None, "mode": "interactive_infer"})
    assert layer.make_interactive_batch(["a b"])["source_tensors"][0].tolist() == [[4, 5, 1]]
