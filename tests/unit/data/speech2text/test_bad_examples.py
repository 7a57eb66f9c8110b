"""What cannot be used is named with file and row, counted, and refused or skipped."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from open_seq2seq.data.audio.audio_files import read_audio
from open_seq2seq.data.speech2text.speech2text import Speech2TextDataLayer
from open_seq2seq.data.static_shapes import EMPTY_ID, StaticBatches, StaticShape
from open_seq2seq.utils.errors import DataError


def wav_bytes(audio, rate=8000) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, audio, rate, format="WAV")
    return out.getvalue()


def bad_recording(kind: str, voice: np.ndarray):
    """(audio, transcript, parameters, how it is counted, whether only decoding shows it)."""
    whole = wav_bytes(voice)
    nan = voice.copy()
    nan[100] = np.nan
    stereo = np.stack([voice, voice], axis=1)
    return {
        "missing": (None, "ab", {}, "missing", False),
        "zero-length file": (b"", "ab", {}, "empty", False),
        "no samples": (voice[:0], "ab", {}, "empty", False),
        "no audio": (b"not audio at all" * 20, "ab", {}, "unreadable", False),
        "truncated": (whole[:len(whole) // 2], "ab", {}, "truncated", False),
        "wrong rate": (wav_bytes(voice, 11025), "ab", {"convert_audio": False}, "another rate", False),
        "stereo": (stereo, "ab", {"convert_audio": False}, "several channels", False),
        "silent": (voice * 0, "ab", {}, "silent", True),
        "nan": (nan, "ab", {}, "not finite", True),
        "unknown character": (voice, "abç", {}, "characters outside the alphabet", False),
        "empty transcript": (voice, "", {}, "empty transcript", False),
        "spaces": (voice, " \t ", {}, "empty transcript", False),
        "long label": (voice, "ab" * 30, {}, "label longer than its frames", False),
    }[kind]


KINDS = ["missing", "zero-length file", "no samples", "no audio", "truncated", "wrong rate", "stereo", "silent", "nan",
         "unknown character", "empty transcript", "spaces", "long label"]


@pytest.mark.parametrize("kind", KINDS)
def test_refused_by_default(one_list, voice, kind):
    audio, text, changes, counted, on_decoding = bad_recording(kind, voice)
    params = {**one_list(("good.wav", voice, "ab"), ("bad.wav", audio, text)), **changes}

    def use(step):
        layer = Speech2TextDataLayer({**params, "encoder_stride": 1}, mode="train")
        if step == "check":
            layer.examine()
        elif step == "train":
            layer.make_batch(np.arange(2))

    with pytest.raises(DataError, match=r"(?s)list\.csv:3: bad\.wav .*on_bad_example") as error:
        use("check")
    if not on_decoding:
        with pytest.raises(DataError, match=f"1 bad example: 1 {counted}"):
            use("load")
    else:
        assert f"1 {counted}" in str(error.value)
        with pytest.raises(DataError, match=r"list\.csv:3: bad\.wav"):
            use("train")


@pytest.mark.parametrize("kind", KINDS)
def test_skipped_when_asked_for(one_list, voice, kind, capsys):
    audio, text, changes, counted, on_decoding = bad_recording(kind, voice)
    params = {**one_list(("good.wav", voice, "ab"), ("bad.wav", audio, text), ("last.wav", voice[:3000], "ba")),
              **changes, "on_bad_example": "skip", "encoder_stride": 1}
    layer = Speech2TextDataLayer(params, mode="train")
    if on_decoding:
        assert any("list.csv:3: bad.wav" in line and f"1 {counted}" in line for line in layer.examine())
        for _ in range(2):
            batch = layer.make_batch(np.arange(3))
        assert batch["ids"].tolist() == [0, 2]
        assert batch["source_tensors"][0].shape[0] == batch["target_tensors"][0].shape[0] == 2
        assert capsys.readouterr().out.count("Skipped") == 1
        assert layer.make_batch(np.asarray([1]))["ids"].tolist() == [EMPTY_ID]
    else:
        said = capsys.readouterr().out
        assert "list.csv:3: bad.wav" in said and f"1 {counted}" in said
        assert layer.report_dropped() == {counted: 1}
        assert layer.num_examples == 2
        assert layer.reference_text(1) == "ba"
        assert layer.make_batch(np.arange(2))["ids"].tolist() == [0, 1]


AUGMENTATION = {"n_time_mask": 1, "width_time_mask": 9, "speed_perturbation_ratio": 0.1}


@pytest.mark.parametrize("backend", ["psf", "librosa", "tf"])
@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_a_batch_of_bad_examples_alone_is_an_empty_row(one_list, voice, backend, mode):
    params = {**one_list(("good.wav", voice, "ab"), ("bad.wav", voice * np.nan, "ab")), "on_bad_example": "skip",
              "backend": backend, "augmentation": AUGMENTATION}
    layer = Speech2TextDataLayer(params, mode=mode)
    good, bad = (layer.make_training_batch(np.asarray([example]), 0) for example in range(2))
    assert bad["ids"].tolist() == [EMPTY_ID] and good["ids"].tolist() == [0]
    for array, spec in zip(tf.nest.flatten(bad), tf.nest.flatten(layer.input_signature), strict=True):
        assert spec.is_compatible_with(tf.constant(array)) and not np.any(array[bad["ids"] >= 0])
    features, lengths = layer.features(bad, training=mode == "train")
    assert np.asarray(lengths).tolist() == [0] and not np.any(features)
    shape = StaticShape(2, tuple(layer.lengths.reshape(2, -1).max(axis=0).tolist()))
    padded = StaticBatches(layer, [shape]).make_batch(np.asarray([1]))
    assert padded["ids"].tolist() == [EMPTY_ID] * 2


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_where_all_are_bad_nothing_is_left(one_list, voice, mode):
    rows = [(f"{number}.wav", voice * np.nan, "ab") for number in range(3)]
    layer = Speech2TextDataLayer({**one_list(*rows), "on_bad_example": "skip"}, mode=mode)
    for example in (0, 1, 0):
        layer.make_batch(np.asarray([example]))
    with pytest.raises(DataError, match=r"(?s)All examples were skipped. 3 bad examples: 3 not finite.*list\.csv:2: "):
        layer.make_batch(np.asarray([2]))
    with pytest.raises(DataError, match="No recording can be used. 3 bad examples"):
        layer.examine()


def test_other_rates_and_channels_are_converted_and_said_once(one_list, voice, capsys):
    stereo = wav_bytes(np.stack([voice, voice], axis=1), 11025)
    params = one_list(("a.wav", voice, "ab"), ("b.wav", stereo, "ab"))
    layer = Speech2TextDataLayer(params, mode="train")
    said = capsys.readouterr().out
    assert "Recordings resampled to 8000 Hz: 1 of 11025 Hz" in said
    assert "Channels averaged: 1 recordings" in said
    layer.make_batch(np.arange(2))
    assert capsys.readouterr().out == ""
    assert layer.duration(1) == pytest.approx(len(voice) / 11025, abs=1e-3)


def test_a_list_without_header_is_refused_whatever_the_config_says(one_list, voice):
    params = {**one_list(("a.wav", voice, "ab"), header=""), "on_bad_example": "skip"}
    with pytest.raises(DataError, match=r"list\.csv:1: the header"):
        Speech2TextDataLayer(params, mode="train")


def test_duplicates(one_list, voice, capsys):
    params = one_list(("a.wav", voice, "ab"), ("b.wav", voice, "ab"), ("./a.wav", None, "ba"))
    with pytest.raises(DataError, match=r"list\.csv:4: \./a\.wav is already in line 2 of the list"):
        Speech2TextDataLayer(params, mode="train")
    layer = Speech2TextDataLayer({**params, "on_bad_example": "skip"}, mode="train")
    assert layer.report_dropped() == {"duplicate": 1}
    same = one_list(("a.wav", voice, "ab"), ("b.wav", voice, "ab"), ("a.wav", None, "ab"))
    assert Speech2TextDataLayer(same, mode="train").num_examples == 3
    assert "list.csv:4 repeats line 2, with the same transcript: repeated rows are used" in capsys.readouterr().out
    assert Speech2TextDataLayer({**same, "on_bad_example": "skip"}, mode="train").num_examples == 2
    twice = {**one_list(("a.wav", voice, "ab"))}
    assert Speech2TextDataLayer({**twice, "dataset_files": twice["dataset_files"] * 2}, mode="train").num_examples == 2


def test_labels_are_limited_by_the_model(one_list, voice):
    params = one_list(("a.wav", voice, "ab"), ("b.wav", voice, "aabbaabbaab"))  # 51 frames, 16 steps of CTC
    layer = Speech2TextDataLayer(params, mode="train")
    layer.require_steps_for_labels(3)
    with pytest.raises(DataError, match=r"list\.csv:3: b\.wav .* needs 16 CTC steps, but only 13 \(51 frames, 4"):
        layer.require_steps_for_labels(4)
    skipping = Speech2TextDataLayer({**params, "on_bad_example": "skip"}, mode="train")
    skipping.require_steps_for_labels(4)
    assert skipping.num_examples == 1


@pytest.mark.parametrize(("ratio", "stride"), [(0.5, 2), ([0.5, 1.0], 2), ([1.5, 2.0], 6)])
def test_labels_are_limited_by_the_quickest_speed_that_can_be_drawn(one_list, voice, ratio, stride):
    """51 frames are 26 or more at half the length, 76 at one and a half; the label needs 14 steps of CTC."""
    params = one_list(("a.wav", voice, "ab" * 7))
    quick = {**params, "augmentation": {"speed_perturbation_ratio": ratio}}
    layer = Speech2TextDataLayer(quick, mode="train")
    drawn = min(int(layer.make_training_batch(np.arange(1), epoch)["source_tensors"][1][0]) for epoch in range(20))
    with pytest.raises(DataError, match=r"needs 14 CTC steps, but only 13") as error:
        layer.require_steps_for_labels(stride)
    named = int(str(error.value).partition(" frames when")[0].rpartition("(")[2])
    assert named <= drawn <= named + 3
    Speech2TextDataLayer(quick, mode="eval").require_steps_for_labels(min(stride, 3))


def test_many_bad_examples_are_counted_and_some_named(one_list, voice):
    params = one_list(("a.wav", voice, "ab"), *((f"{number}.wav", None, "ab") for number in range(50)))
    with pytest.raises(DataError, match="50 bad examples: 50 missing") as error:
        Speech2TextDataLayer(params, mode="train")
    assert str(error.value).count("does not exist") == 20
    assert "And 30 more" in str(error.value)


def test_silence_is_no_mistake_in_inference(one_list, voice):
    params = one_list(("a.wav", voice * 0, ""), ("b.wav", voice, ""))
    batch = Speech2TextDataLayer(params, mode="infer").make_batch(np.arange(2))
    assert np.all(np.isfinite(batch["source_tensors"][0]))


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_file_that_turns_bad_during_training(one_list, voice, policy, tmp_path, capsys):
    params = one_list(("a.wav", voice, "ab"), ("b.wav", voice, "ab"))
    layer = Speech2TextDataLayer({**params, "on_bad_example": policy}, mode="train")
    layer.make_batch(np.arange(2))
    (tmp_path / "b.wav").write_bytes((tmp_path / "b.wav").read_bytes()[:1000])
    if policy == "stop":
        with pytest.raises(DataError, match=r"list\.csv:3: b\.wav is truncated"):
            layer.make_batch(np.arange(2))
    else:
        assert layer.make_batch(np.arange(2))["ids"].tolist() == [0]
        assert "Skipped" in capsys.readouterr().out


def test_a_recording_that_becomes_another_during_training(one_list, voice, tmp_path):
    params = one_list(("a.wav", voice, "ab"), ("b.wav", voice, "ab"))
    layer = Speech2TextDataLayer(params, mode="train")
    soundfile.write(tmp_path / "b.wav", voice[:-100], 8000)
    with pytest.raises(DataError, match=r"list\.csv:3: b\.wav has changed since this run started: it has 3,900"):
        layer.make_batch(np.arange(2))
    with pytest.raises(DataError, match=r"list\.csv:3: b\.wav has changed"):
        layer.examine()


@pytest.mark.parametrize("name", ["a\0b.wav", "a\ud800.wav", "a\udce9.wav", "n" * 300])
def test_names_that_no_file_has_are_those_of_missing_recordings(one_list, voice, tmp_path, name, capsys):
    params = one_list(("a.wav", voice, "ab"), ("b.wav", voice, "ab"))
    lines = [json.dumps({"audio_filepath": n, "text": "ab"}) for n in ("a.wav", name)]
    (tmp_path / "list.json").write_text("\n".join(lines))
    params["dataset_files"] = [str(tmp_path / "list.json")]
    words = "does not exist|cannot be read: File name too long"
    with pytest.raises(DataError, match=rf"list\.json:2: \S* ({words})") as error:
        Speech2TextDataLayer(params, mode="train")
    str(error.value).encode()
    layer = Speech2TextDataLayer({**params, "on_bad_example": "skip"}, mode="train")
    assert layer.num_examples == 1 and "list.json:2" in capsys.readouterr().out


def segments_of(tmp_path, params, *rows: dict) -> dict:
    """Writes a JSON list of segments of talk.wav, and returns the parameters of a layer of it."""
    lines = [json.dumps({"audio_filepath": "talk.wav", "text": "ab", **row}) for row in rows]
    (tmp_path / "list.json").write_text("\n".join(lines))
    return {**params, "dataset_files": [str(tmp_path / "list.json")]}


@pytest.mark.parametrize(("row", "part"), [
    ({"duration": 0.5}, slice(0, 4000)), ({"offset": 0.0, "duration": 0.5}, slice(0, 4000)),
    ({"offset": 0.25, "duration": 0.5}, slice(2000, 6000)), ({"offset": 1.25}, slice(10_000, 16_000)),
    ({"offset": 1.5, "duration": 0.6}, slice(12_000, 16_000)),  # rounded durations may be a little too long
    ({"duration": 2.0}, slice(None)), ({"duration": 1.995}, slice(None)), ({"duration": 2.05}, slice(None)),
    ({"offset": None, "duration": 0}, slice(None)), ({}, slice(None)),
])
@pytest.mark.parametrize("suffix", ["WAV", "FLAC", "OGG"])
def test_offset_and_duration_are_the_segment_that_is_read(tmp_path, params, row, part, suffix):
    soundfile.write(tmp_path / "talk.wav", np.random.default_rng(0).uniform(-0.5, 0.5, 16_000), 8000, format=suffix)
    expected = read_audio(str(tmp_path / "talk.wav"), 8000)[part]
    layer = Speech2TextDataLayer({**segments_of(tmp_path, params, row), "backend": "tf",
                                  "cache_features": True}, mode="eval")
    for _ in range(2):  # the second one is from the cache
        audio, lengths = layer.make_batch(np.arange(1))["source_tensors"]
        assert lengths.tolist() == [len(expected)] == layer.lengths[:, 0].tolist()
        np.testing.assert_allclose(audio[0] / np.abs(audio[0]).max(), expected / np.abs(expected).max(), atol=1e-6)
    assert layer.duration(0) == len(expected) / 8000


def test_segments_of_one_recording_are_not_repeated(tmp_path, params, voice):
    soundfile.write(tmp_path / "talk.wav", np.tile(voice, 4), 8000)
    rows = [{"duration": 0.5}, {"offset": 0.5, "duration": 0.5}, {"offset": 0.5}]
    layer = Speech2TextDataLayer(segments_of(tmp_path, params, *rows), mode="train")
    assert layer.num_examples == 3 and len({layer.file_name(example) for example in range(3)}) == 2
    with pytest.raises(DataError, match="talk.wav is already in line 1 of the list"):
        Speech2TextDataLayer(segments_of(tmp_path, params, *rows, {**rows[0], "text": "ba"}), mode="train")


@pytest.mark.parametrize(("row", "words"), [
    ({"offset": 1.5, "duration": 1}, r"talk.wav@1.5 has 2.00 s, but the row is its segment from 1.5 s to 2.5 s"),
    ({"duration": 3}, r"talk.wav has 2.00 s, but the row is its segment from 0 s to 3 s"),
    ({"offset": 2.0}, r"talk.wav@2 has 2.00 s, but"), ({"duration": 1e-9}, "talk.wav has 2.00 s, but"),
])
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_segment_outside_its_recording_is_a_bad_example(tmp_path, params, voice, row, words, mode):
    soundfile.write(tmp_path / "talk.wav", np.tile(voice, 4), 8000)
    with pytest.raises(DataError, match=rf"1 segment outside the recording\.\n +\S+list.json:2: {words}"):
        Speech2TextDataLayer(segments_of(tmp_path, params, {}, row), mode=mode)


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_channels_of_opposite_phase_are_said(one_list, voice, mode, capsys):
    params = one_list(("a.wav", np.stack([voice, -voice], axis=1), "ab"), ("b.wav", voice, "ab"))
    layer = Speech2TextDataLayer(params, mode=mode)
    if mode == "infer":
        assert layer.make_batch(np.arange(2))["ids"].tolist() == [0, 1]
        assert re.search(r"WARNING: \S*/a\.wav has channels of opposite phase", capsys.readouterr().out)
        return
    for read in (lambda: layer.make_batch(np.arange(2)), layer.examine):
        with pytest.raises(DataError, match=r"list\.csv:2: a\.wav has channels of opposite phase"):
            read()
    layer = Speech2TextDataLayer({**params, "on_bad_example": "skip"}, mode=mode)
    assert "1 bad example: 1 opposite channels" in layer.examine()[1]
    assert layer.make_batch(np.arange(2))["ids"].tolist() == [1]
