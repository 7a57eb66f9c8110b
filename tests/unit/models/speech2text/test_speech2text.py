"""The speech model on toy speech: vocabulary, features in the graph, error rates, files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from open_seq2seq.data.batching import evaluation_batches
from open_seq2seq.data.static_shapes import without_empty_rows
from open_seq2seq.decoding.ctc import CtcDecoder
from open_seq2seq.decoding.ctc.logits_file import read_logits
from open_seq2seq.decoding.n_best import read_n_best
from open_seq2seq.models import Speech2Text
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.passes import EvaluationPass, InferencePass
from open_seq2seq.training.loop.step import local_means
from open_seq2seq.utils.errors import ConfigError, DataError

RATE = 8000


@pytest.fixture(scope="module")
def toy(make_toy_speech) -> Path:
    return make_toy_speech(6, 7)


@pytest.fixture
def make(toy):
    """Builds the model of one mode; with ``owner`` it shares that model's weights."""
    def make(mode: str = "eval", owner: Any = None, seed: int = 3, data: dict[str, Any] | None = None,
             decoder: dict[str, Any] | None = None, decoder_class: str = "FullyConnectedCTCDecoder",
             **params: Any) -> Speech2Text:
        layers = [{"type": "conv1d", "repeat": 1, "kernel_size": 7, "stride": 2, "num_channels": 24, "padding": "SAME"}]
        spec = describe_model("Speech2Text", {
            "batch_size_per_gpu": 3, "loss": "CTCLoss", "encoder": "TDNNEncoder", "data_layer": "Speech2TextDataLayer",
            "encoder_params": {"convnet_layers": layers, "activation_fn": "relu", "dropout_keep_prob": 1.0},
            "decoder": decoder_class, "decoder_params": decoder or {},
            "data_layer_params": {
                "dataset_files": [str(toy / "dev.csv")], "vocab_file": str(toy / "vocab.txt"), "backend": "librosa",
                "input_type": "logfbank", "num_audio_features": 20, "sample_freq": RATE, **(data or {})},
            **params}, mode)
        return build_model(spec, seed, owner)  # type: ignore[return-value]
    return make


def evaluated(model: Speech2Text) -> dict[str, float]:
    return EvaluationPass(model, Runner()).run()


def transcribed(model: Speech2Text, path: Path) -> list[dict[str, str]]:
    InferencePass(model, Runner()).run(str(path))
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_parameters_follow_from_the_data(make):
    model = make()
    assert model.decoder.params["tgt_vocab_size"] == model.data_layer.alphabet.size + 1 == 19
    assert model.encoder.params["num_audio_features"] == 20
    assert model.step_seconds == pytest.approx(0.02)


def test_labels_longer_than_the_encoders_steps_are_found(make):
    stride = {"convnet_layers": [{"type": "conv1d", "repeat": 1, "kernel_size": 7, "stride": 40, "num_channels": 24,
                                  "padding": "SAME"}], "activation_fn": "relu", "dropout_keep_prob": 1.0}
    with pytest.raises(DataError, match="40 per encoder step"):
        make(encoder_params=stride)


def test_labels_are_compared_with_what_the_encoder_puts_out(make):
    """``VALID`` cuts off more than a stride tells: of 49 frames, 2 to a step, nothing is left."""
    valid = {"convnet_layers": [{"type": "conv1d", "repeat": 1, "kernel_size": 81, "stride": 2, "num_channels": 24,
                                 "padding": "VALID"}], "activation_fn": "relu", "dropout_keep_prob": 1.0}
    model = make(data={"on_bad_example": "skip"}, encoder_params=valid)
    kept = [model.data_layer.reference_text(example) for example in range(model.data_layer.num_examples)]
    batch = model.data_layer.make_batch(np.arange(len(kept)))
    steps = model.encoder.encode({"source_tensors": batch["source_tensors"]})["src_length"].numpy()
    assert 0 < len(kept) < 7 and all(len(text) <= count for text, count in zip(kept, steps, strict=True))


