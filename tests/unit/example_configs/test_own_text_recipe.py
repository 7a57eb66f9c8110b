"""The recipe for one's own sentence pairs: its learning rate for any number of updates, and its three models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.models.builder import describe_model
from open_seq2seq.optimizers import make_schedule

RECIPE = Path(__file__).parents[3] / "example_configs/text2text/own-text.py"
MODELS = {"transformer": "TransformerDecoder", "convs2s": "ConvS2SDecoder", "gnmt": "RNNDecoderWithAttention"}
SIZES = {("transformer", "small"): 256, ("transformer", "base"): 512, ("convs2s", "small"): 256,
         ("convs2s", "base"): 512, ("gnmt", "small"): 320, ("gnmt", "base"): 1024}
LAYERS = {"conv_nchannels_kwidth": [[16, 3]]}
TINY = {
    "transformer": ({"encoder_layers": 1, "hidden_size": 16, "num_heads": 2},
                    {"num_hidden_layers": 1, "hidden_size": 16, "num_heads": 2}),
    "convs2s": ({**LAYERS, "src_emb_size": 16, "att_layer_num": 1}, {**LAYERS, "tgt_emb_size": 16, "out_emb_size": 16}),
    "gnmt": tuple({"core_cell_params": {"num_units": 16}, **own} for own in (
        {"src_emb_size": 16, "encoder_layers": 2},
        {"tgt_emb_size": 16, "decoder_layers": 2, "attention_layer_size": 16})),
}


def edited(folder: Path, **values: Any) -> Path:
    """Returns a config based on the recipe with other values of its variables."""
    lines = [f"base_config = {str(RECIPE)!r}", *(f"{name} = {value!r}" for name, value in values.items())]
    (folder / "my.py").write_text("\n".join(lines), encoding="utf-8")
    return folder / "my.py"


@pytest.mark.parametrize("steps_in_file", [300, 1000, 10000, 30000])
@pytest.mark.parametrize("steps_of_run", [150, 300, 1000, 10000])
def test_the_highest_rate_does_not_depend_on_the_number_of_updates(tmp_path, steps_in_file, steps_of_run):
    """Whether the file is edited, or the command line gives --max_steps: a tenth of the run leads to 0.002."""
    params = resolve(load_config(edited(tmp_path, max_steps=steps_in_file)), "train").params("train")
    schedule = make_schedule(params["lr_policy"], params["lr_policy_params"], steps_of_run)
    rates = [float(schedule(tf.constant(int(share * steps_of_run), tf.int64))) for share in (0.05, 0.1, 0.5, 1.0)]
    assert rates == pytest.approx([1e-3, 2e-3, 2e-3 * (5 / 9) ** 0.5, 0.0], rel=0.1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", ["small", "base"])
def test_each_model_and_size_is_accepted(tmp_path, model, size):
    config = resolve(load_config(edited(tmp_path, model=model, size=size)), "train_eval")
    spec = describe_model(config.base_model, config.params("train"), "train", config.given("train"))
    assert spec.params["decoder"].__name__ == MODELS[model]
    sizes = spec.params["encoder_params"]
    assert max(sizes.get(name, 0) for name in ("hidden_size", "src_emb_size")) == SIZES[model, size]
