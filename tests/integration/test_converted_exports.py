"""Every family in LiteRT and ONNX: models of the recipes with random weights, exported and compared with inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.export.export import export
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.run import training_setup
from open_seq2seq.run.run import Run
from open_seq2seq.utils.errors import UserError
from tests.integration.toy_data import make_toy_data

RECIPES = Path(__file__).parents[2] / "example_configs"
COUNT = 20
RANDOM = np.random.default_rng
RUNTIMES = {"litert": ("ai_edge_litert",), "onnx": ("tf2onnx", "onnxruntime")}
VOCABULARY = {"data_layer_params/vocab_file": "toy_speech_data/vocab.txt"}
NO_CLASS_FILE = {"data_layer_params/class_file": None}
REVERSAL = "text2text/toy-reversal/nmt-reversal-"


def sounds(rate: int) -> list[np.ndarray]:
    """Sliding tones in noise, of several lengths."""
    random = RANDOM(0)
    return [(np.sin(np.cumsum(random.uniform(0.05, 1.0, 4)[np.arange(size) * 4 // size]))
             + 0.05 * random.normal(size=size)).astype(np.float32)
            for size in random.integers(rate // 4, 2 * rate, COUNT).tolist()]


def lines() -> list[str]:
    random = RANDOM(0)
    return [" ".join(random.choice(list("abcdefghij"), size)) for size in random.integers(1, 20, COUNT).tolist()]


def images() -> list[np.ndarray]:
    return [RANDOM(number).integers(0, 256, (30 + number, 40, 3)).astype(np.uint8) for number in range(COUNT)]


# Name → config file, values, examples.
FAMILIES: dict[str, tuple[str, dict[str, Any], Callable[[], Sequence[Any]]]] = {
    "w2l": ("speech2text/toy-w2l.py", {"data_layer_params/backend": "psf"}, lambda: sounds(8000)),
    "ds2": ("speech2text/digits-ds2.py", VOCABULARY, lambda: sounds(8000)),
    "joint": ("speech2text/digits-jca.py", VOCABULARY, lambda: sounds(8000)),
    "las": ("speech2text/digits-jca.py", {**VOCABULARY, "decoder_params/beam_search_params": {"ctc_weight": 0.0}},
            lambda: sounds(8000)),
    "images": ("image2label/toy-resnet8.py", {}, images),
    "commands": ("image2label/resnet_commands.py", {**NO_CLASS_FILE, "encoder_params/resnet_size": 18},
                 lambda: sounds(16000)),
    "labels": ("text2label/toy-labels.py", {}, lines),
    **{name: (f"{REVERSAL}{name}.py", {}, lines) for name in ("TT", "RR", "CC")},
}


def trained(name: str) -> tuple[TrainedModel, Sequence[Any]]:
    config, values, examples = FAMILIES[name]
    options = Run(RECIPES / config, {**values, "dtype": "float32"}, trust_code=True).options("interactive_infer")
    spec = training_setup.describe_sections(options)["interactive_infer"]
    return TrainedModel(build_model(spec), spec), examples()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_toy_speech("toy_speech_data", {"train": 2}, rate=8000)
        make_toy_data()
        make_toy_data("--task=labels")
        yield folder


@pytest.mark.outside
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("format_name", RUNTIMES)
def test_results_are_those_of_inference(folder: Path, name: str, format_name: str):
    for package in RUNTIMES[format_name]:
        pytest.importorskip(package, reason=f"needs the extra {format_name} of setup.py")
    model, examples = trained(name)
    target = folder / f"{name}-{format_name}"
    target.mkdir()
    if name == "joint":  # its search computes prefix scores with operations that neither format has
        with pytest.raises(UserError, match="cannot hold the function ids: "):
            export(model.model, format_name, target, model.infer, lambda: examples, str(target))
        return
    report = export(model.model, format_name, target, model.infer, lambda: examples, str(target))
    assert all(one["share_equal"] == 1.0 for one in report["functions"].values())
