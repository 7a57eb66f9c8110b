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
WORDS = "".join(f"{number}\t{word}\t1\n" for number, word in enumerate(["<unk>", "<eos>", *"abcdefghij"])) + "12\n"
GREEDY = {"encoder_params/sampling_temperature": None}
TRANSFORMER = {
    **GREEDY, "encoder": "TransformerLMEncoder", "encoder_params/core_cell": "<drop>",
    "encoder_params/core_cell_params": "<drop>", "encoder_params/emb_size": "<drop>",
    "encoder_params/encoder_last_output_keep_prob": "<drop>", "encoder_params/encoder_layers": 2,
    "encoder_params/hidden_size": 32, "encoder_params/num_heads": 2, "encoder_params/filter_size": 64,
    "data_layer_params/carry_state": False}


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


def separable(repeat: int, size: int, stride: int = 1, dilation: int = 1, **others: Any) -> dict[str, Any]:
    """A block of QuartzNet."""
    return {"type": "sep_conv1d", "repeat": repeat, "kernel_size": [size], "stride": [stride], "num_channels": 32,
            "padding": "SAME", "dilation": [dilation], **others}


# Name → config file, values, examples.
FAMILIES: dict[str, tuple[str, dict[str, Any], Callable[[], Sequence[Any]]]] = {
    "w2l": ("speech2text/toy-w2l.py", {"data_layer_params/backend": "psf"}, lambda: sounds(8000)),
    "ds2": ("speech2text/digits-ds2.py", VOCABULARY, lambda: sounds(8000)),
    "quartznet": ("speech2text/quartznet15x5_LibriSpeech.py", {
        **VOCABULARY, "encoder_params/convnet_layers": [
            separable(1, 11, stride=2), separable(2, 11, residual=True), separable(1, 15, dilation=2, residual=True)]},
        lambda: sounds(16000)),
    "joint": ("speech2text/digits-jca.py", VOCABULARY, lambda: sounds(8000)),
    "las": ("speech2text/digits-jca.py", {**VOCABULARY, "decoder_params/beam_search_params": {"ctc_weight": 0.0}},
            lambda: sounds(8000)),
    "images": ("image2label/toy-resnet8.py", {}, images),
    "commands": ("image2label/resnet_commands.py", {**NO_CLASS_FILE, "encoder_params/resnet_size": 18},
                 lambda: sounds(16000)),
    "labels": ("text2label/toy-labels.py", {}, lines),
    **{name: (f"{REVERSAL}{name}.py", {}, lines) for name in ("TT", "RR", "CC")},
    "several": ("text2text/toy-several/reverse-and-copy.py", {"language": "copied"}, lines),
    "lstm": ("lm/toy-lm.py", GREEDY, lines),
    "sampled": ("lm/toy-lm.py", {}, lines),
    "transformer": ("lm/toy-lm.py", TRANSFORMER, lines),
    "alibi": ("lm/toy-lm.py", {**TRANSFORMER, "encoder_params/position_encoding": "alibi"}, lines),
    "adaptive": ("lm/toy-lm.py", {**TRANSFORMER, "encoder_params/adaptive_softmax": {"cutoffs": [4, 8]}}, lines),
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
        vocabulary = folder / "toy_text_lm/processed/vocab.txt"
        vocabulary.parent.mkdir(parents=True)
        vocabulary.write_text(WORDS, encoding="utf-8")
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
    if name == "sampled":
        with pytest.raises(UserError, match="ids, because it has no operation for the random numbers of sampling"):
            export(model.model, format_name, target, model.infer, lambda: examples, str(target))
        return
    report = export(model.model, format_name, target, model.infer, lambda: examples, str(target))
    assert all(one["share_equal"] == 1.0 for one in report["functions"].values())