def test_ctc_refuses_targets_for_attention(make):
    with pytest.raises(ConfigError, match=r"'data_layer_params/autoregressive' is True.*FullyConnectedCTCDecoder"):
        make("train", data={"autoregressive": True})


def test_times_are_those_of_whole_samples(make):
    """10 ms are 110.25 samples at 11,025 Hz, of which 110 are taken: over an hour that is 8 s."""
    model = make(data={"sample_freq": 11025})
    assert model.step_seconds == 2 * 110 / 11025


def test_error_rates_do_not_depend_on_the_batch_size(make, capsys):
    one, other = (evaluated(make(batch_size_per_gpu=size)) for size in (1, 5))
    assert one["Eval WER"] == other["Eval WER"] > 0 and one["Eval CER"] == other["Eval CER"] > 0
    assert one["val_loss"] == pytest.approx(other["val_loss"], rel=1e-5)
    assert "Validation WER" in capsys.readouterr().out


def test_rates_and_worst_utterances_are_those_of_the_transcripts(make, capsys):
    model = make(worst_utterances=1)
    rates = model.finalize_evaluation([[(1, "b.wav", "ab ba", "ab"), (0, "a.wav", "da", "da")]])
    assert rates == {"Eval WER": pytest.approx(1 / 3), "Eval CER": pytest.approx(3 / 7)}
    out = capsys.readouterr().out
    assert "b.wav: 1 error in 2 words" in out and "REF: ab ba" in out and "a.wav" not in out


@pytest.mark.parametrize(("prediction", "step", "says"), [("", 9, True), ("da", 9, False), ("", None, False)])
def test_a_rate_of_100_percent_in_training_has_a_hint(make, capsys, prediction, step, says):
    make().finalize_evaluation([[(0, "a.wav", "da", prediction)]], step)
    assert ("***    A WER of 100 % is normal at first: " in capsys.readouterr().out) is says


def test_features_in_the_graph_give_the_same(make):
    one = make(data={"norm_per_feature": True})
    other = make(owner=one, data={"norm_per_feature": True, "backend": "tf"})
    first, second = (next(evaluation_batches(model.data_layer)) for model in (one, other))
    assert first["source_tensors"][0].ndim == 3 and second["source_tensors"][0].ndim == 2
    assert one.num_objects(first) == other.num_objects(second) > 300
    terms = [model.loss_terms(batch, False)[0][0].sum for model, batch in ((one, first), (other, second))]
    np.testing.assert_allclose(*terms, rtol=1e-3)


def test_inference_writes_the_recordings_in_their_order(make, tmp_path):
    evaluation = make()
    rows = transcribed(make("infer", evaluation), tmp_path / "out.csv")
    assert list(rows[0]) == ["wav_filename", "predicted_transcript"]
    assert [row["wav_filename"] for row in rows] == [f"wav/dev-{number:04d}.wav" for number in range(7)]
    assert any(row["predicted_transcript"] for row in rows)
    batch = evaluation.data_layer.make_batch(np.arange(7))
    judged = evaluation.evaluate(batch, [np.asarray(value) for value in evaluation.predict(batch)])
    assert [row[3] for row in judged] == [row["predicted_transcript"] for row in rows]


@pytest.mark.parametrize("decoder", [{}, {"use_language_model": True}])
def test_word_times(make, tmp_path, decoder):
    model = make("infer", decoder=decoder, write_word_times=True)
    rows = transcribed(model, tmp_path / "out.csv")
    with open(tmp_path / "out.words.csv", encoding="utf-8", newline="") as file:
        words = list(csv.DictReader(file))
    for example, row in enumerate(rows):
        mine = [word for word in words if word["wav_filename"] == row["wav_filename"]]
        assert [word["word"] for word in mine] == row["predicted_transcript"].split()
        times = [float(word[name]) for word in mine for name in ("start_time", "end_time")]
        assert times == sorted(times) and all(time <= model.data_layer.duration(example) + 0.02 for time in times)
        assert all(0 < float(word["confidence"]) <= 1 for word in mine)


