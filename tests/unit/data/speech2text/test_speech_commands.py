import os

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from open_seq2seq.data import SpeechCommandsDataLayer
from open_seq2seq.data.speech2text import speech_commands
from open_seq2seq.data.speech2text.augmentation import Draw
from open_seq2seq.data.speech2text.speech_commands import fitted, fitted_in_graph, log_mel
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.librosa_import import import_librosa

RATE = 16000


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    for number in range(4):
        audio = 0.3 * np.sin(np.arange(4000 + 900 * number) * (0.05 + 0.1 * number)) + 0.01 * random.normal(
            size=4000 + 900 * number)
        soundfile.write(tmp_path / f"{number}.wav", audio, RATE)
    (tmp_path / "list.txt").write_text("0,0.wav\n1,1.wav\n2,2.wav\n1,3.wav")
    return tmp_path


def make(folder, **others):
    return SpeechCommandsDataLayer({
        "dataset_files": [str(folder / "list.txt")], "dataset_location": str(folder), "num_audio_features": 20,
        "audio_length": 22, "num_labels": 3, "model_format": "resnet", "batch_size": 2, **others})


def test_lists_are_also_looked_for_in_the_folder_of_the_recordings(folder):
    layer = make(folder, dataset_files=["list.txt"])
    assert layer.num_examples == 4 and layer.data_files() == {"dataset_files 0": str(folder / "list.txt")}
    (folder / "list.txt").write_text("0,0.wav\n")
    with pytest.raises(DataError, match=r"list\.txt has changed since this run read it"):
        layer.check_unchanged()
    assert SpeechCommandsDataLayer.opened_files({"dataset_files": ["list.txt"], "dataset_location": str(folder)}) == {
        "dataset_files": [str(folder / "list.txt")], "dataset_location": str(folder)}


