"""Configurations of servers and programs in other languages: their names, types and shapes are those of exports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.export.saved_model import portable
from tests.integration.toy_data import ROOT
from tests.unit.export.text_models import FAMILIES, make_toys, untrained

SERVING = ROOT / "deploy/serving"
TYPES = {"TYPE_FP32": "float32", "TYPE_INT32": "int32", "TYPE_STRING": "string"}
Tensors = dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Tensors, Tensors]]:
    """The type and the number of dimensions of inputs and outputs, by the name of the function."""
    found = {}
    for _ in make_toys(tmp_path_factory.mktemp("toys")):
        write_toy_speech("toy_speech_data", {"train": 2}, rate=8000)
        recogniser = untrained("speech2text/toy-w2l.py", {"data_layer_params/vocab_file": "toy_speech_data/vocab.txt"})
        translator = untrained(*FAMILIES["words"])
        for function in [*recogniser.model.serving_functions(), translator.model.serving_functions()[0]]:
            outputs = portable(function).get_concrete_function().structured_outputs
            found[function.name] = described(function.inputs), described(outputs)
    return found


def described(specs) -> Tensors:
    return {name: (spec.dtype.name, spec.shape.rank) for name, spec in specs.items()}


@pytest.mark.parametrize(("model", "function"), [("recognizer", "logits"), ("translator", "translate")])
def test_configurations_of_triton_describe_what_exports_have(functions, model, function):
    text = (SERVING / "triton" / model / "config.pbtxt").read_text(encoding="utf-8")
    blocks = re.findall(r"^(input|output) \[\n(.*?)\n\]", text, re.DOTALL | re.MULTILINE)
    sides = [{name: (TYPES[kind], dims.count("-1")) for name, kind, dims in re.findall(
        r'name: "(\w+)" data_type: (\w+) dims: \[ (.*?) \]', block)} for _, block in blocks]
    assert [side for side, _ in blocks] == ["input", "output"] and tuple(sides) == functions[function]
    assert f'name: "{model}"' in text and "max_batch_size: 0" in text


def test_requests_to_servers_name_what_exports_have(functions):
    text = (SERVING / "README.md").read_text(encoding="utf-8")
    inputs = dict(re.findall(r'"name": "(\w+)", "datatype": "(\w+)"', text))
    assert inputs == {"waveforms": "FP32", "lengths": "INT32"} and set(inputs) == set(functions["logits"][0])
    assert '"signature_name": "translate", "inputs": {"texts": [' in text
    assert set(functions["translate"][0]) == {"texts"}


@pytest.mark.parametrize(("language", "function", "types"), [
    ("javascript", "logits", {"float32": '"float32"', "int32": '"int32"'}),
    ("cpp", "logits", {"float32": "<float>", "int32": "<int32_t>"}),
    ("kotlin", "ids", {"float32": "FloatArray", "int32": "intArrayOf"})])
def test_programs_name_what_exports_have(functions, language, function, types):
    page = Path(ROOT / "docs/export.md").read_text(encoding="utf-8")
    (program,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    inputs, outputs = functions[function]
    for name, (kind, _) in {**inputs, **outputs}.items():
        assert re.search(rf"\b{name}\b", program) and types[kind] in program, name
    assert language == "kotlin" or f"exported/{function}.onnx" in program
