"""Folders for CTranslate2: results, the lines that load them, smaller weights, and what cannot be written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from open_seq2seq.export import formats
from open_seq2seq.export.ctranslate2 import check_exportable
from open_seq2seq.models.text2text.translations import Translation
from open_seq2seq.utils.errors import UserError
from tests.unit.export.text_models import FAMILIES, LANGUAGE, PIECES, TEXTS, exported, make_toys, untrained

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2 of setup.py")
RECIPE, LANGUAGE_RECIPE = FAMILIES["words"][0], FAMILIES["language model"][0]
MORE = {**FAMILIES,
        "two tables": (RECIPE, {**PIECES, "decoder_params/share_source_embedding": False,
                                "data_layer_params/pad_vocab_to_eight": True}),
        "other searches": (RECIPE, {"decoder_params/beam_size": 4, "decoder_params/beam_groups": 2,
                                    "decoder_params/alpha": 0.6, "replace_unknowns": True}),
        "alibi": (LANGUAGE_RECIPE, {**LANGUAGE, "encoder_params/position_encoding": "alibi",
                                    "encoder_params/fc_use_bias": True, "encoder_params/hidden_size": 24,
                                    "encoder_params/num_heads": 6})}


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory):
    yield from make_toys(tmp_path_factory.mktemp("toys"))


@pytest.mark.parametrize("family", [
    "pieces", "alibi",
    *(pytest.param(family, marks=pytest.mark.long) for family in MORE if family not in ("pieces", "alibi"))])
def test_results_are_those_of_inference_and_the_lines_of_the_readme_load_the_model(toys, capfd, family):
    report = exported(untrained(*MORE[family]), "ctranslate2", toys / family)
    (one,) = report["functions"].values()
    assert one["equal"] == one["examples"] == 2 * len(TEXTS) and one["largest_difference"] < 1e-4
    assert json.loads((toys / family / "config.json").read_text(encoding="utf-8"))["layer_norm_epsilon"] == 1e-6
    assert family != "pieces" or (toys / "pieces/sentencepiece.model").read_bytes() == Path("pieces.model").read_bytes()
    (lines,) = re.findall(r"```python\n(.*?)```", (toys / family / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    capfd.readouterr()
    exec(lines.replace("…", "a b"), {})
    assert capfd.readouterr().out.endswith("\n")


def test_weights_are_smaller_in_half_precision_and_in_bytes(toys):
    sizes = []
    for name in ("ctranslate2", "ctranslate2_float16", "ctranslate2_int8"):
        trained, chosen = untrained(*MORE["words"]), formats.format_of(name)
        (toys / f"size {name}").mkdir()
        chosen.write(trained.model, chosen.functions(trained.model), toys / f"size {name}")
        sizes.append((toys / f"size {name}/model.bin").stat().st_size)
    assert sizes == sorted(sizes, reverse=True)


def test_a_model_that_translates_differently_is_not_written(toys):
    trained = untrained(*MORE["words"])
    other = SimpleNamespace(infer=lambda inputs: [[Translation(0.0, "other")] for _ in inputs])
    trained.variant = lambda values: other
    with pytest.raises(UserError, match="computes only 0 of 12 results as inference does"):
        exported(trained, "ctranslate2", toys / "different")


@pytest.mark.parametrize(("recipe", "values", "said"), [
    ("text2text/toy-reversal/nmt-reversal-RR.py", {}, "because it has a .*: the format holds models of Transf"),
    (RECIPE, {"data_layer_params/use_start_token": True}, "'data_layer_params/use_start_token' is True"),
    (RECIPE, {"encoder_params/norm_params": {"type": "layernorm_L1"}}, "'norm_params/type' is layernorm_L1"),
    (RECIPE, {"encoder_params/norm_params": {"epsilon": 0.1}}, "the encoder's 'norm_params/epsilon' differs"),
    (LANGUAGE_RECIPE, {**LANGUAGE, "encoder_params/position_encoding": "alibi", "encoder_params/memory_length": 3},
     "'encoder_params/memory_length' is 3"),
    (LANGUAGE_RECIPE, {**LANGUAGE, "encoder_params/adaptive_softmax": {"cutoffs": [3]}}, "is an adaptive softmax"),
])
def test_what_the_format_cannot_hold_is_refused(recipe, values, said):
    with pytest.raises(UserError, match=said):
        check_exportable(untrained(recipe, values).model)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs ctranslate2, .*open-seq2seq\[ctranslate2\]"):
        formats.check_format("ctranslate2_int8")
