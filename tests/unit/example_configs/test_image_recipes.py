"""The recipes of Image2Label train at a small size on made-up data; parameters of the full networks."""

from __future__ import annotations

import math

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.data.image2label.toy_images import SHAPES, write_toy_cifar, write_toy_folders
from open_seq2seq.encoders import CNNEncoder
from open_seq2seq.parts.component import creating_variables, described_variables
from tests.unit.example_configs.recipes import EXAMPLES, assert_trains
from tests.unit.example_configs.test_speech_recipes import COMMANDS

# tests/integration/test_own_labels.py trains own-images, which reads lists.
RECIPES = [*(path for path in sorted((EXAMPLES / "image2label").glob("*.py")) if path.stem != "own-images"),
           *(EXAMPLES / f"speech2text/{name}.py" for name in COMMANDS)]
# These differ from another recipe in the optimizer, the batch size or the number of epochs.
LIKE_OTHERS = {"resnet-50-v2-mp", "resnet-50v2-adamw", "resnet-50v2-nvgrad", "resnet_commands_8gpu", "toy-resnet8",
               "jasper_commands_8gpu", "cifar10-resnet20"}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_toy_cifar(str(folder), 10, 4)
    write_toy_folders(str(folder), {"train": 8, "val": 4})
    return folder


def data_params(given, images, toy):
    """The parameters of a recipe's data layer, for toy data."""
    small = {**given, "num_classes": len(SHAPES)} if given.get("num_classes") == 1000 else dict(given)
    if "folder" in given:
        return {**small, "folder": str(images / "train"), "classes": list(SHAPES)}
    if "data_dir" in given:
        return {**small, "data_dir": str(images), "image_size": min(67, given["image_size"])}
    recordings = sorted((toy / "wav").glob("*.wav"))[:2]
    (images / "list.txt").write_text("".join(f"{label},{path}\n" for label, path in enumerate(recordings)))
    return {**small, "dataset_files": [str(images / "list.txt")], "dataset_location": "", "class_file": None}


@pytest.mark.long
@pytest.mark.parametrize("recipe", [pytest.param(recipe, id=recipe.stem, marks=[
    pytest.mark.slow] if recipe.stem in LIKE_OTHERS else []) for recipe in RECIPES])
def test_recipe_trains(recipe, images, toy, tmp_path):
    config = resolve(load_config(recipe), "train")
    params = config.params("train")
    params.update(logdir=None, batch_size_per_gpu=2, num_epochs=None, max_steps=2, save_summaries_steps=None,
                  dtype="float32", loss_scaling=None)
    params["data_layer_params"] = data_params(params["data_layer_params"], images, toy)
    encoder = dict(params["encoder_params"])
    if encoder.pop("resnet_size", None):
        encoder.update(block_sizes=[1, 1, 1], bottleneck=True, first_num_filters=4)
    if "convnet_layers" in encoder:
        layers = encoder["convnet_layers"]
        encoder["convnet_layers"] = [{**layer, "num_channels": layer["num_channels"] // 64, "repeat": min(
            2, layer["repeat"])} for layer in [*layers[:2], *layers[-2:]]]
    if "cnn_layers" in encoder:
        for name in ("cnn_layers", "fc_layers"):
            encoder[name] = [(layer, {key: max(4, value // 32) if key in ("filters", "units") else value
                                      for key, value in others.items()}) for layer, others in encoder.get(name, [])]
    params["encoder_params"] = encoder
    assert_trains(config.base_model, params, tmp_path)


@pytest.mark.parametrize("name,millions", [("alexnet_owt", 57.00), ("cifar-nv", 2.61)])
def test_number_of_parameters(name, millions):
    params = resolve(load_config(EXAMPLES / f"image2label/{name}.py"), "train").params("train")
    side = params["data_layer_params"]["image_size"]
    with creating_variables(shared=True):
        encoder = CNNEncoder({**params["encoder_params"], "image_shape": [side, side, 3]})
    weights = [shape for path, shape in described_variables(encoder).items() if "moving" not in path]
    assert sum(map(math.prod, weights)) / 1e6 == pytest.approx(millions, abs=0.01)
