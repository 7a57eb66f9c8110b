"""Folders for Hugging Face's transformers; with transformers and torch, their results are those of inference."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.export import formats
from open_seq2seq.export.formats import format_of
from open_seq2seq.parts.component import named_variables
from open_seq2seq.utils.errors import UserError
from tests.unit.export.text_models import FAMILIES, LANGUAGE, TEXTS, exported, make_toys, untrained


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory):
    yield from make_toys(tmp_path_factory.mktemp("toys"))


def norm(array: np.ndarray) -> float:
    return round(float(np.abs(array.astype(np.float64)).sum()), 6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_folder_has_every_weight_and_says_that_it_is_not_checked(toys, monkeypatch, capsys, family):
    monkeypatch.setattr(formats, "_missing", lambda packages: list(packages))
    trained = untrained(*FAMILIES[family])
    report = exported(trained, "huggingface", toys / f"{family} unchecked")
    assert "not checked, because transformers and torch cannot be imported" in capsys.readouterr().out
    assert report["functions"] == {}
    folder = toys / f"{family} unchecked"
    tensors = load_file(folder / "model.safetensors")
    sums = {norm(tensor) for tensor in tensors.values()}
    # Other tensors are joined, scaled or stored without padding.
    for name, variable in named_variables(trained.model).items():
        if variable.shape.rank == 2 and "embedding" not in name and not name.endswith(("query", "key", "value")):
            assert norm(variable.numpy()) in sums, name
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == len(tensors["lm_head.weight"])
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert tokenizer["model_input_names"] == ["input_ids", "attention_mask"]
    assert "AutoTokenizer" in (folder / "README.md").read_text()


@pytest.mark.outside
@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_inference(toys, family):
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("transformers", reason="needs transformers")
    random = np.random.default_rng(0)
    texts = TEXTS + [" ".join(random.choice([*"abcde", "häuser", "bade"], size)) for size in range(1, 55)]
    report = exported(untrained(*FAMILIES[family]), "huggingface", toys / family, texts)
    (one,) = report["functions"].values()
    assert one["equal"] == one["examples"] == len(texts) + 50


@pytest.mark.parametrize(("recipe", "values", "said"), [
    ("text2text/toy-reversal/nmt-reversal-RR.py", {}, "it has a"),
    ("lm/transformer-wkt2.py", {**LANGUAGE, "encoder_params/fc_use_bias": True}, "has a bias"),
    ("lm/transformer-wkt2.py", {**LANGUAGE, "encoder_params/position_encoding": "alibi"},
     "'encoder_params/position_encoding' is alibi"),
])
def test_what_the_format_cannot_hold_is_refused(recipe, values, said):
    with pytest.raises(UserError, match=said):
        format_of("huggingface").functions(untrained(recipe, values).model)
