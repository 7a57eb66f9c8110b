"""Files that a config names but that do not exist, and pairs of files of which only one is replaced."""

from __future__ import annotations

import pytest

from open_seq2seq.config.overrides import apply_overrides, parse_overrides
from open_seq2seq.models import Text2Text
from open_seq2seq.run.resolution import half_replaced, missing_files


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


OWN = {"data_layer": "ParallelTextDataLayer",
       "data_layer_params": {"source_file": "dev.en", "target_file": "dev.de", "src_vocab_file": "v", "max_length": 9}}
SEVERAL = {"data_layer": "MultiCorpusDataLayer", "data_layer_params": {
    "source_file": "in.txt", "corpora": {name: {"source_file": f"{name}.en", "target_file": f"{name}.x"}
                                         for name in ("de", "fr")}}}


@pytest.fixture
def files_of_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("dev.en", "dev.de", "de.en", "de.x", "fr.en", "fr.x", "in.txt"):
        (tmp_path / name).touch()


def halves(own, *arguments, section="eval"):
    overrides = parse_overrides(arguments)
    params, _ = apply_overrides(own, overrides, [f"{section}_params"])
    return half_replaced(Text2Text, params, own, section, overrides)


@pytest.mark.parametrize(("own", "given", "kept"), [
    (OWN, "--eval_params/data_layer_params/source_file=test.en", "target_file' is still 'dev.de'"),
    (OWN, "--data_layer_params/target_file=test.de", "source_file' is still 'dev.en'"),
    (OWN, "--eval_params/data_layer_params={source_file: test.en}", "target_file' is still 'dev.de'"),
    ({**OWN, "data_layer": "TransformerDataLayer"}, "--data_layer_params/source_file=test.en", "target_file' is still"),
    (SEVERAL, "--eval_params/data_layer_params/corpora/fr/source_file=test.en",
     "'--eval_params/data_layer_params/corpora/fr/target_file' is still 'fr.x'")])
@pytest.mark.usefixtures("files_of_config")
def test_one_file_of_a_pair_is_not_replaced_alone(own, given, kept):
    (problem,) = halves(own, given)
    assert kept in problem and "'--eval_params/data_layer_params/" in problem and problem.endswith("of the other.")
    assert halves(own, given.replace("eval_params/", ""), section="train")


@pytest.mark.parametrize(("own", "given"), [
    (OWN, ["--data_layer_params/source_file=dev.en"]),
    (OWN, ["--data_layer_params/source_file=test.en", "--eval_params/data_layer_params/target_file=dev.de"]),
    (OWN, ["--data_layer_params={source_file: test.en, target_file: dev.de}"]),
    (OWN, ["--infer_params/data_layer_params/source_file=test.en"]),
    (OWN, ["--data_layer_params/source_file=test.en", "--data_layer_params/use_targets=False"]),
    (OWN, ["--data_layer_params/src_vocab_file=w"]),
    ({**OWN, "data_layer": "TransformerDataLayer"}, ["--data_layer_params/data_dir=elsewhere"]),
    ({"data_layer": "TableTextDataLayer", "data_layer_params": {"source_file": "dev.tsv", "target_file": "x"}},
     ["--data_layer_params/source_file=test.tsv"]),
    (SEVERAL, ["--data_layer_params/source_file=new.txt"])])
@pytest.mark.usefixtures("files_of_config")
def test_files_that_belong_together_are_replaced(own, given):
    assert halves(own, *given) == []


@pytest.mark.usefixtures("files_of_config")
def test_a_file_that_was_moved_is_replaced_alone(tmp_path):
    (tmp_path / "dev.en").rename(tmp_path / "moved.en")
    assert halves(OWN, "--data_layer_params/source_file=moved.en") == []
