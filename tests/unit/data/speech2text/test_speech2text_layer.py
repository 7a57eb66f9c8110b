from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from open_seq2seq.data.audio.audio_files import read_audio
from open_seq2seq.data.audio.features import audio_features, normalized_audio
from open_seq2seq.data.batch_loader import Wanted
from open_seq2seq.data.batching import BatchStream
from open_seq2seq.data.speech2text import recordings
from open_seq2seq.data.speech2text.speech2text import Speech2TextDataLayer
from open_seq2seq.data.static_shapes import StaticBatches
from open_seq2seq.utils.errors import ConfigError, DataError

AUGMENTATION = {"speed_perturbation_ratio": 0.1, "noise_level_min": -60, "noise_level_max": -40,
                "n_freq_mask": 1, "width_freq_mask": 5, "n_time_mask": 1, "width_time_mask": 10}
ALL = np.arange(16)


def flat(batch) -> list[np.ndarray]:
    return [np.asarray(array) for array in tf.nest.flatten(batch)]


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(flat(one), flat(other), strict=True))


def test_a_batch(make_layer, toy):
    layer = make_layer("eval")
    batch = layer.make_batch(np.asarray([3, 0, 5]))
    features, lengths = batch["source_tensors"]
    assert features.shape == (3, -(-lengths.max() // 8) * 8, 20)
    assert (features.dtype, lengths.dtype, batch["ids"].tolist()) == (np.float32, np.int32, [3, 0, 5])
    for row, example in enumerate([3, 0, 5]):
        audio = read_audio(str(toy / layer.file_name(example)), 8000)
        expected = audio_features(normalized_audio(audio, None), layer.settings)
        assert np.array_equal(features[row, :lengths[row]], expected)
        assert np.all(features[row, lengths[row]:] == 0)
        ids, count = (array[row] for array in batch["target_tensors"])
        assert layer.ids_to_text(ids[:count]) == layer.reference_text(example)
    for array, spec in zip(flat(batch), tf.nest.flatten(layer.input_signature), strict=True):
        assert spec.is_compatible_with(tf.constant(array))


@pytest.mark.parametrize("backend", ["psf", "librosa", "tf"])
def test_alone_or_in_a_batch(make_layer, backend):
    layer = make_layer("eval", backend=backend)
    features, lengths = layer.features(layer.make_batch(ALL))
    for example in ALL:
        alone, count = layer.features(layer.make_batch(ALL[example:example + 1]))
        assert count[0] == lengths[example]
        assert np.abs(alone[0, :count[0]] - features[example, :count[0]]).max() < 1e-5


@pytest.mark.parametrize("backend", ["psf", "librosa", "tf"])
@pytest.mark.parametrize("augmentation", [None, AUGMENTATION])
def test_lengths_hold_what_batches_take(make_layer, backend, augmentation):
    layer = make_layer(backend=backend, augmentation=augmentation, pad_to=16)
    assert layer.lengths.shape == (16, 2)
    for example, epoch in itertools.product([0, 7], range(3)):
        batch = layer.make_training_batch(ALL[example:example + 1], epoch)
        assert batch["source_tensors"][0].shape[1] <= layer.lengths[example, 0]
        assert batch["target_tensors"][0].shape[1] == layer.lengths[example, 1]
    if augmentation is None:
        assert make_layer("infer", backend=backend, pad_to=16).lengths.tolist() == layer.lengths[:, 0].tolist()


@pytest.mark.parametrize("backend", ["psf", "librosa", "tf"])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("augmentation", [AUGMENTATION, {"n_time_mask": 2}])
def test_augmentation_differs_by_epoch_and_repeats(make_layer, tmp_path, backend, cached, augmentation):
    cache = {"cache_features": True, "cache_dir": str(tmp_path)} if cached else {}
    layer = make_layer(backend=backend, augmentation=augmentation, **cache)
    some = ALL[:4]
    epochs = [layer.make_training_batch(some, epoch) for epoch in range(3)]
    assert not same(epochs[0], epochs[1]) and not same(epochs[1], epochs[2])
    resumed = make_layer(backend=backend, augmentation=augmentation, **cache)
    assert same(resumed.make_training_batch(some, 2), epochs[2])
    assert same(make_layer(backend=backend, augmentation=augmentation).make_training_batch(some, 2), epochs[2])
    assert not same(make_layer(seed=2, backend=backend, augmentation=augmentation).make_training_batch(some, 2),
                    epochs[2])
    alone = layer.make_training_batch(some[2:3], 1)["source_tensors"]
    length = int(alone[1][0])
    assert np.array_equal(alone[0][0, :length], epochs[1]["source_tensors"][0][2, :length])
    assert any(tmp_path.rglob("*.npy")) == cached


@pytest.mark.parametrize("mode", ["eval", "infer"])
def test_nothing_is_augmented_outside_of_training(make_layer, mode):
    plain = make_layer(mode, dither=0.0)
    augmented = make_layer(mode, augmentation=AUGMENTATION)
    assert same(plain.make_batch(ALL), augmented.make_batch(ALL))
    dithered = make_layer(mode, dither=1e-3)
    assert same(dithered.make_batch(ALL), dithered.make_training_batch(ALL, 5))
    assert not same(dithered.make_batch(ALL), plain.make_batch(ALL))


def test_the_graph_masks_what_numpy_masks(make_layer):
    masks = {"n_freq_mask": 2, "width_freq_mask": 5, "n_time_mask": 2, "width_time_mask": 9}
    layers = [make_layer(backend=backend, augmentation=masks) for backend in ("librosa", "tf")]
    (ours, _), (in_graph, _) = (layer.features(layer.make_training_batch(ALL, 1), training=True) for layer in layers)
    assert np.array_equal(ours == 0, in_graph == 0)
    assert np.abs(ours - in_graph).max() < 1e-3


@pytest.mark.parametrize("backend", ["librosa", "tf"])
@pytest.mark.parametrize(("unit", "size"), [("frames", 400), ("seconds", 4)])
def test_batches_by_duration(make_layer, backend, unit, size):
    layer = make_layer(backend=backend, batch_size_unit=unit, batch_size=size)
    stream = BatchStream(layer.lengths, batch_size=layer.batch_budget, costs=layer.costs)
    sizes = []
    for number in range(stream.micro_batches_per_epoch):
        examples = stream.examples(number)
        frames, _ = layer.features(layer.make_batch(examples))
        assert frames.shape[0] * frames.shape[1] <= 400 + (8 * len(examples) if backend == "tf" else 0)
        sizes.append(len(examples))
    assert sum(sizes) == 16
    assert len(set(sizes)) > 1


def test_a_recording_of_more_seconds_than_a_batch(make_layer):
    layer = make_layer(batch_size_unit="seconds", batch_size=1)
    words = layer.explain_too_costly(3)
    assert re.search(r"train.csv:\d+ .* has \d\.\d\d seconds, padding included, but the batch size is 1: ", words)
    assert float(words.split(" has ")[1].split()[0]) == pytest.approx(layer.duration(3), abs=0.1)


def test_duration_limits(make_layer, capsys):
    everything = make_layer()
    seconds = np.asarray([everything.duration(example) for example in ALL])
    least, most = np.sort(seconds)[[3, 12]]
    layer = make_layer(min_duration=float(least), max_duration=float(most))
    assert layer.num_examples == np.sum((seconds >= least) & (seconds <= most)) == 10
    assert sum(layer.report_dropped().values()) == 6
    said = capsys.readouterr().out
    assert f"Left out 3 recordings shorter than min_duration {least} s (train)" in said
    assert f"Left out 3 recordings longer than max_duration {most} s (train)" in said
    kept = [layer.file_name(example) for example in range(10)]
    assert kept == [everything.file_name(e) for e in ALL if least <= seconds[e] <= most]
    assert make_layer("infer", min_duration=float(least)).num_examples == 16
    with pytest.raises(DataError, match="were left out"):
        make_layer(min_duration=100.0)


def test_autoregressive_targets_end(make_layer):
    layer = make_layer(autoregressive=True)
    ids, lengths = layer.make_batch(ALL[:1])["target_tensors"]
    assert ids[0, lengths[0] - 1] == layer.alphabet.end_id
    assert layer.ids_to_text(ids[0]) == layer.reference_text(0)


def test_the_cache_is_before_what_is_drawn(make_layer, tmp_path):
    plain = make_layer().make_batch(ALL)
    for cache_format in ("npy", "npz", "hdf5"):
        layer = make_layer(cache_features=True, cache_format=cache_format, cache_dir=str(tmp_path))
        assert same(layer.make_batch(ALL), plain)
        assert len(list(tmp_path.rglob(f"*.{cache_format}"))) == 16
        assert same(make_layer(cache_features=True, cache_format=cache_format, cache_dir=str(tmp_path)).make_batch(ALL),
                    plain)


def test_the_cache_is_used_and_forgotten_with_the_parameters(make_layer, tmp_path):
    cached = {"cache_features": True, "cache_dir": str(tmp_path)}
    layer = make_layer(**cached)
    layer.make_batch(ALL)
    for example in ALL:
        recording, cache = layer._set.utterance(example).path, layer._pipeline.cache
        cache.store(recording, cache.load(recording) * 0 + 7)
    assert np.all(make_layer(**cached).make_batch(ALL[:1])["source_tensors"][0][0, :5] == 7)
    assert not np.any(make_layer(**cached, window_size=0.03).make_batch(ALL[:1])["source_tensors"][0] == 7)
    assert not np.any(make_layer(**cached, cache_regenerate=True).make_batch(ALL[:1])["source_tensors"][0] == 7)


def test_inference_keeps_no_silence_that_training_would_then_take(one_list, voice, tmp_path):
    """Neither features nor, with noise before them, audio."""
    params = {**one_list(("a.wav", voice * 0, "ab"), ("b.wav", voice, "ab")), "cache_features": True}
    for changes in ({}, {"backend": "tf"}):
        for mode in ("infer", "eval", "train"):
            layer = Speech2TextDataLayer({**params, **changes}, mode=mode)
            assert layer.make_batch(np.arange(1, 2))["ids"].tolist() == [1]
            if mode == "infer":
                assert layer.make_batch(np.arange(2))["ids"].tolist() == [0, 1]
            else:
                with pytest.raises(DataError, match=r"a\.wav is silent"):
                    layer.make_batch(np.arange(2))
    assert len(list(tmp_path.rglob("*.npy"))) == 2


def test_inference_remembers_no_headers(make_layer, toy, monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "_REMEMBERED_FROM", 2)
    for mode in ("infer", "eval"):
        make_layer(mode, cache_dir=str(tmp_path))
        assert any(tmp_path.rglob("lengths-*")) == (mode == "eval")


def test_interactive_input(make_layer, toy):
    layer = make_layer("interactive_infer", dataset_files=[])
    path = str(toy / "wav" / "train-0000.wav")
    audio, rate = soundfile.read(path, dtype="int16")
    batch = layer.make_interactive_batch([path, audio, (audio, rate), audio.astype(np.float32) / 32768])
    features, lengths = batch["source_tensors"]
    assert np.all(features == features[0]) and len(set(lengths.tolist())) == 1
    assert same(features[:1], make_layer("eval").make_batch(ALL[:1])["source_tensors"][0])
    with pytest.raises(DataError, match="no_such.wav does not exist"):
        layer.make_interactive_batch(["no_such.wav"])
    with pytest.raises(DataError, match="no recordings"):
        layer.make_interactive_batch([])
    with pytest.raises(DataError, match="pass recordings to"):
        _ = layer.num_examples


def test_inference_on_files(make_layer, toy):
    layer = make_layer("infer", dataset_files=[str(toy / "wav"), str(toy / "wav" / "dev-0001.wav")])
    assert layer.num_examples == 21
    assert layer.file_name(20) == str(toy / "wav" / "dev-0001.wav")
    assert layer.describe_example(20) == layer.file_name(20)
    assert "target_tensors" not in layer.make_batch(ALL[:2])
    with pytest.raises(DataError, match="not available in inference"):
        layer.reference_text(0)


def test_half_precision_features(make_layer):
    layer = make_layer(dtype="bfloat16")
    assert layer.make_batch(ALL[:2])["source_tensors"][0].dtype == tf.bfloat16.as_numpy_dtype
    assert layer.input_signature["source_tensors"][0].dtype == tf.bfloat16
    in_graph = make_layer(dtype="bfloat16", backend="tf")
    assert in_graph.features(in_graph.make_batch(ALL[:2]))[0].dtype == tf.bfloat16


@pytest.mark.parametrize(("changes", "words"), [
    ({"dataset_files": []}, "dataset_files' is missing"), ({"dataset_files": [3]}, "list of file names"),
    ({"map_parallel_calls": 0}, "map_parallel_calls"), ({"encoder_stride": 0}, "encoder_stride"),
    ({"min_duration": 5.0, "max_duration": 2.0}, "not exceed max_duration"), ({"dtype": tf.int32}, "floating-point"),
    ({"backend": "kaldi"}, "backend"), ({"features_mean": ["a"]}, "features_mean"),
    ({"mel_basis": True}, "Unknown parameter"), ({"window": "kaiser"}, "window"),
    ({"augmentation": {"n_freq_mask": 1, "width_freq_mask": 99}}, "only 20"),
])
def test_parameters_that_do_not_fit(make_layer, changes, words):
    with pytest.raises(ConfigError, match=words):
        make_layer(**changes)


@pytest.mark.parametrize("backend", ["librosa", "tf"])
def test_static_shapes_hold_augmented_batches(make_layer, backend):
    layer = make_layer(backend=backend, augmentation=AUGMENTATION)
    stream = BatchStream(layer.lengths, batch_size=4, max_shapes=2)
    plan = (Wanted(number, stream.examples(number), stream.epoch_of(number))
            for number in range(2 * stream.micro_batches_per_epoch))
    shapes = set()
    for _, batch in StaticBatches(layer, stream.shapes).make_batches(plan, True):
        shapes.add(batch["source_tensors"][0].shape)
        features, lengths = layer.features(batch, training=True)
        assert np.all(np.asarray(lengths)[batch["ids"] < 0] == 0)
        assert np.all(np.isfinite(features))
    assert len(shapes) <= 2
