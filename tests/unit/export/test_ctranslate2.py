"""Folders for CTranslate2: results, the lines that load them, smaller weights, and what cannot be written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from open_seq2seq.export import formats
from open_seq2seq.export.ctranslate2 import check_exportable, search
from open_seq2seq.export.formats import format_of
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
        "language model of pieces": (LANGUAGE_RECIPE, {**LANGUAGE, "data_layer_params/normalize": False, **PIECES}),
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


@pytest.mark.outside
@pytest.mark.parametrize("family", ["language model", "alibi"])
def test_forty_prompts_are_continued_as_by_inference(toys, family):
    random = np.random.default_rng(0)
    prompts = [" ".join(random.choice(list("abcde"), size)) for size in range(1, 41)]
    report = exported(untrained(*MORE[family]), "ctranslate2", toys / f"{family} of prompts", prompts)
    (one,) = report["functions"].values()
    assert one["equal"] == one["examples"] == 2 * len(prompts)


def printed_by_the_readme(trained, folder, text, capfd):
    """Returns what the lines of an export's README print for a text, and the names that they define."""
    folder.mkdir()
    (function,) = format_of("ctranslate2").functions(trained.model)
    format_of("ctranslate2").write(trained.model, [function], folder)
    lines = [line.replace("'…'", repr(text)) for line in format_of("ctranslate2").loading(function, str(folder))]
    names = {"lines": lines}
    capfd.readouterr()
    exec("\n".join(lines), names)
    return capfd.readouterr().out.removesuffix("\n"), names


@pytest.mark.parametrize(("values", "text"), [
    ({}, "c  e\u00a0d a"), ({"data_layer_params/delimiter": "|"}, " c|e||d|x y "),
    ({"data_layer_params/detokenize": True}, "\u2581c e \u2581d")])
def test_the_readme_splits_texts_to_translate_as_the_tokenizer_does(toys, capfd, values, text):
    (toys / "letters.txt").write_text("".join(f"{token}\n" for token in ["\u2581c", "\u2581d", *"abcde", "x y"]))
    vocabulary = {f"data_layer_params/{side}_vocab_file": "letters.txt" for side in ("src", "tgt")}
    trained = untrained(RECIPE, {**values, **vocabulary, "decoder_params/beam_size": 2})
    printed, names = printed_by_the_readme(trained, toys / f"readme {text}", text, capfd)
    source, target = trained.model.data_layer.tokenizers
    assert names["tokens"] == source.split(text) and len(names["hypothesis"]) > 1
    assert printed == target.join(names["hypothesis"])
    joined = names["lines"][-1].removeprefix("print(").removesuffix(")")
    assert eval(joined, {"hypothesis": ["\u2581c", "e", "\u2581d"]}) == target.join(["\u2581c", "e", "\u2581d"])


@pytest.mark.parametrize(("values", "text"), [
    ({}, "a  b c"), ({"data_layer_params/tokenizer": {"type": "characters"}}, "abc"),
    ({"data_layer_params/normalize": True}, "a-b n 't c")])
def test_the_readme_splits_prompts_as_the_tokenizer_does(toys, capfd, values, text):
    trained = untrained(LANGUAGE_RECIPE, {**LANGUAGE, "data_layer_params/normalize": False, **values})
    found, names = printed_by_the_readme(trained, toys / f"prompt {text}", text, capfd)
    layer = trained.model.data_layer
    assert names["prompt"] == ["<eos>", *layer.tokenizer.split(text)]
    tokens = [layer.tokenizer.tokens[number] for number in trained.variant(search(trained.model)).infer([text])[0]]
    assert found == layer.tokenizer.separator.join(tokens[-6:])


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
