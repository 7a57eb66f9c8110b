"""Untrained voices as SavedModels: their sound in a process without the package, and what is refused."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq import Run
from open_seq2seq.data.text2speech.toy_voice import write_toy_voice
from open_seq2seq.export.export import export
from open_seq2seq.export.formats import format_of
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import build_data_layer, build_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.utils.errors import UserError
from tests.unit.example_configs.recipes import EXAMPLES

TEXTS = ["ae i", "ou", "", "i a ou e", "xyz"]
FILES = {"data_layer_params/vocab_file": "vocab.txt", "data_layer_params/dataset_location": "."}
SHORT = {"tacotron": {"decoder_params/max_frames_per_symbol": 4.0}, "durations": {}, "speakers": {}}
# The variable of the decoder by which untrained voices speak longer, and its value.
LENGTHENS = {"tacotron": ("stop_token/bias", -10.0), "durations": ("durations/projection/bias", 1.5),
             "speakers": ("durations/projection/bias", 1.5)}
RECIPES = {"tacotron": "toy-voice", "durations": "toy-durations", "speakers": "toy-speakers"}
TAGGED = {"tacotron": [], "durations": ["[speed 2] ae i"], "speakers": ["[speaker high] ae i", "[speed 2] ae i"]}


@pytest.fixture(scope="module", autouse=True)
def voice(tmp_path_factory: pytest.TempPathFactory):
    folder, before = tmp_path_factory.mktemp("voice"), os.getcwd()
    os.chdir(folder)
    try:
        write_toy_voice(".", {"train": 3})
        yield folder
    finally:
        os.chdir(before)


def options_of(kind: str, mode: str = "interactive_infer", **values):
    # Each iteration amplifies differences by rounding, as that between a text alone and in a batch: 1e-5 after one
    # iteration, 1e-4 after ten.
    return Run(EXAMPLES / f"text2speech/{RECIPES[kind]}.py", {
        **FILES, **SHORT[kind], "griffin_lim_iterations": 3, "dtype": "float32", **values}).options(mode)


def untrained(kind: str, **values) -> TrainedModel:
    options = options_of(kind, **values)
    spec = describe_sections(options)["interactive_infer"]
    model = build_model(spec, seed=3)
    name, value = LENGTHENS[kind]
    named_variables(model.decoder)[name].assign(tf.fill(named_variables(model.decoder)[name].shape, value))
    return TrainedModel(model, spec)


@pytest.mark.long
@pytest.mark.parametrize("kind", RECIPES)
def test_sounds_are_those_of_inference(voice, capsys, kind):
    trained = untrained(kind)
    texts = [*TEXTS, *TAGGED[kind]]
    report = export(trained.model, "savedmodel", (voice / kind), trained.infer, lambda: texts, kind)
    one = report["functions"]["sound"]
    assert one["examples"] == one["equal"] == 2 * len(texts) and 0.0 <= one["largest_difference"] < 1e-4
    assert "counted from 3" in report["not_exported"]["synthesize"]
    call = tf.saved_model.load(kind).signatures["sound"]
    feed = trained.model.serving_functions()[1].feed(texts, np.arange(len(texts)))
    outputs = call(**{name: tf.constant(value) for name, value in feed.items()})
    assert outputs["sound_lengths"].numpy()[0] > 0 and not outputs["sound_lengths"].numpy()[[2, 4]].any()
    assert np.abs(outputs["sound"].numpy()).max() > 0.01
    for speech, sound, length in zip(trained.infer(texts), *(outputs[name].numpy() for name in (
            "sound", "sound_lengths")), strict=True):
        np.testing.assert_allclose(sound[:length], speech.samples, atol=1e-4)
    (lines,) = re.findall(r"```python\n(.*?)```", (voice / kind / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    capsys.readouterr()
    exec(lines, {})
    assert capsys.readouterr().out.endswith("[0]\n")  # the symbol 1 is none to speak
    empty = call(**{name: tf.constant(value[:0]) for name, value in feed.items()})
    assert empty["sound_lengths"].shape == [0]


def test_examples_of_the_check_are_sentences(voice):
    options = options_of("tacotron", "eval", **{"eval_params/data_layer_params/dataset_files": ["train.csv"]})
    layer = build_data_layer(describe_sections(options)["eval"])
    examples = layer.interactive_examples(2)
    assert len(examples) == 2 and all(layer.divided(text) == [(text, 0.0)] for text in examples)


def test_what_cannot_be_exported_is_said(voice, monkeypatch):
    trained = untrained("tacotron")
    params = {**trained.model.data_layer.params, "style_input": "wav"}
    monkeypatch.setattr(type(trained.model.data_layer), "params", params)
    with pytest.raises(UserError, match="'data_layer_params/style_input' is set, but an export reads no style"):
        format_of("savedmodel").functions(trained.model)