def test_dumped_logits_decode_to_the_same_texts(make, tmp_path):
    greedy = make("infer")
    rows = transcribed(greedy, tmp_path / "out.csv")
    dump = make("infer", greedy, decoder={"infer_logits_to_pickle": True})
    InferencePass(dump, Runner()).run(str(tmp_path / "logits.npz"))
    logits, labels, step, normalization = read_logits(str(tmp_path / "logits.npz"))
    assert labels == greedy.data_layer.alphabet.labels and step == pytest.approx(0.02)
    assert normalization == {"unicode_form": None, "lower_case": False, "remove_characters": ""}
    for row in rows:
        path = logits[row["wav_filename"]].argmax(1)
        kept = path[np.r_[True, path[1:] != path[:-1]]]
        assert "".join(labels[i] for i in kept if i < len(labels)) == row["predicted_transcript"]


JOINT = {
    "attn_decoder": "ListenAttendSpellDecoder", "ctc_decoder": "FullyConnectedCTCDecoder",
    "attn_decoder_params": {"tgt_emb_size": 4, "rnn_type": "gru", "hidden_dim": 8, "num_layers": 1,
                            "attention_params": {"attention_dim": 8, "attention_type": "chorowski"}},
    "beam_search_params": {"ctc_weight": 0.0}, "language_model_params": {"use_language_model": False}}


def joint(make: Any, owner: Any = None, mode: str = "infer", ctc: dict[str, Any] | None = None,
          data: dict[str, Any] | None = None, **params: Any) -> Speech2Text:
    return make(mode, owner, data=data or {"autoregressive": True}, decoder={**JOINT, "ctc_decoder_params": ctc or {}},
                decoder_class="JointCTCAttentionDecoder", loss="MultiTaskCTCEntropyLoss", loss_params={
                    "seq_loss_params": {"offset_target_by_one": False}, "ctc_loss_params": {}, "lambda_value": 0.5},
                **params)


@pytest.mark.long
def test_ctc_of_a_joint_decoder_alone(make, tmp_path):
    """Its output may be searched, judged and written as that of a CTC decoder."""
    attention = joint(make)
    joint_rows = transcribed(attention, tmp_path / "joint.csv")
    search = {"use_language_model": True, "beam_width": 16, "n_best": 2}
    found = transcribed(joint(make, attention, ctc=search, write_word_times=True), tmp_path / "ctc.csv")
    InferencePass(joint(make, attention, ctc={"infer_logits_to_pickle": True}), Runner()).run(str(tmp_path / "l.npz"))
    logits, labels, *_ = read_logits(str(tmp_path / "l.npz"))
    offline = CtcDecoder(labels, {"beam_width": 16, "n_best": 2})
    assert [row["predicted_transcript"] for row in found] == [
        offline.decode(logits[row["wav_filename"]])[0].text for row in found]
    assert found != joint_rows and (tmp_path / "ctc.words.csv").is_file()
    lists = read_n_best(str(tmp_path / "ctc.n_best.tsv"))
    assert [[c.text for c in candidates] for candidates in lists.values()] == [
        [t.text for t in offline.decode(logits[name])] for name in lists]
    assert evaluated(joint(make, attention, "eval", ctc=search))["Eval CER"] > 0


def test_attention_tells_no_times_of_words(make):
    with pytest.raises(ConfigError, match="use_language_model in ctc_decoder_params"):
        joint(make, write_word_times=True)


def test_a_joint_decoders_ctc_needs_its_steps_too(make):
    few = {"convnet_layers": [{"type": "conv1d", "repeat": 1, "kernel_size": 7, "stride": 40, "num_channels": 24,
                               "padding": "SAME"}], "activation_fn": "relu", "dropout_keep_prob": 1.0}
    with pytest.raises(DataError, match="40 per encoder step"):
        joint(make, mode="train", encoder_params=few)


