import numpy as np
import pytest
import soundfile

from open_seq2seq.data.audio.synthesis_features import spectrogram
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.data.text2speech.toy_voice import RATE, heard, spoken, write_toy_voice
from open_seq2seq.utils.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voice")
    write_toy_voice(str(folder), {"train": 6, "dev": 3})
    return folder


def layer(voice, mode="train", **changes):
    return Text2SpeechDataLayer({
        "dataset": "LJ", "dataset_location": str(voice), "dataset_files": [str(voice / "train.csv")],
        "vocab_file": str(voice / "vocab.txt"), "num_audio_features": 20, "output_type": "mel",
        "feature_normalize": False, "sample_freq": RATE, "n_fft": 512, **changes}, mode=mode)


def listed(voice, *lines):
    path = voice / "own.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(path)]


def test_a_batch_has_ids_spectrograms_and_stop_targets(voice):
    data = layer(voice)
    batch = data.make_batch(np.arange(6))
    ids, sizes = batch["source_tensors"]
    values, stop, lengths = batch["target_tensors"]
    rows = [line.split("|") for line in (voice / "train.csv").read_text().splitlines()]
    for row, (name, text, _) in enumerate(rows):
        assert ids[row, 0] == 1 and data.text_of(ids[row]) == text
        assert ids[row, len(text) + 1] == 2 and not ids[row, len(text) + 2:].any()
        audio, _ = soundfile.read(voice / "wavs" / f"{name}.wav", dtype="float32")
        expected = spectrogram(audio, data.settings)
        frames = len(expected)
        np.testing.assert_array_equal(values[row, :frames], expected)
        np.testing.assert_allclose(values[row, frames:], np.log(1e-5), rtol=1e-6)
        np.testing.assert_array_equal(stop[row], np.arange(values.shape[1]) >= frames)
        assert lengths[row] > frames and lengths[row] % 8 == 0 and sizes[row] % 8 == 0
    np.testing.assert_array_equal(data.lengths, np.stack([sizes, lengths], 1))


def test_without_padding_the_last_frame_stops(voice):
    data = layer(voice, pad_EOS=False)
    batch = data.make_batch(np.array([0]))
    stop, lengths = batch["target_tensors"][1:]
    assert stop.sum() == 1 and stop[0, -1] == 1 and lengths[0] == stop.shape[1]
    assert len(data.text_of(batch["source_tensors"][0][0])) == batch["source_tensors"][1][0]


def test_both_kinds_and_style(voice):
    data = layer(voice, mode="eval", output_type="both", num_audio_features={"mel": 20, "magnitude": 257},
                 data_min={"mel": 1e-2, "magnitude": 1e-5}, style_input="wav")
    batch = data.make_batch(np.array([2, 0]))
    style, lengths = batch["source_tensors"][2:]
    assert batch["target_tensors"][0].shape[2] == 277 and data.lengths.shape == (6, 3)
    np.testing.assert_array_equal(style, batch["target_tensors"][0][..., :20])
    np.testing.assert_array_equal(lengths, batch["target_tensors"][2])


def test_inference_reads_lists_and_plain_lines(voice):
    text = "UNUSED|UNUSED|a e"
    data = layer(voice, "infer", dataset_files=listed(voice, text, "i o!"), plain_text=True)
    batch = data.make_batch(np.arange(2))
    assert [data.text_of(row) for row in batch["source_tensors"][0]] == ["a e", "i o"]
    assert "target_tensors" not in batch and "'!' (U+0021)" in data.remarks()[0]
    typed = layer(voice, "interactive_infer").make_interactive_batch(["A  e", "i o!"])
    np.testing.assert_array_equal(typed["source_tensors"][0], batch["source_tensors"][0])


def test_a_style_recording_for_each_text(voice):
    data = layer(voice, "interactive_infer", style_input="wav")
    clip = str(voice / "wavs" / "train-0000.wav")
    batch = data.make_interactive_batch([("a", clip)])
    expected = layer(voice, style_input="wav").make_batch(np.array([0]))["source_tensors"][2]
    np.testing.assert_array_equal(batch["source_tensors"][2], expected)
    with pytest.raises(DataError, match="style recording"):
        data.make_interactive_batch(["a"])
    with pytest.raises(DataError, match="none.wav"):
        data.make_interactive_batch([("a", "none.wav")])


def test_limits_and_number_of_clips(voice):
    frames = layer(voice).lengths[:, 1]
    data = layer(voice, duration_max=int(np.median(frames)))
    assert 0 < data.num_examples < 6 and data.report_dropped() == {
        "outside duration_min and duration_max": 6 - data.num_examples}
    shortest = layer(voice, n_samples_train=2)
    assert shortest.num_examples == 2
    assert max(shortest.lengths[:, 0]) <= sorted(layer(voice).lengths[:, 0])[1]
    with pytest.raises(DataError, match="No clips"):
        layer(voice, duration_min=10**6, duration_max=None)


