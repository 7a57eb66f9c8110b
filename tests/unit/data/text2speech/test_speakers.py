"""Lists of several speakers, and texts that name them."""

import numpy as np
import pytest

from open_seq2seq.data.text2speech.clips import read_clips
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.data.text2speech.toy_voice import RATE, write_toy_voice
from open_seq2seq.utils.errors import ConfigError, DataError

NAMES = ["low", "high"]


@pytest.fixture(scope="module")
def voices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voices")
    write_toy_voice(str(folder), {"train": 3}, voices=2)
    return folder


def layer(voices, mode="train", files="train_speakers.csv", **changes):
    files = files if isinstance(files, list) else [str(voices / files)]
    return Text2SpeechDataLayer({
        "dataset": "LJ", "dataset_location": str(voices), "dataset_files": files,
        "vocab_file": str(voices / "vocab.txt"), "num_audio_features": 20, "output_type": "mel",
        "feature_normalize": False, "sample_freq": RATE, "n_fft": 512, "speakers": NAMES, **changes}, mode=mode)


def listed(voices, *lines):
    path = voices / "own.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(path)]


def arrays(batch):
    return {name: [np.asarray(one) for one in (value if isinstance(value, list) else [value])]
            for name, value in batch.items()}


@pytest.mark.parametrize(("files", "durations"), [("train_speakers.csv", False), ("train_speakers_aligned.csv", True)])
def test_batches_have_the_speakers_of_the_second_column(voices, files, durations):
    data = layer(voices, files=files, durations=durations)
    rows = [line.split("|") for line in (voices / files).read_text().splitlines()]
    examples = np.array([4, 0, 5])
    batch = data.make_batch(examples)
    assert batch["speakers"].tolist() == [NAMES.index(rows[example][1]) for example in examples] == [1, 0, 1]
    assert batch["speakers"].dtype == np.int32 and data.fields.keys() == batch.keys()
    for row, example in enumerate(examples):
        assert data.text_of(batch["source_tensors"][0][row]) == rows[example][2]
        alone = data.make_batch(np.array([example]))
        assert alone["speakers"].tolist() == [batch["speakers"][row]]


def test_one_speaker_is_a_voice_without_a_name(voices):
    lines = [line for line in (voices / "train_speakers.csv").read_text().splitlines() if "|low|" in line]
    one = layer(voices, files=listed(voices, *lines), speakers=["low"])
    without = layer(voices, files="train.csv", speakers=[])
    for data in (one, without):
        assert not data.speakers.are_several and "speakers" not in data.fields
    pairs = [arrays(data.make_batch(np.arange(3))) for data in (one, without)]
    assert pairs[0].keys() == pairs[1].keys()
    for name, values in pairs[0].items():
        for value, other in zip(values, pairs[1][name], strict=True):
            np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize(("line", "message"), [
    ("train-0000|a e", "own.csv:1: the line has 2 columns.*must be name.speaker.text"),
    ("train-0000|carl|a e", "own.csv:1: train-0000 has the speaker 'carl', but the speakers are low, high"),
    ("train-0000||a e", "has the speaker ''"), ("train-0000|UNUSED|a e", "has the speaker 'UNUSED'"),
    ("train-0000|low|a e|a e|0.1|0.2", "6 columns"), ("train-0000|low|a e|a e|0.1", "2 symbols"),
])
def test_bad_lines_are_named(voices, line, message):
    with pytest.raises(DataError, match=message):
        layer(voices, files=listed(voices, line))


def test_a_speaker_of_a_list_of_one_voice_is_told_to_be_named(voices):
    with pytest.raises(DataError, match="5 columns.*name the speakers in the parameter speakers"):
        layer(voices, files="train_speakers_aligned.csv", speakers=[])
    clips = read_clips([str(voices / "train_speakers.csv")], str(voices), has_speakers=True)
    assert [clip.speaker for clip in clips] == ["low"] * 3 + ["high"] * 3


def test_clips_of_unknown_speakers_are_left_out_on_request(voices):
    lines = listed(voices, "train-0000|carl|a e", "train-0001|high|a e")
    data = layer(voices, files=lines, on_bad_example="skip")
    assert data.make_batch(np.arange(1))["speakers"].tolist() == [1]
    assert data.report_dropped() == {"unknown speakers": 1}
    assert "no clips of low, so" in data.remarks()[0] and not layer(voices).remarks()


def test_texts_name_their_speaker(voices):
    lines = listed(voices, "UNUSED|high|ae. e [speaker low] i", "u", "UNUSED|UNUSED|o", "[speaker high] [speed 2] o")
    data = layer(voices, "infer", files=lines, plain_text=True)
    batch = data.make_batch(np.arange(data.num_examples))
    assert [data.text_of(ids) for ids in batch["source_tensors"][0]] == ["ae", "e", "i", "u", "o", "o"]
    assert batch["speakers"].tolist() == [1, 1, 0, 0, 0, 1] and batch["speeds"].tolist() == [1, 1, 1, 1, 1, 2]
    other = layer(voices, "infer", files=lines, plain_text=True, speaker="high")
    assert other.make_batch(np.arange(6))["speakers"].tolist() == [1, 1, 0, 1, 1, 1]
    typed = layer(voices, "interactive_infer", speaker="high").make_interactive_batch(["a", "[Speaker low ]a"])
    assert typed["speakers"].tolist() == [1, 0]
    np.testing.assert_array_equal(*typed["source_tensors"][0])


def test_unknown_speakers_of_texts_are_told_the_known_ones(voices):
    with pytest.raises(DataError, match=r"own.csv:2: There is no speaker 'carl': the model has low, high\.$"):
        layer(voices, "infer", files=listed(voices, "a", "[speaker carl] a"), plain_text=True)
    data = layer(voices, "interactive_infer")
    for texts in (["[speaker carl] a"], [data.by_speaker("a", "high"), "[speaker Low] a"]):
        with pytest.raises(DataError, match=r"There is no speaker '(carl|Low)': the model has low, high\."):
            data.make_interactive_batch(texts)
    with pytest.raises(DataError, match="There is no speaker 'carl'"):
        data.by_speaker("a", "carl")
    with pytest.raises(DataError, match="one voice without a name"):
        layer(voices, "interactive_infer", speakers=[]).make_interactive_batch(["[speaker low] a"])
    with pytest.raises(ConfigError, match="data_layer_params/speaker': There is no speaker 'carl'"):
        layer(voices, "interactive_infer", speaker="carl")
