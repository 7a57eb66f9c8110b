"""Recordings with their spectrograms: pieces, context, files of inference, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.audio.synthesis_features import spectrogram
from open_seq2seq.data.text2speech.wavenet import WavenetDataLayer
from open_seq2seq.utils.errors import ConfigError, DataError

RATE, POINTS, MELS = 8000, 64, 8
HOP = POINTS // 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with two recordings of 20 and 31 frames, and a list of them."""
    root, rng = tmp_path_factory.mktemp("clips"), np.random.default_rng(0)
    (root / "wavs").mkdir()
    for name, frames in (("a", 20), ("b", 31)):
        soundfile.write(root / "wavs" / f"{name}.wav", rng.uniform(-0.5, 0.5, (frames - 1) * HOP + 3), RATE)
    (root / "list.csv").write_text("a|x\nb|y\n")
    return root


def make_layer(folder, mode="train", **changes):
    return WavenetDataLayer({"num_audio_features": MELS, "sample_freq": RATE, "n_fft": POINTS, "fmax": 3000.0,
                             "dataset_location": str(folder), "dataset_files": [str(folder / "list.csv")], **changes},
                            mode=mode)


def test_frames_belong_to_their_samples_and_the_context_is_silence(folder):
    layer = make_layer(folder, "eval", context_frames=3)
    audio, samples, mel, frames = layer.make_batch(np.array([0, 1]))["source_tensors"]
    np.testing.assert_array_equal(frames, [23, 34])
    np.testing.assert_array_equal(samples, frames * HOP)
    np.testing.assert_array_equal(np.stack([samples, frames], 1), layer.lengths)
    recording = layer.recording(0)
    np.testing.assert_array_equal(audio[0, 3 * HOP:3 * HOP + len(recording)], recording)
    assert not audio[0, :3 * HOP].any() and not audio[0, 3 * HOP + len(recording):].any()
    np.testing.assert_allclose(mel[0, 3:23], spectrogram(recording, layer.settings))
    np.testing.assert_array_equal(mel[0, :3], np.tile(layer.settings.padding, [3, 1]))


def test_pieces_are_drawn_anew_in_each_epoch_and_alike_in_each_run(folder):
    layer = make_layer(folder, segment_frames=5, context_frames=2)
    first, again, next_epoch = (layer.make_training_batch(np.array([1, 0]), epoch) for epoch in (0, 0, 1))
    np.testing.assert_array_equal(first["target_tensors"][1], [7 * HOP, 7 * HOP])
    np.testing.assert_array_equal(first["source_tensors"][0], again["source_tensors"][0])
    assert (first["source_tensors"][0] != next_epoch["source_tensors"][0]).any()
    whole = make_layer(folder, "eval", context_frames=2).make_batch(np.array([1]))["source_tensors"]
    piece = first["source_tensors"][2][0]
    starts = [start for start in range(27) if np.array_equal(whole[2][0, start:start + 7], piece)]
    assert len(starts) == 1
    np.testing.assert_array_equal(whole[0][0, starts[0] * HOP:(starts[0] + 7) * HOP], first["source_tensors"][0][0])


def test_clips_that_are_shorter_than_a_piece_end_in_silence(folder):
    batch = make_layer(folder, segment_frames=40).make_training_batch(np.array([0]), 0)
    audio, samples, mel, frames = batch["source_tensors"]
    assert (samples[0], frames[0]) == (40 * HOP, 40) and not audio[0, 20 * HOP:].any()


def test_inference_reads_lists_recordings_and_spectrograms(folder, tmp_path):
    values = np.random.default_rng(1).normal(size=[6, MELS]).astype(np.float32)
    np.save(tmp_path / "0000.npy", values)
    layer = make_layer(folder, "infer", dataset_files=[
        str(folder / "list.csv"), str(folder / "wavs" / "b.wav"), str(tmp_path / "0000.npy")])
    mel, frames = layer.make_batch(np.arange(4))["source_tensors"]
    np.testing.assert_array_equal(frames, [20, 31, 31, 6])
    np.testing.assert_array_equal(mel[1], mel[2])
    np.testing.assert_array_equal(mel[3, :6], values)
    given = make_layer(folder, "interactive_infer").make_interactive_batch(
        [values, tmp_path / "0000.npy", str(folder / "wavs" / "a.wav")])
    np.testing.assert_array_equal(given["source_tensors"][1], [6, 6, 20])


def test_the_folder_of_the_recordings_may_be_named_itself(folder):
    assert make_layer(folder, dataset_location=str(folder / "wavs/")).num_examples == 2


def test_mistakes_are_named(folder, tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros([3, 2 * MELS], np.float32))
    np.save(tmp_path / "nan.npy", np.full([3, MELS], np.nan, np.float32))
    (tmp_path / "text.npy").write_text("no array")
    layer = make_layer(folder, "interactive_infer")
    for given, message in ((tmp_path / "wide.npy", rf"wide.npy is no spectrogram .* numbers \[frames, {MELS}\]"),
                           (tmp_path / "nan.npy", "nan.npy has values that are not finite"),
                           (tmp_path / "text.npy", "text.npy is not a file .npy"),
                           (tmp_path / "none.npy", "none.npy does not exist"),
                           (np.zeros([4], np.float32), "given array is no spectrogram of the model"),
                           ("none.wav", "none.wav does not exist")):
        with pytest.raises(DataError, match=message):
            layer.make_interactive_batch([given])
    with pytest.raises(DataError, match="list.csv:2: b is silent"):
        (tmp_path / "wavs").mkdir()
        soundfile.write(tmp_path / "wavs" / "a.wav", np.full(400, 0.1), RATE)
        soundfile.write(tmp_path / "wavs" / "b.wav", np.zeros(400), RATE)
        make_layer(tmp_path, dataset_files=[str(folder / "list.csv")]).make_batch(np.array([1]))
    with pytest.raises(ConfigError, match="'data_layer_params/dataset_files' must name at least one list"):
        make_layer(folder, dataset_files=[])
    with pytest.raises(ConfigError, match="'data_layer_params/segment_frames'"):
        make_layer(folder, segment_frames=0)
