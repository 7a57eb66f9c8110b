"""A Transformer as a CTranslate2 model: equal translations, the lines that load it, and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from open_seq2seq.inference.text2text.ctranslate2_model import (
    check_exportable,
    lines_that_load,
    translations_by_ctranslate2,
    write_model,
)
from open_seq2seq.models.text2text.translations import Translation
from open_seq2seq.utils.errors import UserError
from scripts import export_ctranslate2

pytest.importorskip("ctranslate2", reason="needs the package ctranslate2, an extra of setup.py")


def export(root, *arguments):
    export_ctranslate2.main([f"--config_file={root}/config.py", f"--logdir={root}/run", f"--output={root}/exported",
                             f"--sentences={root}/dev.src", *arguments])


def test_translations_are_equal_and_the_printed_lines_load_the_model(trained, capfd):
    export(trained, "--least_equal=1", "--length_penalty=0.6")
    out = capfd.readouterr().out
    found = re.findall(r"beam (\d): 20 of 20 \(100.0%\), whose scores differ by at most (\S+)", out)
    assert [beam for beam, _ in found] == ["1", "4"] and all(float(difference) < 1e-4 for _, difference in found)
    config = json.loads((trained / "exported" / "config.json").read_text(encoding="utf-8"))
    assert config["layer_norm_epsilon"] == 1e-6 and config["add_source_eos"]
    exec("\n".join(out.splitlines()[-3:]).replace("…", "a b c"), {})
    assert capfd.readouterr().out.startswith("[")


def test_the_config_may_search_in_other_ways(trained, capfd):
    others = ("--decoder_params/beam_size=4", "--decoder_params/beam_groups=2", "--replace_unknowns=True")
    export(trained, "--least_equal=1", "--count=5", *others)
    assert "Equal translations, beam 1: 5 of 5 (100.0%)" in capfd.readouterr().out


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_smaller_weights(trained, monkeypatch, quantization):
    monkeypatch.setattr(export_ctranslate2, "compare", lambda *arguments: None)
    export(trained)
    size = (trained / "exported" / "model.bin").stat().st_size
    export(trained, f"--quantization={quantization}")
    assert (trained / "exported" / "model.bin").stat().st_size < size


def test_a_model_that_translates_differently_is_not_written(trained, monkeypatch):
    monkeypatch.setattr(export_ctranslate2, "translations_by_ctranslate2",
                        lambda model, folder, lines, *how: [Translation(0.0, line) for line in lines])
    with pytest.raises(UserError, match="translations with beam 1 are equal, so no model was written; the first"):
        export(trained, "--count=3")
    assert not (trained / "exported").exists()


@pytest.mark.parametrize(("arguments", "message"), [
    (["--count=0"], "--count is 0 but has to be at least 1"),
    (["--max_positions=1000000000000"], "--max_positions is 1000000000000 but has to be at most 100,000"),
    (["--max_positions=2", "--count=3"], "CTranslate2 cannot translate a sentence of .* larger --max_positions"),
    (["--least_equal=2"], "--least_equal is 2.0 but has to be from 0 to 1"),
    (["--sentences=missing.txt"], "missing.txt"),
])
def test_mistakes(trained, arguments, message):
    with pytest.raises(UserError, match=message):
        export(trained, *arguments)


def test_numbers_have_to_be_finite(trained):
    with pytest.raises(UserError, match="--length_penalty: 'nan' is not a finite number"):
        export(trained, "--length_penalty=nan")


def test_other_models_are_refused():
    model = SimpleNamespace(encoder=1, decoder="x", data_layer=None)
    with pytest.raises(UserError, match="because the model has a int and a str: CTranslate2 supports only"):
        check_exportable(model)


@pytest.mark.parametrize("shares_table", [True, False])
def test_sentencepiece_models_are_copied(tmp_path, capfd, shares_table):
    from open_seq2seq.data import ParallelTextDataLayer
    from open_seq2seq.data.sentencepiece_models import train_sentencepiece
    from open_seq2seq.decoders import TransformerDecoder
    from open_seq2seq.encoders import TransformerEncoder
    from open_seq2seq.parts.component import creating_variables

    (tmp_path / "text.txt").write_text("one two three\nthree two one\nfour\n" * 20, encoding="utf-8")
    pieces = train_sentencepiece([str(tmp_path / "text.txt")], str(tmp_path / "spm"), 18, "unigram")
    layer = ParallelTextDataLayer({"source_file": "", "max_length": 20, "use_start_token": False, "batch_size": 4,
                                   "tokenizer": {"type": "sentencepiece", "model": pieces},
                                   "pad_vocab_to_eight": True, "use_targets": False}, mode="interactive_infer")
    sizes = {"hidden_size": 8, "num_heads": 2, "filter_size": 8, "attention_dropout": 0.0, "relu_dropout": 0.0,
             "layer_postprocess_dropout": 0.0}
    with creating_variables(1):
        encoder = TransformerEncoder({**sizes, "encoder_layers": 1, "src_vocab_size": layer.source_vocab_size,
                                      "remove_padding": False})
        decoder = TransformerDecoder({**sizes, "num_hidden_layers": 1, "tgt_vocab_size": layer.target_vocab_size,
                                      "EOS_ID": 1, "batch_size": 4, "beam_size": 2, "alpha": 1.0,
                                      "extra_decode_length": 3, "beam_rules": "ctranslate2",
                                      "share_source_embedding": shares_table})
    model = SimpleNamespace(encoder=encoder, decoder=decoder, data_layer=layer)
    check_exportable(model)
    (tmp_path / "out").mkdir()
    write_model(model, tmp_path / "out", "float32", 300)
    assert (tmp_path / "out" / "sentencepiece.model").read_bytes() == Path(pieces).read_bytes()
    found = decoder.search(encoder.encode(layer.make_interactive_batch(["one two"]), False))
    text = layer.ids_to_text(found["beam_ids"][0, 0])
    (theirs,) = translations_by_ctranslate2(model, tmp_path / "out", ["one two"], 2, 1.0)
    assert theirs.text == text
    np.testing.assert_allclose(theirs.score, found["beam_scores"][0, 0], rtol=1e-4)
    exec("\n".join(lines_that_load(model, str(tmp_path / "out"), 2, 1.0)).replace("…", "one two"), {})
    assert capfd.readouterr().out.endswith("\n")
