"""Everything that the command line does, from Python: in one process, one after the other, also after errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.utils.errors import ConfigError, UserError

ROOT = Path(__file__).parents[2]
VALUES = {"max_steps": 4, "eval_steps": 2, "save_checkpoint_steps": 2, "print_loss_steps": 2,
          "print_samples_steps": None, "eval_params/batch_size_per_gpu": 200}
SMALL = {f"{part}_params/{key}": value for part in ("encoder", "decoder")
         for key, value in (("encoder_layers" if part == "encoder" else "num_hidden_layers", 1), ("hidden_size", 16),
                            ("filter_size", 16), ("num_heads", 2))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the toy corpus, shortened."""
    root = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, ROOT / "scripts" / "create_toy_data.py", f"--output_dir={root}/toy_text_data"],
                   check=True, capture_output=True)
    for file in (root / "toy_text_data").glob("*/*.txt"):
        if file.parent.name != "vocab":
            file.write_text("".join(file.read_text(encoding="utf-8").splitlines(True)[:200]), encoding="utf-8")
    return root


@pytest.fixture
def run(folder, monkeypatch):
    """Returns a run of the toy recipe in a log directory of this name."""
    monkeypatch.chdir(folder)
    return lambda logdir, **more: open_seq2seq.Run("nmt-reversal-TT", {**VALUES, **SMALL, **more}, logdir=logdir)


@pytest.mark.long
def test_all_verbs_one_after_another(run, folder, capsys):
    toy = run("run")
    with pytest.raises(UserError, match="The log directory run does not exist"):
        toy.evaluate()
    toy.check()
    first = toy.train(evaluate=True)
    assert set(first) == {"val_loss", "Eval_BLEU_Score", "Eval_chrF_Score"}
    with pytest.raises(UserError, match="give resume=True to resume"):
        toy.train()
    later = run("run", max_steps=6).train(evaluate=True, resume=True)
    assert later["val_loss"] != first["val_loss"]
    assert run("run").evaluate()["val_loss"] == pytest.approx(later["val_loss"], rel=1e-5)
    toy.infer(["toy_text_data/test/source.txt"], "out.txt")
    assert len((folder / "out.txt").read_text().splitlines()) == 200
    toy.benchmark(steps=2, start=1)
    assert "Avg tokens per second" in capsys.readouterr().out
    assert toy.report().is_file()
    texts = ["α β γ", "β", ""]
    model = open_seq2seq.load("run", beam_size=2)
    assert model.translate(texts) == [model.translate(text) for text in texts] and model.translate("") == ""
    best = model.translate(texts, n_best=2)
    assert [found[0] for found in best] == model.translate(texts) and [len(found) for found in best] == [2, 2, 1]
    assert "Text2Text" in repr(model) and "translate" in repr(model) and "'run'" in repr(toy)


@pytest.mark.long
def test_a_run_from_python_is_that_of_the_command_line(run, folder):
    run("one", random_seed=1).train()
    assert main(["--config_file=nmt-reversal-TT", "--mode=train", "--logdir=two", "--random_seed=1",
                 *(f"--{key}={value}" for key, value in {**VALUES, **SMALL}.items())]) == 0
    weights = [(folder / name / "model.ckpt-4" / "weights.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(("make", "kind", "said"), [
    (lambda run: open_seq2seq.load("nowhere"), UserError, "The folder nowhere does not exist: give the logdir"),
    (lambda run: open_seq2seq.Run("nmt-reversl-TT"), ConfigError, "Did you mean nmt-reversal-TT"),
    (lambda run: open_seq2seq.Run({"base_params": {}, "base_modle": 1}), ConfigError, "unknown key 'base_modle'"),
    (lambda run: open_seq2seq.Run("none.py"), ConfigError, "none.py does not exist"),
    (lambda run: run("x", infer_params={}), ConfigError, "'infer_params' is not the path"),
    (lambda run: run("x", beam_sze=1).check(), ConfigError, "Did you mean 'decoder_params/beam_size'"),
    (lambda run: run("x", attention_dropout=0.0).check(), ConfigError,
     "'attention_dropout' may mean encoder_params/attention_dropout or decoder_params/attention_dropout"),
    (lambda run: open_seq2seq.Run("nmt-reversal-TT").report(), UserError, "give logdir"),
    (lambda run: run("x").infer(["none.txt"], "out.txt"), UserError, "none.txt, which does not exist"),
])
def test_errors_speak_of_arguments(run, make, kind, said):
    with pytest.raises(kind, match=re.escape(said)) as caught:
        make(run)
    assert "--" not in str(caught.value)


def test_a_config_may_be_a_dict(run, folder):
    from open_seq2seq.config.loader import load_config

    file = load_config(ROOT / "example_configs/text2text/toy-reversal/nmt-reversal-TT.py")
    config = {"base_model": file.base_model, **file.sections}
    open_seq2seq.Run(config, {"max_steps": 1, "encoder_params/hidden_size": 16, "decoder_params/hidden_size": 16},
                     logdir="dict").train(enable_logs=True)
    (saved,) = (folder / "dict").glob("config_*.yaml")
    assert "hidden_size: 16" in saved.read_text() and isinstance(open_seq2seq.load("dict").translate("α"), str)


def test_a_verb_of_another_task_is_named(run, capsys, monkeypatch):
    run("verb", max_steps=1).train()
    assert main(["transcribe", "verb", "toy_text_data/test/source.txt"]) == 2
    assert "The model of verb, Text2Text, does not transcribe: use translate" in capsys.readouterr().err
    Path("three.txt").write_text("α β\nγ\nδ\n", encoding="utf-8")
    assert main(["translate", "verb", "three.txt", "--output=verb.txt", "--decoder_params/beam_size=1"]) == 0
    assert len(Path("verb.txt").read_text().splitlines()) == 3


# Notebook → text of a cell and what is written in its place for shorter trainings, and what the outputs show. The
# listener must have learnt words to give their times.
NOTEBOOKS = {
    "toy": ({": 300,": ": 20,"}, ["image/png", "Eval_BLEU_Score"]),
    "serve_translation": ({'{"max_steps": 800}': '{"max_steps": 20}'}, ["'translatedText': ['"]),
    "serve_speech": ({'"toy-durations", {"max_steps": 300}': '"toy-durations", {"max_steps": 20}'},
                     ["<audio", "-->", "SpokenWord(text="]),
}


@pytest.mark.outside
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "docs" / "examples" / f"{name}.ipynb", as_version=4)
    shorter, shown = NOTEBOOKS[name]
    for before, after in shorter.items():
        assert any(before in cell.source for cell in notebook.cells)
        for cell in notebook.cells:
            cell.source = cell.source.replace(before, after)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = json.dumps([cell.get("outputs") for cell in notebook.cells], ensure_ascii=False)
    assert [text for text in shown if text not in outputs] == []