def test_the_cache_gives_the_same_batch(voice):
    cached, plain = layer(voice, use_cache=True), layer(voice)
    first = cached.make_batch(np.array([1, 3]))["target_tensors"][0].copy()
    for data in (cached, plain):
        np.testing.assert_array_equal(data.make_batch(np.array([1, 3]))["target_tensors"][0], first)


@pytest.mark.parametrize(("line", "message"), [
    ("nothing|a", "own.csv:1: nothing"), ("train-0000|", "empty text"),
    ("train-0000|a7", r"own.csv:1.*'7' \(U\+0037\)"),
    ("train-0000", "1 column"), ("train-0000|a|a|a", "fourth column"), ("train-0000,a", "1 column"),
    ("train-0000|a|a|0.4|a", "5 columns"), ("train-0000|a e|a e|0.4", "2 symbols"), ("train-0000|a|a|-1", "seconds"),
    ("silent|a", "silent"), ("broken|a", "own.csv:1: broken"),
])
def test_bad_lines_are_named(voice, line, message):
    soundfile.write(voice / "wavs" / "silent.wav", np.zeros(4000), RATE)
    (voice / "wavs" / "broken.wav").write_bytes(b"RIFF and no more")
    with pytest.raises(DataError, match=message):
        layer(voice, dataset_files=listed(voice, line)).make_batch(np.array([0]))


def test_bad_clips_are_skipped_on_request(voice, capsys):
    soundfile.write(voice / "wavs" / "silent.wav", np.zeros(4000), RATE)
    data = layer(voice, dataset_files=listed(voice, "silent|a", "train-0001|e", "none|a"), on_bad_example="skip")
    assert data.num_examples == 2 and sum(data.report_dropped().values()) == 1
    batch = data.make_batch(np.arange(2))
    assert batch["ids"].tolist() == [1] and "silent" in capsys.readouterr().out
    assert data.make_batch(np.array([0]))["ids"].tolist() == [-1] and not capsys.readouterr().out  # named once
    assert "to be skipped: 1 bad example: 1 silent." in data.examine()[1]
    alone = layer(voice, dataset_files=listed(voice, "silent|a"), on_bad_example="skip")
    for act in (alone.examine, lambda: alone.make_batch(np.array([0]))):
        with pytest.raises(DataError, match=r"No clips .* are left\. 1 bad example: 1 silent"):
            act()


def test_recordings_of_any_rate_suffix_and_channels(voice):
    audio, _ = soundfile.read(voice / "wavs" / "train-0000.wav", dtype="float32")
    soundfile.write(voice / "wavs" / "stereo.flac", np.stack([audio, audio], 1), RATE)
    data = layer(voice, dataset_files=listed(voice, "stereo|a", "wavs/train-0000|a"), num_audio_features={"mel": 20})
    values = data.make_batch(np.arange(2))["target_tensors"][0]
    np.testing.assert_allclose(values[0], values[1], atol=0.02)


def test_clipped_recordings_and_low_rates_are_named(voice):
    audio, _ = soundfile.read(voice / "wavs" / "train-0000.wav", dtype="float32")
    loud = audio / np.abs(audio).max()
    soundfile.write(voice / "wavs" / "loud.wav", loud, RATE, "PCM_16")
    soundfile.write(voice / "wavs" / "clipped.wav", 2 * loud, RATE, "PCM_16")
    soundfile.write(voice / "wavs" / "low.wav", loud[::2], RATE // 2, "PCM_16")
    lists = listed(voice, "loud|a", "clipped|a", "low|a")
    data = layer(voice, dataset_files=lists)
    assert "own.csv:2 (clipped)" in data.examine()[1] and "own.csv:3 (low, 4,000 Hz)" in data.remarks()[0]
    kept = layer(voice, dataset_files=listed(voice, "loud|a", "train-0001|e"))
    assert len(kept.examine()) == 1 and not kept.remarks()


@pytest.mark.parametrize(("changes", "message"), [
    ({"output_type": "both"}, "num_audio_features"),
    ({"output_type": "both", "num_audio_features": {"mel": 20, "phase": 1}}, "mel and magnitude"),
    ({"num_audio_features": {"magnitude": 20}}, "the key mel"),
    ({"output_type": "magnitude", "num_audio_features": 300}, "257"),
    ({"output_type": "magnitude", "style_input": "wav"}, "style_input"),
    ({"fmax": 5000.0}, "4000 Hz"), ({"n_fft": 510}, "multiple of 4"), ({"dataset_files": []}, "dataset_files"),
])
def test_contradictions_are_refused(voice, changes, message):
    with pytest.raises(ConfigError, match=message):
        layer(voice, **changes)


def test_the_listener_hears_every_letter():
    random = np.random.default_rng(3)
    for text in ("aeiou", "u o", "i a i a", "oeuai"):
        assert heard(spoken(text, random)) == text.replace(" ", "")
    assert heard(np.zeros(10)) == ""
