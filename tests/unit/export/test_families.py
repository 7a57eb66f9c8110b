"""Untrained toy models of every family of text as SavedModels: in a process without the package, results are equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq import Run
from open_seq2seq.export.export import export
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.run.training_setup import describe_sections
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
    "language model": ("lm/toy-lm.py", {"decoder_params": {}}),
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


def exported(family, folder) -> dict:
    trained = untrained(family)
    folder.mkdir()
    return export(trained.model, "savedmodel", folder, trained.infer, LINES, str(folder))


@pytest.mark.parametrize("family", ["transformer", "labels", "language model", *(
    pytest.param(family, marks=pytest.mark.long)
    for family in ("sampled transformer", "convs2s", "rnn", "several decoders"))])
def test_results_are_those_of_inference(toys, family):
    folder = toys / family
    report = exported(family, folder)
    for one in report["functions"].values():
        assert one["equal"] == one["examples"] == 2 * len(LINES) and one["largest_difference"] < 1e-4
    assert report["bytes"] < 4e6
    for path in folder.rglob("*"):
        if path.suffix in (".pb", ".index"):
            assert b"open_seq2seq" not in path.read_bytes() and str(ROOT).encode() not in path.read_bytes()
