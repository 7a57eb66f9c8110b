"""The recipes of language models and transfer on toy data: they can be built, and one of them trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.data.lm.tokenizers import LMVocabulary, count_tokens
from open_seq2seq.models.builder import check_model, describe_model
from tests.unit.example_configs.recipes import assert_trains

FOLDER = Path(__file__).parents[3] / "example_configs"
RECIPES = sorted([*(FOLDER / "lm").glob("*.py"), *(FOLDER / "transfer").glob("*.py")])
WORDS = "the film is good bad very plot and".split()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A folder with a text, sentences with classes, reviews, and a vocabulary."""
    folder = tmp_path_factory.mktemp("toy")
    for name in ("train", "valid"):
        (folder / f"{name}.txt").write_text((" ".join(WORDS) + "\n") * 900, encoding="utf-8")
    (folder / "train.csv").write_text("1,good film\n0,bad film\n" * 80)
    for part in ("pos", "neg"):
        (folder / "train" / part).mkdir(parents=True)
        for number in range(600):
            (folder / "train" / part / f"{number}_{1 + 9 * (part == 'pos')}.txt").write_text("good film")
    LMVocabulary.of_counts(count_tokens([WORDS] * 5)).save(str(folder / "vocab.txt"))
    return folder


def on_toy_data(recipe: Path, toy: Path):
    config = resolve(load_config(recipe), "train")
    params = config.params("train")
    root = str(toy)
    params.update(logdir=None, load_model=None, lm_vocab_file=f"{root}/vocab.txt", use_horovod=False, num_gpus=None)
    params["data_layer_params"] = {**params["data_layer_params"], "data_root": root}
    if "adaptive_softmax" in params["encoder_params"]:  # the toy vocabulary is smaller than the recipe's cutoffs
        params["encoder_params"] = {**params["encoder_params"], "adaptive_softmax": {"cutoffs": [4, 6], "factor": 1.0}}
    return config.base_model, params


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_built(recipe: Path, toy: Path):
    base_model, params = on_toy_data(recipe, toy)
    check_model(describe_model(base_model, params, "train"))


@pytest.mark.long
def test_the_awd_recipe_trains(toy: Path, tmp_path: Path):
    base_model, params = on_toy_data(FOLDER / "lm/awd-lstm-wkt2.py", toy)
    params["encoder_params"] = {**params["encoder_params"], "core_cell_params": {"num_units": 6}, "encoder_layers": 2,
                                "emb_size": 5, "recurrent_weight_keep_prob": 0.9}
    params.update(batch_size_per_gpu=2, max_steps=4, num_epochs=None)
    params["data_layer_params"]["bptt"] = 12
    assert_trains(base_model, params, tmp_path)
