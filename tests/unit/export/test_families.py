"""Untrained toy models of every family of text as SavedModels: in a process without the package, results are equal."""

from __future__ import annotations

import errno
import gc
import os
import sys
import weakref
from types import SimpleNamespace

import pytest
import tensorflow as tf

from open_seq2seq import Run
from open_seq2seq.cli import main
from open_seq2seq.export import saved_model, sentencepiece
from open_seq2seq.export.export import export
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run import exporting
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import NoGraphForm, UserError
from tests.integration.toy_data import ROOT, make_toy_data

RECIPES = ROOT / "example_configs"
SMALL = {"encoder_params/hidden_size": 16, "encoder_params/filter_size": 32, "encoder_params/num_heads": 2,
         "decoder_params/hidden_size": 16, "decoder_params/filter_size": 32, "decoder_params/num_heads": 2}
SIZES = {"encoder_params/core_cell_params/num_units": 16, "decoder_params/core_cell_params/num_units": 16}


def reversal(kind, **values):
    return f"text2text/toy-reversal/nmt-reversal-{kind}.py", values


FAMILIES = {
    "transformer": reversal("TT", **SMALL, **{"decoder_params/n_best": 2}),
    "sampled transformer": reversal("TT", **SMALL, **{"decoder_params/sampling_temperature": 1.0}),
    "convs2s": reversal("CC"),
    "rnn": reversal("RR"),
    "several decoders": ("text2text/toy-several/reverse-and-copy.py", {"language": "copied"}),
    "labels": ("text2label/toy-labels.py", {}),
    "language model": ("lm/toy-lm.py", {}),
}
LINES = ["α β γ", "δ", "", "κ ι θ η ζ ε δ", "ω α  β", "α\u3000β", "β " * 3000, "α" * 3000, "e\u0301 α"]
VOCABULARY = "".join(f"{number}\t{token}\t1\n" for number, token in enumerate(["<unk>", "<eos>", *"αβγδε"])) + "7\n"


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    before = os.getcwd()
    os.chdir(folder)
    try:
        make_toy_data("--output_dir=toy_text_data")
        make_toy_data("--task=labels")
        (folder / "toy_text_lm/processed").mkdir(parents=True)
        (folder / "toy_text_lm/processed/vocab.txt").write_text(VOCABULARY, encoding="utf-8")
        yield folder
    finally:
        os.chdir(before)


def untrained(family) -> TrainedModel:
    recipe, values = FAMILIES[family]
    options = Run(str(RECIPES / recipe), values).options("interactive_infer")
    return TrainedModel(build_model(describe_sections(options)["interactive_infer"], seed=3))


def exported(family, folder) -> tuple[TrainedModel, dict]:
    trained = untrained(family)
    folder.mkdir()
    return trained, export(trained.model, "savedmodel", folder, trained.infer, lambda: LINES, str(folder))


@pytest.mark.long
def test_an_export_leaves_no_graph_in_memory(toys):
    def graphs() -> weakref.WeakSet:
        gc.collect()
        # By the type, because isinstance looks into weak proxies, whose objects may be gone.
        return weakref.WeakSet(one for one in gc.get_objects() if issubclass(type(one), tf.__internal__.FuncGraph))

    before, model = graphs(), untrained("transformer").model
    saved_model.write(model, model.serving_functions(), toys / "only saved")
    del model
    assert not [graph.name for graph in graphs() if graph not in before]


@pytest.mark.parametrize("family", ["labels", *(
    pytest.param(family, marks=pytest.mark.long)
    for family in ("transformer", "language model", "sampled transformer", "convs2s", "rnn", "several decoders"))])
def test_results_are_those_of_inference(toys, family):
    folder = toys / family
    trained, report = exported(family, folder)
    for one in report["functions"].values():
        assert one["equal"] == one["examples"] == 2 * len(LINES) and one["largest_difference"] < 1e-4
    weights = sum(variable.numpy().nbytes for variable in named_variables(trained.model).values())
    assert weights < report["bytes"] < weights + 3e6
    for path in folder.rglob("*"):
        if path.suffix in (".pb", ".index"):
            assert b"open_seq2seq" not in path.read_bytes() and str(ROOT).encode() not in path.read_bytes()


