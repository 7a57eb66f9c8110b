"""Every family in SavedModel, LiteRT and ONNX: recipes with random weights, exported and compared with inference."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.export.export import export
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run import training_setup
from open_seq2seq.run.run import Run
from open_seq2seq.utils.errors import UserError
from tests.integration.toy_data import make_toy_data

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "example_configs"
RECORDED = json.loads((ROOT / "docs/export-results.json").read_text(encoding="utf-8"))
COUNT = 200  # inputs in padded batches, of which the check also computes 50 one by one
RANDOM = np.random.default_rng
RUNTIMES = {"savedmodel": (), "litert": ("ai_edge_litert",), "onnx": ("tf2onnx", "onnxruntime")}
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


def sounds(rate: int, count: int) -> list[np.ndarray]:
    """Sliding tones in noise, of several lengths up to two seconds."""
    random = RANDOM(0)
    return [(np.sin(np.cumsum(random.uniform(0.05, 1.0, 4)[np.arange(size) * 4 // size]))
             + 0.05 * random.normal(size=size)).astype(np.float32)
            for size in random.integers(rate // 4, 2 * rate, count).tolist()]


def lines(count: int) -> list[str]:
    random = RANDOM(0)
    return [" ".join(random.choice(list("abcdefghij"), size)) for size in random.integers(1, 20, count).tolist()]


def images(count: int) -> list[np.ndarray]:
    return [RANDOM(number).integers(0, 256, (30 + number % 50, 40, 3)).astype(np.uint8) for number in range(count)]


def separable(repeat: int, size: int, stride: int = 1, dilation: int = 1, **others: Any) -> dict[str, Any]:
    """A block of QuartzNet."""
    return {"type": "sep_conv1d", "repeat": repeat, "kernel_size": [size], "stride": [stride], "num_channels": 32,
            "padding": "SAME", "dilation": [dilation], **others}


# Name → config file, values, examples.
FAMILIES: dict[str, tuple[str, dict[str, Any], Callable[[int], Sequence[Any]]]] = {
    "wav2letter": ("speech2text/toy-w2l.py", {"data_layer_params/backend": "psf"}, lambda count: sounds(8000, count)),
    "DeepSpeech 2": ("speech2text/digits-ds2.py", VOCABULARY, lambda count: sounds(8000, count)),
    "QuartzNet": ("speech2text/quartznet15x5_LibriSpeech.py", {
        **VOCABULARY, "encoder_params/convnet_layers": [
            separable(1, 11, stride=2), separable(2, 11, residual=True), separable(1, 15, dilation=2, residual=True)]},
        lambda count: sounds(16000, count)),
    "joint CTC and attention": ("speech2text/digits-jca.py", VOCABULARY, lambda count: sounds(8000, count)),
    "LAS": ("speech2text/digits-jca.py", {**VOCABULARY, "decoder_params/beam_search_params": {"ctc_weight": 0.0}},
            lambda count: sounds(8000, count)),
    "images": ("image2label/toy-resnet8.py", {}, images),
    "speech commands": ("image2label/resnet_commands.py", {**NO_CLASS_FILE, "encoder_params/resnet_size": 18},
                        lambda count: sounds(16000, count)),
    "text classification": ("text2label/toy-labels.py", {}, lines),
    "Transformer": (f"{REVERSAL}TT.py", {}, lines),
    "GNMT": (f"{REVERSAL}RR.py", {}, lines),
    "ConvS2S": (f"{REVERSAL}CC.py", {}, lines),
    "several decoders": ("text2text/toy-several/reverse-and-copy.py", {"language": "copied"}, lines),
    "language model, LSTM": ("lm/toy-lm.py", GREEDY, lines),
    "language model, sampling": ("lm/toy-lm.py", {}, lines),
    "language model, Transformer": ("lm/toy-lm.py", TRANSFORMER, lines),
    "language model, ALiBi": ("lm/toy-lm.py", {**TRANSFORMER, "encoder_params/position_encoding": "alibi"}, lines),
    "language model, adaptive softmax": (
        "lm/toy-lm.py", {**TRANSFORMER, "encoder_params/adaptive_softmax": {"cutoffs": [4, 8]}}, lines),
}


# Random weights score symbols nearly alike, so that features which differ by rounding change the result of a search, or
# they end every text at once. These factors of the weights of the outputs avoid both.
FACTORS = {"joint CTC and attention": 10.0, "LAS": -10.0}
OUTPUTS = ("decoder/attention/output_kernel", "decoder/ctc/kernel")


def trained(name: str, count: int) -> tuple[TrainedModel, Sequence[Any]]:
    config, values, examples = FAMILIES[name]
    options = Run(RECIPES / config, {**values, "dtype": "float32"}, trust_code=True).options("interactive_infer")
    spec = training_setup.describe_sections(options)["interactive_infer"]
    model = build_model(spec)
    for variable in (named_variables(model)[output] for output in OUTPUTS if name in FACTORS):
        variable.assign(FACTORS[name] * variable)
    return TrainedModel(model, spec), examples(count)


@pytest.fixture(scope="module")
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


def test_the_results_name_every_family_and_format():
    assert {family: set(of_family) for family, of_family in RECORDED.items()} == dict.fromkeys(FAMILIES, {*RUNTIMES})


@pytest.mark.outside
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("format_name", RUNTIMES)
def test_results_are_those_of_inference(folder: Path, name: str, format_name: str):
    for package in RUNTIMES[format_name]:
        pytest.importorskip(package, reason=f"needs the extra {format_name} of setup.py")
    model, examples = trained(name, COUNT)
    target = folder / f"{name}-{format_name}"
    target.mkdir()
    recorded = RECORDED[name][format_name]
    if recorded == "refused":
        with pytest.raises(UserError, match="ids, because it has no operation for the random numbers of sampling"):
            export(model.model, format_name, target, model.infer, lambda: examples, str(target))
        return
    report = export(model.model, format_name, target, model.infer, lambda: examples, str(target))
    if format_name == "savedmodel":
        weights = sum(variable.numpy().nbytes for variable in named_variables(model.model).values())
        assert report["bytes"] < weights + 3e6
    for function, found in report["functions"].items():
        assert f"{found['equal']} of {found['examples']}" == recorded, \
            f"{function}: correct docs/export-results.json, and run python docs/make_reference.py"
        assert found["largest_difference"] < 1e-4, function  # of scores, probabilities or logits