@pytest.fixture(scope="module")
def with_bad_one(toy) -> dict[str, Any]:
    """Parameters of a layer of dev.csv, with a recording in the middle that cannot be used."""
    soundfile.write(toy / "nan.wav", np.full(4000, np.nan), RATE, subtype="FLOAT")
    lines = (toy / "dev.csv").read_text().splitlines()
    (toy / "bad.csv").write_text("\n".join([*lines[:3], "nan.wav,0,ad", *lines[3:]]) + "\n")
    return {"dataset_files": [str(toy / "bad.csv")], "on_bad_example": "skip"}


@pytest.mark.long
def test_a_bad_recording_alone_in_its_batch_is_left_out(make, with_bad_one, tmp_path):
    good = make(batch_size_per_gpu=1)
    skipping = {"batch_size_per_gpu": 1, "data": with_bad_one}
    assert evaluated(make(owner=good, **skipping)) == evaluated(good)
    rows = transcribed(make("infer", good), tmp_path / "good.csv")
    assert transcribed(make("infer", good, **skipping), tmp_path / "bad.csv") == rows


@pytest.mark.parametrize("decoding", ["greedy", "search", "joint"])
def test_a_batch_of_nothing_has_no_results(make, with_bad_one, decoding):
    if decoding == "joint":
        model = joint(make, data={"autoregressive": True, **with_bad_one})
    else:
        model = make("infer", data=with_bad_one, decoder={"use_language_model": decoding == "search"})
    batch = model.data_layer.make_batch(np.asarray([2]))
    outputs = [np.asarray(value) for value in model.predict(batch)]
    assert model.infer(*without_empty_rows(batch, outputs)) == []
    assert model.num_objects(batch) == 0


VALID = {"convnet_layers": [{"type": "conv1d", "repeat": 2, "kernel_size": 11, "stride": 2, "num_channels": 24,
                             "padding": "VALID"}], "activation_fn": "relu", "dropout_keep_prob": 1.0}


@pytest.mark.parametrize(("is_joint", "params"), [(False, {}), (True, {}), (False, {"encoder_params": VALID})])
def test_a_training_batch_of_nothing_teaches_nothing(make, with_bad_one, is_joint, params):
    model = joint(make, mode="train", data={"autoregressive": True, **with_bad_one}) if is_joint else make(
        "train", data=with_bad_one, **params)
    with tf.GradientTape() as tape:
        terms, _ = model.loss_terms(model.data_layer.make_batch(np.asarray([2])), True)
        means, units = local_means(terms)
    assert all(float(value) == 0.0 for value in (*means.values(), *units.values()))
    gradients = tape.gradient(means, model.trainable_variables)
    assert not any(np.any(tf.convert_to_tensor(gradient)) for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("decoder", [{"infer_logits_to_pickle": True}, {"use_language_model": True, "n_best": 2}])
def test_files_that_go_by_names_need_different_ones(make, toy, decoder):
    twice = {"dataset_files": [str(toy / "dev.csv")] * 2}
    make("infer", data=twice)
    with pytest.raises(DataError, match=r"2 recordings are named wav/dev-0000\.wav"):
        make("infer", data=twice, decoder=decoder)


def test_samples_of_training(make, capsys):
    model = make("train")
    batch = model.data_layer.make_batch(np.arange(2))
    ids, lengths = batch["target_tensors"]
    logs = model.maybe_print_logs(batch, [ids, lengths - 1], 10)
    out = capsys.readouterr().out
    assert "Sample target:     " + model.data_layer.reference_text(0) in out and "Sample prediction:" in out
    assert logs["sample_WER"] > 0


def test_a_search_of_logits_that_are_no_numbers_ends_with_an_empty_text(make, capsys):
    model = make("infer", decoder={"use_language_model": True, "n_best": 2}, write_word_times=True)
    outputs = [np.full([2, 9, 19], np.nan, np.float32), np.array([9, 4])]
    for _ in range(2):
        found = [result for _, result in model.infer({"ids": np.arange(2)}, outputs)]
        assert [(result.text, result.words) for result in found] == [("", []), ("", [])]
    assert capsys.readouterr().out.count("NaN or infinite") == 1
