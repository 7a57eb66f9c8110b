"""Recordings of which there are variants in several folders: one is drawn in each epoch, as in NVIDIA's OpenSeq2Seq."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from open_seq2seq.utils.errors import ConfigError, DataError

FOLDERS = ["one", "two", "three"]


@pytest.fixture
def make(tmp_path, make_layer, voice):
    """Makes a layer of a list of 1 plain row and 20 rows of three variants, whose lengths differ."""
    rows = ["plain.wav,0,ab", *(f"{{}}/{number}.wav,0,ab" for number in range(20))]
    (tmp_path / "list.csv").write_text("\n".join(["wav_filename,wav_filesize,transcript", *rows]) + "\n")
    soundfile.write(tmp_path / "plain.wav", voice, 8000)
    for place, folder in enumerate(FOLDERS):
        (tmp_path / folder).mkdir()
        for number in range(20):
            soundfile.write(tmp_path / folder / f"{number}.wav", np.tile(voice, place + 1), 8000)

    def layer(mode="train", **changes):
        return make_layer(mode, **{"dataset_files": [str(tmp_path / "list.csv")], "syn_enable": True,
                                   "syn_subdirs": FOLDERS, **changes})
    return layer


@pytest.mark.parametrize("backend", ["librosa", "tf"])
def test_each_epoch_draws_its_own(make, voice, backend):
    layer = make(backend=backend)
    assert layer.num_examples == 21
    longest = layer.settings.num_frames(np.asarray([1, *[3] * 20]) * len(voice))
    unit = layer.settings.num_frames(np.arange(1, 4) * len(voice))
    if backend == "tf":
        longest, unit = (np.asarray([1, *[3] * 20]) * len(voice)), np.arange(1, 4) * len(voice)
    assert (layer.lengths[:, 0] >= longest).all()
    examples = np.arange(21)
    lengths = [layer.make_training_batch(examples, epoch)["source_tensors"][1] for epoch in range(12)]
    again = make(backend=backend).make_training_batch(examples, 3)["source_tensors"][1]
    assert np.array_equal(lengths[3], again)
    kinds = np.stack([np.searchsorted(unit, row) for row in lengths])
    assert (kinds[:, 0] == 0).all() and set(kinds[:, 1:].ravel()) == {0, 1, 2}
    assert len({tuple(row) for row in kinds.tolist()}) == 12
    counts = np.bincount(kinds[:, 1:].ravel())
    assert counts.min() > 0.2 * counts.sum()  # 240 draws: a share of a third has a standard deviation of 3 %


def test_evaluation_reads_the_first_and_inference_none(make):
    layer = make("eval")
    assert [layer.file_name(example) for example in range(3)] == ["plain.wav", "one/0.wav", "one/1.wav"]
    with pytest.raises(DataError, match="missing"):
        make("infer")
    assert make(syn_enable=False, on_bad_example="skip").num_examples == 1


def test_a_bad_variant_leaves_its_row_out(make, tmp_path, capsys):
    (tmp_path / "two" / "4.wav").unlink()
    with pytest.raises(DataError, match="two/4.wav does not exist"):
        make()
    layer = make(on_bad_example="skip")
    assert layer.num_examples == 20 and "one/4.wav" not in [layer.file_name(example) for example in range(20)]
    assert "58 of 58 recordings" in "\n".join(layer.examine())
    long = make(on_bad_example="skip", max_duration=2.5 * soundfile.info(tmp_path / "plain.wav").duration)
    assert long.num_examples == 1 and "longer than max_duration" in capsys.readouterr().out


def test_a_variant_that_turns_bad_is_named(make, tmp_path, capsys):
    layer = make(on_bad_example="skip")
    for folder in FOLDERS:
        path = tmp_path / folder / "7.wav"
        soundfile.write(path, np.zeros(soundfile.info(path).frames), 8000)
    batch = layer.make_training_batch(np.arange(21), 0)
    assert 8 not in batch["ids"] and len(batch["ids"]) == 20 and "7.wav is silent" in capsys.readouterr().out


@pytest.mark.parametrize("folders", [[], ["one", 2], [""]])
def test_folders_are_needed(make, folders):
    with pytest.raises(ConfigError, match="'data_layer_params/syn_subdirs' is no list of folders"):
        make(syn_subdirs=folders)
