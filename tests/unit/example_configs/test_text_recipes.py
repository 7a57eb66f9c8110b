"""Recipes of translation and of pairs in tables: they train at toy size, and the full networks are as published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts import prepare_wmt
from tests.integration.toy_data import make_toy_data
from tests.unit.example_configs.recipes import EXAMPLES, assert_trains, num_weights, params_of

FOLDER = EXAMPLES / "text2text"
TRANSFORMER = {"hidden_size": 16, "num_heads": 2, "filter_size": 32}
CONVOLUTIONS = {"conv_nchannels_kwidth": [[16, 3], [24, 1]]}
CELLS = {"core_cell_params": {"num_units": 16}}


def small_parts(encoder: dict[str, Any], decoder: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of encoder and decoder at toy size."""
    size = 8 if decoder.get("weight_tied") else 16
    if "core_cell" in encoder:
        return ({**encoder, **CELLS, "src_emb_size": size, "encoder_layers": min(encoder["encoder_layers"], 2)},
                {**decoder, **CELLS, "tgt_emb_size": size, "attention_layer_size": 16,
                 "decoder_layers": min(decoder["decoder_layers"], 3)})
    if "conv_nchannels_kwidth" in encoder:
        return ({**encoder, **CONVOLUTIONS, "src_emb_size": size},
                {**decoder, **CONVOLUTIONS, "tgt_emb_size": size, "out_emb_size": size})
    return {**encoder, **TRANSFORMER, "encoder_layers": 1}, {**decoder, **TRANSFORMER, "num_hidden_layers": 1}


# Layers of the slow ones are those of others, or tests/reference_losses.py trains them.
@pytest.mark.long
@pytest.mark.parametrize("name", [
    "en-de/transformer-nvgrad", "en-de/transformer-bn", "en-de/convs2s-8-gpu", "en-de/en-de-nmt-small",
    "en-de/en-de-gnmt-like-weight-tied-2GPUs", "en-de/gnmt-v2-4-layers",
    *(pytest.param(name, marks=pytest.mark.slow)
      for name in ("toy-reversal/nmt-reversal-CC", "toy-reversal/nmt-reversal-RR", "en-de/gnmt-multi30k",
                   "en-de/convs2s-multi30k", "en-de/en-de-gnmt-like-4GPUs"))])
def test_recipe_trains(name: str, tmp_path: Path):
    """On toy text and at toy size, with everything else as the recipe has it."""
    (tmp_path / "vocab.txt").write_text("\n".join(["<PAD>", "</S>", "<S>", "<UNK>", *"abcdef"]) + "\n")
    (tmp_path / "text").write_text("a b c\nd e f a\nb c\nf f e d\n", encoding="utf-8")
    base_model, params = params_of(FOLDER / f"{name}.py")
    params.update(logdir=None, batch_size_per_gpu=4, iter_size=1, max_steps=3, save_summaries_steps=None)
    if "core_cell" in params["encoder_params"] and params.get("initializer_params"):
        params["initializer_params"] = {"minval": -0.7, "maxval": 0.7}  # or Adam's epsilon hides the query's gradient
    params["encoder_params"], params["decoder_params"] = small_parts(params["encoder_params"], params["decoder_params"])
    vocab, text = str(tmp_path / "vocab.txt"), str(tmp_path / "text")
    params["data_layer_params"] = {
        **params["data_layer_params"], "src_vocab_file": vocab, "tgt_vocab_file": vocab, "source_file": text,
        "target_file": text, "special_tokens_already_in_vocab": True, "batch_size_unit": "sentences"}
    params["data_layer_params"].pop("tokenizer", None)
    assert_trains(base_model, params, tmp_path, updates=3, batch=4)


@pytest.mark.long
@pytest.mark.parametrize(("name", "task"), [
    ("toy-tables/dialogue", "dialogue"), ("toy-tables/summary", "summary"),
    pytest.param("toy-several/two-sources", "sources", marks=pytest.mark.slow)])
def test_recipe_of_a_table_trains(name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    make_toy_data(f"--task={task}")
    base_model, params = params_of(FOLDER / f"{name}.py")
    params.update(logdir=None, save_summaries_steps=None, batch_size_per_gpu=8)
    encoder, params["decoder_params"] = small_parts(params["encoder_params"], params["decoder_params"])
    if "encoders" in encoder:
        encoder = params["encoder_params"]
        for entry in encoder["encoders"].values():
            entry["encoder_params"].update(TRANSFORMER, encoder_layers=1)
    assert_trains(base_model, {**params, "encoder_params": encoder}, tmp_path, batch=8)


@pytest.mark.parametrize(("name", "options"), [
    ("en-de/transformer-big", []), ("en-de/gnmt-v2-4-layers", ["--vocab_size=32320", "--output_dir=wmt16_gnmt_v2"]),
    ("en-es/transformer-big", ["--target_lang=es", "--output_dir=wmt16_en_es"])])
def test_a_recipe_reads_the_files_that_its_command_writes(name: str, options: list[str]):
    args = prepare_wmt.parse_args(["--train_source=a", "--train_target=b", *options])
    texts = [f"{path}.shuffled" for path in prepare_wmt.clean_files(args)]
    layer = params_of(FOLDER / f"{name}.py")[1]["data_layer_params"]
    assert [layer["source_file"], layer["target_file"]] == [prepare_wmt.encoded_file(args, text) for text in texts]
    assert " ".join(["scripts/prepare_wmt.py", *options]) in (FOLDER / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "vocabulary", "millions"), [
    ("en-de-gnmt-like-4GPUs", 32768, 274.8), ("gnmt-v2-4-layers", 32320, 160.7), ("gnmt-v2-8-layers", 32320, 244.6),
    ("convs2s-8-gpu", 32768, 135.5)])
def test_number_of_weights(name: str, vocabulary: int, millions: float):
    found = num_weights(*params_of(FOLDER / f"en-de/{name}.py"), src_vocab_size=vocabulary, tgt_vocab_size=vocabulary,
                        batch_size=1)
    assert found / 1e6 == pytest.approx(millions, rel=0.005)