def test_odd_batches_have_results(toys):
    if not (folder := toys / "labels").exists():
        exported("labels", folder)
    classify = tf.saved_model.load(str(folder)).signatures["classify"]
    assert classify(texts=tf.constant([], tf.string))["labels"].shape == [0]
    labels = classify(texts=tf.constant([b"\xff\xfe \xce", b"", b"\x00"]))["labels"].numpy().tolist()
    assert labels[1] == b"" and all(labels[::2])


@pytest.fixture
def run(toys, monkeypatch):
    """Exports the classifier as the command does, with other examples and, if given, other results of inference."""
    trained = untrained("labels")
    monkeypatch.setattr(exporting, "_examples", lambda options: LINES[:2])

    def call(folder, infer=trained.infer):
        compared = SimpleNamespace(infer=infer)
        monkeypatch.setattr(exporting.session, "load",
                            lambda options: SimpleNamespace(model=trained.model, variant=lambda values: compared))
        return exporting.export_run(None, None, "savedmodel", str(folder))

    call.infer = trained.infer
    return call


@pytest.mark.long
def test_an_export_that_computes_other_results_is_not_written(run, tmp_path):
    with pytest.raises(UserError, match="only 0 of 4 results as inference does, so nothing was written; the first"):
        run(tmp_path / "new", lambda inputs: [("other", 1.0)] * len(inputs))
    with pytest.raises(UserError, match=r"differ by 0\.\d+ from those of inference"):
        run(tmp_path / "new", lambda inputs: [(label, p + 0.1) for label, p in run.infer(inputs)])
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_what_the_user_has_stays(run, tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/thesis.txt").write_text("text")
    with pytest.raises(UserError, match="contains files, but no earlier export"):
        run(tmp_path / "own")

    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "write_new", full)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path / "new")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["own", "own/thesis.txt"]


@pytest.mark.parametrize(("arguments", "said"), [
    (["--logdir=nowhere", "--export_dir=x"], "does not exist"),
    (["--logdir=nowhere", "--export_dir=x", "--export_format=savedmodle"], "Did you mean 'savedmodel'?"),
    (["--logdir=nowhere"], "needs --export_dir"),
    (["--export_dir=x"], "neither a config nor a trained model"),
    (["--logdir=empty", "--export_dir=x"], "has no checkpoint"),
    (["--logdir=file", "--export_dir=x"], "neither a log directory nor an intact packed model"),
    (["--logdir=empty", "--export_dir="], "needs --export_dir"),
    (["--logdir=empty", "--export_dir=x", "--export_format=ONNX"], "has to be one of savedmodel"),
    (["--logdir=empty", "--export_dir=x", "--mode=exprot"], "Did you mean 'export'?"),
    (["--logdir=empty", "--export_dir=x", "--mode=eval"], "--export_dir is for --mode=export"),
    (["--logdir=empty", "--export_dir=x", "--export_format="], "--export_format is '' but has to be one of savedmodel"),
    (["--logdir=empty", "--export_format=onnx", "--mode=eval"], "--export_format is for --mode=export"),
    (["--logdir=empty", "--export_dir=x", "--num_workers"], "--num_workers"),
])
def test_mistakes_are_one_sentence(tmp_path, monkeypatch, capfd, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert main(["--mode=export", *arguments]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


@pytest.mark.parametrize(("words", "said"), [
    (["--export_dir=x"], "export LOGDIR [FILE ...] --export_dir=FOLDER"), (["nowhere"], "needs --export_dir"),
    (["nowhere", "--export_dir=x"], "does not exist"),
])
def test_mistakes_of_the_command_are_one_sentence(tmp_path, monkeypatch, capfd, words, said):
    monkeypatch.chdir(tmp_path)
    assert main(["export", *words]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    monkeypatch.setattr(sentencepiece.tf, "__version__", "2.21.0")
    with pytest.raises(UserError, match=r"pip install --no-deps tensorflow-text==2\.21\.\*"):
        sentencepiece._text_package()
    monkeypatch.setattr(sentencepiece.tf, "__version__", "2.18.1")
    with pytest.raises(NoGraphForm, match=r"this is 2\.18\.1"):
        sentencepiece._text_package()
