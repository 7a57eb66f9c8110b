import numpy as np
import pytest

from open_seq2seq.data.text2speech.clips import frames_of
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.data.text2speech.toy_voice import RATE, write_toy_voice
from open_seq2seq.utils.errors import DataError

HOP = 128


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voice")
    write_toy_voice(str(folder), {"train": 6})
    (folder / "phonemes.txt").write_text("SIL\nAA\nEH\n", encoding="utf-8")
    return folder


def layer(voice, *lines, mode="train", **changes):
    path = voice / "train_aligned.csv"
    if lines:
        path = voice / "own.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Text2SpeechDataLayer({
        "dataset": "LJ", "dataset_location": str(voice), "dataset_files": [str(path)], "durations": True,
        "vocab_file": str(voice / "vocab.txt"), "num_audio_features": 20, "output_type": "mel",
        "feature_normalize": False, "sample_freq": RATE, "n_fft": 4 * HOP, **changes}, mode=mode)


def test_rounding_errors_do_not_accumulate():
    random = np.random.default_rng(0)
    for _ in range(50):
        seconds = random.uniform(0.0, 0.1, random.integers(1, 60))
        frames = 1 + int(seconds.sum() / 0.016)
        durations = frames_of(seconds, frames, 0.016)
        assert durations.sum() == frames and durations.dtype == np.int32
        assert np.all(np.abs(np.cumsum(durations) - np.cumsum(seconds) / 0.016) <= 1.0)
        cut = frames_of(seconds, frames - 3, 0.016, start=0.032)
        assert cut.sum() == frames - 3 and cut.min() >= 0
    assert frames_of([0.16] * 3, 31, 0.016).tolist() == [10, 10, 11]


@pytest.mark.parametrize("changes", [{}, {"pad_EOS": False}, {"trim": True, "use_cache": True}])
def test_every_frame_belongs_to_a_symbol(voice, changes):
    data = layer(voice, **changes)
    for _ in range(2):
        batch = data.make_batch(np.arange(6))
        ids, (values, stop, lengths, durations) = batch["source_tensors"][0], batch["target_tensors"]
        np.testing.assert_array_equal(durations.sum(1), lengths)
        assert durations.shape == ids.shape and durations.dtype == np.int32
        assert not durations[ids < 2].any() and data.fields["target_tensors"][3].lengths == "source_tensors/1"
        if data.params["pad_EOS"]:
            padding = stop * (np.arange(stop.shape[1]) < lengths[:, None])
            np.testing.assert_array_equal(durations[ids == 2], padding.sum(1))
        # Frames of pauses, whose number in the vocabulary is 0, are quieter than all others.
        pairs = [(frames[:len(owner)], owner == 3) for frames, owner in zip(
            values.max(2), map(np.repeat, ids, durations), strict=True) if (owner == 3).any()]
        assert pairs
        for loudness, is_pause in pairs:
            assert np.median(loudness[is_pause]) < np.median(loudness[~is_pause]) - 4.0


def test_inference_and_layers_without_durations_read_aligned_lists(voice):
    text = (voice / "train_aligned.csv").read_text().split("|")[1]
    for changes in ({"durations": False}, {"mode": "infer"}):
        batch = (data := layer(voice, **changes)).make_batch(np.array([0]))
        assert data.text_of(batch["source_tensors"][0][0]) == data.text(0) == text
        assert len(batch.get("target_tensors", [0] * 3)) == 3


def test_texts_with_listed_symbols_are_not_divided(voice):
    line = "name|A e. I o.|a <space> e|0.1 0.1 0.1"
    data = layer(voice, line, mode="infer", durations=True)
    assert data.num_examples == 1 and data.pauses == [(0, 0.0)]


def test_phonemes(voice):
    data = layer(voice, "train-0000|hello|SIL AA EH SIL|0.2 0.3 0.1 0.5", symbols="phonemes", durations=False,
                 vocab_file=str(voice / "phonemes.txt"))
    ids = data.make_batch(np.array([0]))["source_tensors"][0][0]
    assert data.text_of(ids) == "SIL AA EH SIL" and ids[:6].tolist() == [1, 3, 4, 5, 3, 2]
    assert data.vocab_size == 6 and data.text(0) == "hello"
    with pytest.raises(DataError, match="phonemes that are not in the vocabulary: ZZ"):
        layer(voice, "train-0000|hello|SIL ZZ|0.2 0.3", symbols="phonemes", durations=False,
              vocab_file=str(voice / "phonemes.txt"))
    for content, message in (("SIL\nSIL\n", ":2: .* twice"), ("SIL AA\n", ":1: .* several"), ("\n", "empty")):
        (voice / "bad.txt").write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            layer(voice, symbols="phonemes", vocab_file=str(voice / "bad.txt"))


def test_durations_of_another_length_are_named(voice):
    line = (voice / "train_aligned.csv").read_text().splitlines()[1]
    name, text, symbols, seconds = line.split("|")
    longer = "|".join((name, text, symbols, seconds.replace("0.16", "0.66", 1)))
    with pytest.raises(DataError, match=r"own.csv:1: train-0001 is [\d.]+ seconds long, .* add up to [\d.]+ seconds"):
        layer(voice, longer)
    assert layer(voice, line, longer, on_bad_example="skip").report_dropped() == {"durations of another length": 1}
    close = "|".join((name, text, symbols, seconds.replace("0.16", "0.19", 1)))
    targets = layer(voice, close).make_batch(np.array([0]))["target_tensors"]
    assert targets[3].sum() == targets[2].sum()
    with pytest.raises(DataError, match="no durations"):
        layer(voice, f"{name}|{text}")