@pytest.mark.parametrize("samples", [1, 1500, 5000])
def test_spectrogram_equals_librosa(samples):
    librosa = import_librosa()
    audio = (0.2 * np.random.default_rng(0).normal(size=samples)).astype(np.float32)
    expected = librosa.feature.melspectrogram(y=audio, sr=RATE, n_fft=1024, hop_length=256, power=2.0, n_mels=40,
                                              htk=True, norm=None, pad_mode="reflect") if samples > 512 else None
    found = log_mel(audio, RATE, 40)
    assert found.shape == (1 + samples // 256, 40) and np.isfinite(found).all()
    if expected is not None:
        np.testing.assert_allclose(found, np.log(np.clip(expected.T, 1e-5, None)), atol=2e-3)


def test_a_shift_of_pitch_moves_a_tone():
    tone = np.sin(2 * np.pi * 1000 * np.arange(8000) / RATE).astype(np.float32)
    higher = np.sin(2 * np.pi * 1000 * 2 ** (2 / 12) * np.arange(8000) / RATE).astype(np.float32)
    shifted = log_mel(tone, RATE, 64, 2 ** (2 / 12))
    assert shifted[10].argmax() == log_mel(higher, RATE, 64)[10].argmax() != log_mel(tone, RATE, 64)[10].argmax()


def test_features_are_cut_or_padded():
    features = np.arange(12.0).reshape(6, 2) + 1
    np.testing.assert_array_equal(fitted(features, 2, None), features[2:4])
    assert {float(fitted(features, 2, Draw(0, 1, epoch))[0, 0]) for epoch in range(40)} == {1.0, 3.0, 5.0, 7.0, 9.0}
    padded = fitted(features, 9, None)
    assert not padded[:1].any() and not padded[7:].any()
    np.testing.assert_array_equal(padded[1:7], features)


@pytest.mark.parametrize("fourier_by_matrix", [False, True])
def test_the_graph_computes_the_same(fourier_by_matrix):
    """Of recordings shorter and longer than the features, one shorter than a window."""
    clips = [np.random.default_rng(number).normal(size=size).astype(np.float32) / 9
             for number, size in enumerate([300, 2000, 5000, 5377, 9001])]
    padded = np.full([len(clips), 9500], 0.7, np.float32)
    for row, clip in zip(padded, clips, strict=True):
        row[:len(clip)] = clip
    with forward_pass(portable=True, fourier_by_matrix=fourier_by_matrix):
        found = fitted_in_graph(tf.constant(padded), tf.constant([len(clip) for clip in clips]), RATE, 40, 20)
    for row, clip in zip(found, clips, strict=True):
        np.testing.assert_allclose(row, fitted(log_mel(clip, RATE, 40), 20, None), atol=1e-3)


@pytest.mark.parametrize("cache", [False, True])
def test_batches_follow_from_seed_example_and_epoch(folder, cache):
    layer = make(folder, augment_data=True, cache_data=cache)
    layer.seed = 3
    first = layer.make_training_batch(np.array([0, 3, 2]), 1)
    second = layer.make_training_batch(np.array([3]), 1)
    np.testing.assert_array_equal(first["source_tensors"][0][1], second["source_tensors"][0][0])
    other_epoch = layer.make_training_batch(np.array([3]), 2)
    assert not np.allclose(other_epoch["source_tensors"][0], second["source_tensors"][0])
    np.testing.assert_array_equal(first["target_tensors"][0], np.eye(3)[[0, 1, 2]])
    assert first["source_tensors"][0].shape == (3, 22, 20, 1)
    plain, same = (made.make_batch(np.array([3]))["source_tensors"][0] for made in (make(folder, mode="eval"), layer))
    np.testing.assert_array_equal(plain, same)


def test_a_recording_of_several_rows_is_read_once(folder, monkeypatch):
    (folder / "list.txt").write_text("0,0.wav\n1,1.wav\n0,0.wav\n")
    read = []
    monkeypatch.setattr(speech_commands, "read_audio", lambda path, rate: read.append(path) or np.zeros(2000))
    layer = make(folder, cache_data=True, mode="eval", map_parallel_calls=1)
    layer.make_batch(np.arange(3))
    assert [os.path.basename(path) for path in read] == ["0.wav", "1.wav"]


def test_jasper_gets_features_as_channels(folder):
    layer = make(folder, model_format="jasper", mode="eval")
    values, lengths = layer.make_batch(np.arange(2))["source_tensors"]
    assert values.shape == (2, 22, 1, 20) and lengths.tolist() == [22, 22]
    np.testing.assert_array_equal(values[:, :, 0], make(folder).make_batch(np.arange(2))["source_tensors"][0][..., 0])
    assert layer.encoder_params == {"num_audio_features": 20, "features_as_channels": True}


def test_names_of_classes_and_files_of_inference(folder, capsys):
    (folder / "classes.txt").write_text("yes\nno\ngo\n")
    (folder / "list.txt").write_text("go,0.wav\n1,1.wav\n")
    layer = make(folder, class_file=str(folder / "classes.txt"), mode="eval")
    assert layer.make_batch(np.arange(2))["target_tensors"][0].argmax(1).tolist() == [2, 1]
    assert layer.class_names == ["yes", "no", "go"] and layer.describe_example(1).startswith(f"{folder}/list.txt:2")
    given = SpeechCommandsDataLayer.params_for_files([str(folder)])
    inference = make(folder, mode="infer", **given)
    assert inference.num_examples == 4 and "target_tensors" not in inference.make_batch(np.arange(4))
    typed = make(folder, mode="interactive_infer").make_interactive_batch([str(folder / "1.wav")])
    np.testing.assert_array_equal(typed["source_tensors"][0][0], inference.make_batch(np.arange(4))[
        "source_tensors"][0][1])
    assert inference.examine() == ["4 of 4 recordings were decoded"]
    (folder / "1.wav").rename(folder / "1.m4a")  # read by its content
    (folder / "5.m4a").write_bytes(b"ftypM4A")
    assert SpeechCommandsDataLayer.params_for_files([str(folder)])["files"] == [
        f"{folder}/{name}" for name in ("0.wav", "1.m4a", "2.wav", "3.wav")]
    assert f"Left out 3 files of {folder} that libsndfile cannot read (2 .txt, 1 .m4a)" in capsys.readouterr().out
    (folder / "none").mkdir()
    with pytest.raises(UserError, match="a folder without recordings"):
        SpeechCommandsDataLayer.params_for_files([str(folder / "none")])


def test_given_samples_are_converted(folder):
    layer = make(folder, mode="interactive_infer")
    samples, _ = soundfile.read(folder / "1.wav", dtype="int16")
    given = layer.make_interactive_batch([folder / "1.wav", samples, np.stack([samples, samples], axis=1),
                                          (np.repeat(samples, 2), 2 * RATE)])["source_tensors"][0]
    np.testing.assert_array_equal(given[0], given[1])
    np.testing.assert_array_equal(given[0], given[2])
    assert np.abs(given[0] - given[3])[:, :10].max() < 1.0
    with pytest.raises(DataError, match="The audio contains no samples"):
        layer.make_interactive_batch([np.zeros(0, np.float32)])


@pytest.mark.parametrize("content,words", [
    ("3,0.wav\n", "list.txt:1: the label is '3', but the classes are 0, 1, 2"),
    ("0,0.wav\n0\n", "list.txt:2: the row must have a file and a label"),
    ("0,9.wav", "list.txt:1: the recording .*9.wav does not exist"),
    ("", "is empty"),
])
def test_bad_lists_are_explained(folder, content, words):
    (folder / "list.txt").write_text(content)
    with pytest.raises(DataError, match=words):
        make(folder)


def test_broken_recordings_stop_or_are_skipped(folder, capfd):
    (folder / "1.wav").write_bytes(b"no recording")
    with pytest.raises(DataError, match=r"list.txt:2 \(.*1.wav\): the recording .*/on_bad_example to skip"):
        make(folder).make_batch(np.arange(3))
    with pytest.raises(DataError, match=r"1 of 4 recordings cannot be used: .*list.txt:2 \(.*1.wav\): the recording"):
        make(folder).examine()
    layer = make(folder, on_bad_example="skip")
    lines = layer.examine()
    assert lines[0] == "3 of 4 recordings were decoded" and len(lines) == 2 and "1.wav" in lines[1]
    assert layer.make_batch(np.arange(3))["ids"].tolist() == [0, 2]
    assert layer.make_batch(np.array([1]))["ids"].tolist() == [-1]
    assert capfd.readouterr().out.count("Skipped") == 1
    (folder / "classes.txt").write_text("yes\n")
    with pytest.raises(DataError, match="has 1 lines, but num_labels is 3"):
        make(folder, class_file=str(folder / "classes.txt"))


def test_channels_of_opposite_phase_are_said(folder, capsys):
    sound = np.sin(np.arange(RATE // 2) / 9)
    soundfile.write(folder / "0.wav", np.stack([sound, -sound], axis=1), RATE)
    with pytest.raises(DataError, match=r"0\.wav\): the recording has channels of opposite phase"):
        make(folder).make_batch(np.arange(1))
    inference = make(folder, mode="infer", files=[str(folder / "0.wav")])
    assert inference.make_batch(np.arange(1))["ids"].tolist() == [0]
    assert f"WARNING: {folder}/0.wav has channels of opposite phase" in capsys.readouterr().out
