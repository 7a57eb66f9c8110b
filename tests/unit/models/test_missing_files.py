"""Files that a config names but that do not exist."""

from __future__ import annotations

from open_seq2seq.models import Text2Text
from open_seq2seq.models.missing_files import missing_files


def found(folder, **files):
    paths = {name: str(folder / value) for name, value in files.items()}
    return missing_files(Text2Text, {"data_layer": "ParallelTextDataLayer", "data_layer_params": paths}, "train")


def test_a_file_that_two_parameters_name_is_reported_once(tmp_path):
    (tmp_path / "vocab.text").write_text("a\n")
    (tmp_path / "train.src").write_text("a\n")
    files = {"source_file": "train.src", "src_vocab_file": "vocab.txt", "tgt_vocab_file": "vocab.txt"}
    path = tmp_path / "vocab.txt"
    assert found(tmp_path, **files) == [
        f"'data_layer_params/src_vocab_file' and 'data_layer_params/tgt_vocab_file' are '{path}', but the file {path} "
        "does not exist. Did you mean 'vocab.text'?"]
    path.write_text("a\n")
    assert found(tmp_path, **files) == []


def test_links_are_left_to_the_data_layer(tmp_path):
    (tmp_path / "itself").symlink_to("itself")
    assert found(tmp_path, source_file="itself") == []
