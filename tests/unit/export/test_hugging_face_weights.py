"""Weights of Hugging Face's folders: what was written is read again, also for other tokens, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from open_seq2seq.checkpoints.hugging_face import HuggingFaceFolder
from open_seq2seq.export.formats import format_of
from open_seq2seq.export.hugging_face import weights_of
from open_seq2seq.parts.component import named_variables
from open_seq2seq.utils.errors import CheckpointError
from tests.unit.export.text_models import FAMILIES, LANGUAGE, PIECES, make_toys, untrained

RECIPE, LANGUAGE_RECIPE = FAMILIES["words"][0], FAMILIES["language model"][0]
MORE = {**FAMILIES, "two tables": (RECIPE, {**PIECES, "decoder_params/share_source_embedding": False}),
        "tied": (LANGUAGE_RECIPE, {**LANGUAGE, "encoder_params/weight_tied": True})}


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory):
    yield from make_toys(tmp_path_factory.mktemp("toys"))


def written(family, name) -> tuple[HuggingFaceFolder, dict[str, np.ndarray]]:
    """Writes a model into a new folder; returns the folder and the weights of the model."""
    model, chosen = untrained(*MORE[family]).model, format_of("huggingface")
    Path(name).mkdir()
    chosen.write(model, chosen.functions(model), Path(name))
    return HuggingFaceFolder(Path(name)), {key: value.numpy() for key, value in named_variables(model).items()}


def other(family, values=()):
    """Returns another model, whose weights are zeros."""
    recipe, own = MORE[family]
    model = untrained(recipe, {**own, **dict(values)}).model
    for variable in named_variables(model).values():
        variable.assign(np.zeros(variable.shape, np.float32))
    return model


@pytest.mark.parametrize("family", MORE)
def test_weights_are_read_as_they_were(family):
    folder, weights = written(family, f"read {family}")
    found = weights_of(folder, other(family))
    assert set(found) == set(weights)
    for name, value in weights.items():
        if family == "two tables" and name == "encoder/embedding/table":
            value[0] = 0.0  # the embedding of padding, which nothing reads
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("family", ["language model", "tied"])
def test_rows_follow_their_tokens(family):
    folder, weights = written(family, f"tokens {family}")
    Path("other_lm").mkdir(exist_ok=True)
    tokens = ["<unk>", "<eos>", *"edxcba"]
    Path("other_lm/vocab.txt").write_text("".join(f"{number}\t{token}\t1\n" for number, token in enumerate(tokens))
                                          + "8\n", encoding="utf-8")
    found = weights_of(folder, other(family, {"data_layer_params/processed_data_folder": "other_lm"}))
    theirs = ["<unk>", "<eos>", *"abcde"]
    for key in {"encoder/embedding", "encoder/output_layer/kernel"} & {*found}:
        for number, token in enumerate(tokens):
            expected = weights[key][theirs.index(token)] if token in theirs else 0.0
            np.testing.assert_array_equal(found[key][number], np.broadcast_to(expected, found[key][number].shape))


@pytest.mark.parametrize(("change", "said"), [
    (lambda tensors: tensors.pop("lm_head.weight"), "lacks the tensor lm_head.weight of this model"),
    (lambda tensors: tensors.update(more=np.zeros(2, np.float32)), "has 1 tensors that this model lacks, such as more"),
    (lambda tensors: tensors.update({"model.encoder.layer_norm.bias": np.zeros(3, np.float32)}),
     r"whose tensor model.encoder.layer_norm.bias has the shape \(3,\)"),
    (lambda tensors: tensors["model.encoder.layers.0.self_attn.q_proj.bias"].__setitem__(0, 1.0),
     "q_proj.bias has values that this model cannot have: load a folder"),
])
def test_other_tensors_are_refused(tmp_path, change, said):
    folder, _ = written("words", tmp_path / "folder")
    tensors = dict(load_file(folder.path / "model.safetensors"))
    change(tensors)
    save_file(tensors, folder.path / "model.safetensors")
    with pytest.raises(CheckpointError, match=said):
        weights_of(folder, other("words"))


@pytest.mark.parametrize(("name", "content", "said"), [
    ("config.json", json.dumps({"architectures": ["BertModel"]}), "a folder of BertModel, but this model is a Pegasus"),
    ("config.json", "{", r"config.json cannot be read \(.*: copy the folder again"),
    ("model.safetensors", "damaged", r"model.safetensors cannot be read \(.*: copy the folder again"),
    *(("tokenizer.json", content, "tokenizer.json has no vocabulary that can be read") for content in (
        "{}", '{"model": null}', '{"model": {"vocab": [1]}}', '{"model": {"vocab": {"a": "b"}}}',
        '{"model": {"vocab": {"a": 1000000000000}}}')),
])
def test_damaged_folders_and_other_networks_are_refused(tmp_path, name, content, said):
    folder, _ = written("words", tmp_path / "folder")
    (folder.path / name).write_text(content)
    with pytest.raises(CheckpointError, match=said):
        weights_of(folder, other("words"))


def test_models_of_other_networks_are_refused(tmp_path):
    folder, _ = written("words", tmp_path / "folder")
    with pytest.raises(CheckpointError, match="but this model is none, because it has a"):
        weights_of(folder, untrained("text2text/toy-reversal/nmt-reversal-RR.py", {}).model)
