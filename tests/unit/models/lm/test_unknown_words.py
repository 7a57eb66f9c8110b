"""What language models say about unknown words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from open_seq2seq.data import WKTDataLayer
from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.models import LanguageModel


@pytest.mark.parametrize(("unknown", "expected"), [
    (0, "per token (8 tokens)"), (2, "per token (8 tokens, 2 (25.0 %) of them unknown)")])
def test_evaluation_says_how_many_tokens_are_unknown(capsys, unknown, expected):
    layer = SimpleNamespace(text_size=lambda: (4, 30), num_unknown=unknown)
    found = LanguageModel.finalize_evaluation(SimpleNamespace(data_layer=layer), [(3.0, 5.0), (1.0, 3.0)])
    np.testing.assert_allclose([found["perplexity"], found["word_perplexity"]], [np.exp(0.5), np.exp(1.0)])
    assert expected in capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("text")
    for name in ("train.txt", "valid.txt"):
        (root / name).write_text("a bc d a bc\nd a bc\n" * 9, encoding="utf-8")
    train_sentencepiece([str(root / "train.txt")], str(root / "m"), 12)
    return root


TOKENIZERS = {"words": {"type": "words"}, "characters": {"type": "characters"},
              "sentencepiece": {"type": "sentencepiece", "model": "m.model"}}


def data_layer(folder, kind, mode="infer", **params):
    settings = {**TOKENIZERS[kind], **({"model": str(folder / "m.model")} if kind == "sentencepiece" else {})}
    return WKTDataLayer({"data_root": str(folder), "processed_data_folder": str(folder / kind), "bptt": 4,
                         "batch_size": 2, "tokenizer": settings, **params}, mode=mode)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_unknown_words_of_prompts_are_reported_and_kept(folder, kind):
    data_layer(folder, kind, "train")
    (folder / "prompts").write_text("a bc \nxé bc\n\n", encoding="utf-8")
    layer = data_layer(folder, kind, text_file=str(folder / "prompts"))
    (remark,) = layer.remarks()
    assert f"such as '{dict(words='xé', characters='x', sentencepiece='xé')[kind]}' in line 2" in remark
    after = np.concatenate([layer.tokenizer.encode(["d a"])[0], [layer.end_id], layer.tokenizer.encode(["bc"])[0]])
    model = SimpleNamespace(data_layer=layer, params={"infer_task": "generate"})
    ids, lengths = layer.make_batch(np.arange(3))["source_tensors"]
    found = [LanguageModel._line(model, example, np.concatenate([ids[example, 1:length], after]))
             for example, length in enumerate(lengths)]
    space = "" if kind == "characters" else " "
    assert found == ["a bc d a <eos> bc\n", f"xé bc{space}d a <eos> bc\n", "d a <eos> bc\n"]


def test_unknown_words_of_interactive_use_are_reported_once(folder, capsys):
    data_layer(folder, "words", "train")
    layer = data_layer(folder, "words", "interactive_infer")
    capsys.readouterr()
    for lines, expected in ((["a bc"], ""), (["a", "zzz qqq"], "2, such as 'zzz' in line 2"), (["zzz"], "")):
        layer.make_interactive_batch(lines)
        printed = capsys.readouterr().out
        assert expected in printed and bool(printed) == bool(expected)
