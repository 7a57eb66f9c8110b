"""Folders for Hugging Face's transformers; with transformers and torch, their results are those of inference."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq import Run
from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.export import formats
from open_seq2seq.export.export import export
from open_seq2seq.export.formats import format_of
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.utils.errors import UserError
from tests.integration.toy_data import ROOT, make_toy_data

TEXTS = ["a b c", "b", "", "c  e d a b", "häuser b a", "e " * 60]
VOCABULARY = "".join(f"{number}\t{token}\t1\n" for number, token in enumerate(["<unk>", "<eos>", *"abcde"])) + "7\n"
PIECES = {"data_layer_params/tokenizer": {"type": "sentencepiece", "model": "pieces.model"}}
LANGUAGE = {"data_layer_params/processed_data_folder": "toy_text_lm/processed",
            "data_layer_params/data_root": "toy_text_lm",
            **{f"encoder_params/{name}": value for name, value in {
                "encoder_layers": 2, "hidden_size": 16, "num_heads": 2, "filter_size": 32, "fc_use_bias": False,
                "num_tokens_gen": 6, "weight_tied": False, "position_encoding": "sinusoidal", "memory_length": None,
                "adaptive_softmax": None}.items()}}
FAMILIES = {"words": ("text2text/toy-reversal/nmt-reversal-TT.py", {"decoder_params/beam_size": 3}),
            "pieces": ("text2text/toy-reversal/nmt-reversal-TT.py", PIECES),
            "language model": ("lm/transformer-wkt2.py", LANGUAGE)}


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    before = os.getcwd()
    os.chdir(folder)
    try:
        make_toy_data("--output_dir=toy_text_data")
        (folder / "text.txt").write_text("\n".join(["a bcd häuser e ade", "bade dab cab ee"] * 20), encoding="utf-8")
        train_sentencepiece(["text.txt"], "pieces", 32)
        (folder / "toy_text_lm/processed").mkdir(parents=True)
        (folder / "toy_text_lm/processed/vocab.txt").write_text(VOCABULARY, encoding="utf-8")
        yield folder
    finally:
        os.chdir(before)


def untrained(recipe, values) -> TrainedModel:
    options = Run(str(ROOT / "example_configs" / recipe), {**values, "dtype": "float32"}).options("interactive_infer")
    spec = describe_sections(options)["interactive_infer"]
    return TrainedModel(build_model(spec, seed=3), spec)


def exported(recipe, values, folder: Path) -> tuple[TrainedModel, dict]:
    trained = untrained(recipe, values)
    folder.mkdir()
    compared = trained.variant(format_of("huggingface").search(trained.model))
    return trained, export(trained.model, "huggingface", folder, compared.infer, lambda: TEXTS, str(folder))


def norm(array: np.ndarray) -> float:
    return round(float(np.abs(array.astype(np.float64)).sum()), 6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_folder_has_every_weight_and_says_that_it_is_not_checked(toys, monkeypatch, capsys, family):
    monkeypatch.setattr(formats, "_missing", lambda packages: list(packages))
    trained, report = exported(*FAMILIES[family], toys / f"{family} unchecked")
    assert "not checked, because transformers and torch cannot be imported" in capsys.readouterr().out
    assert report["functions"] == {}
    folder = toys / f"{family} unchecked"
    tensors = load_file(folder / "model.safetensors")
    sums = {norm(tensor) for tensor in tensors.values()}
    # Other tensors are joined, scaled or stored without padding.
    for name, variable in named_variables(trained.model).items():
        if variable.shape.rank == 2 and "embedding" not in name and not name.endswith(("query", "key", "value")):
            assert norm(variable.numpy()) in sums, name
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == len(tensors["lm_head.weight"])
    assert "AutoTokenizer" in (folder / "README.md").read_text()


@pytest.mark.outside
@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_inference(toys, family):
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("transformers", reason="needs transformers")
    _, report = exported(*FAMILIES[family], toys / family)
    (one,) = report["functions"].values()
    assert one["equal"] == one["examples"] == 2 * len(TEXTS)


@pytest.mark.parametrize(("recipe", "values", "said"), [
    ("text2text/toy-reversal/nmt-reversal-RR.py", {}, "it has a"),
    ("lm/transformer-wkt2.py", {**LANGUAGE, "encoder_params/fc_use_bias": True}, "has a bias"),
    ("lm/transformer-wkt2.py", {**LANGUAGE, "encoder_params/position_encoding": "alibi"},
     "'encoder_params/position_encoding' is alibi"),
])
def test_what_the_format_cannot_hold_is_refused(recipe, values, said):
    with pytest.raises(UserError, match=said):
        format_of("huggingface").functions(untrained(recipe, values).model)
