"""Untrained toy models of text, and their exports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from open_seq2seq import Run
from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.export.export import export
from open_seq2seq.export.formats import format_of
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.run.training_setup import describe_sections
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


def make_toys(folder: Path) -> Iterator[Path]:
    """Makes the data of the recipes in a folder, and works there."""
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


def untrained(recipe: str, values: Mapping[str, Any]) -> TrainedModel:
    options = Run(str(ROOT / "example_configs" / recipe), {**values, "dtype": "float32"}).options("interactive_infer")
    spec = describe_sections(options)["interactive_infer"]
    return TrainedModel(build_model(spec, seed=3), spec)


def exported(trained: TrainedModel, format_name: str, folder: Path, texts: Sequence[str] = TEXTS) -> dict[str, Any]:
    """Exports a model into a new folder; returns the report."""
    folder.mkdir()
    compared = trained.variant(format_of(format_name).search(trained.model))
    return export(trained.model, format_name, folder, compared.infer, lambda: texts, str(folder))
