"""Recognisers for sherpa-onnx: its transcripts, the symbols, and what it cannot transcribe with."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq import Run
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.export.export import export
from open_seq2seq.export.formats import format_of
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_model
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.utils.errors import UserError
from tests.integration.toy_data import ROOT
from tests.unit.export.text_models import FAMILIES, make_toys
from tests.unit.export.text_models import untrained as untrained_text

RATE = {"data_layer_params/sample_freq": 16000}


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory):
    for folder in make_toys(tmp_path_factory.mktemp("toys")):
        write_toy_speech("toy_speech_data", {"train": 2}, rate=16000)
        yield folder


def untrained(values, recipe="toy-w2l.py") -> TrainedModel:
    config = ROOT / "example_configs/speech2text" / recipe
    vocabulary = {"data_layer_params/vocab_file": "toy_speech_data/vocab.txt", "dtype": "float32"}
    options = Run(config, {**vocabulary, **values}).options("interactive_infer")
    spec = describe_sections(options)["interactive_infer"]
    return TrainedModel(build_model(spec, seed=3), spec)


@pytest.mark.outside
def test_sherpa_transcribes_as_inference(toys):
    for package in ("tf2onnx", "sherpa_onnx"):
        pytest.importorskip(package, reason="needs the extras onnx and outside of setup.py")
    random, trained = np.random.default_rng(0), untrained(RATE)
    sounds = [random.normal(size=size) for size in random.integers(5000, 30000, 50).tolist()]
    sounds = [((sound - sound.mean()) / 10).astype(np.float32) for sound in sounds]  # sherpa-onnx subtracts the mean
    (toys / "export").mkdir()
    report = export(trained.model, "sherpa", toys / "export", trained.infer, lambda: sounds, "export")
    one = report["functions"]["transcribe"]
    assert one["equal"] == one["examples"] == 100
    lines = (toys / "export/tokens.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{symbol} {number}" for number, symbol in enumerate(
        [*trained.model.data_layer.alphabet.labels, "<blk>"])]


@pytest.mark.parametrize(("values", "recipe", "said"), [
    ({}, "toy-w2l.py", "'data_layer_params/sample_freq' is 8000: the format holds recognisers with CTC"),
    ({**RATE, "data_layer_params/gain": 2.0}, "toy-w2l.py", "'data_layer_params/gain' is 2.0"),
    ({**RATE, "decoder_params/beam_search_params": {"ctc_weight": 0.0}}, "digits-jca.py", "because it has a "),
])
def test_what_the_loader_cannot_read_is_refused(values, recipe, said):
    with pytest.raises(UserError, match=said):
        format_of("sherpa").functions(untrained(values, recipe).model)


def test_other_tasks_are_refused():
    with pytest.raises(UserError, match="because it is a LanguageModel|because it is a .*LM"):
        format_of("sherpa").functions(untrained_text(*FAMILIES["language model"]).model)
