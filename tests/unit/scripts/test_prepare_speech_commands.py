"""The preparation of spoken commands, from folders of short recordings."""

import os

import numpy as np
import pytest
import soundfile

from open_seq2seq.utils.errors import DataError, UserError
from scripts.prepare_speech_commands import COMMANDS, main, part_of


@pytest.fixture
def archive(tmp_path):
    words = [*COMMANDS[:3], "bird", "tree"]
    for word in words:
        (tmp_path / word).mkdir()
        for speaker in range(30):
            soundfile.write(tmp_path / word / f"{speaker:08x}_nohash_0.wav", np.zeros(160), 16000)
    (tmp_path / "_background_noise_").mkdir()
    soundfile.write(tmp_path / "_background_noise_/hum.wav", 0.1 * np.ones(20000), 16000)
    return tmp_path


def rows(path):
    return [line.split(",") for line in path.read_text().splitlines()]


def test_twelve_classes(archive, capsys):
    main([f"--data_dir={archive}", "--any_words", "--train_size=50"])
    names = (archive / "v1-12-classes.txt").read_text().split()
    assert names == [*COMMANDS, "unknown", "silence"]
    parts = {part: rows(archive / f"v1-12-{part}.txt") for part in ("train", "val", "test")}
    for part, found in parts.items():
        for label, path in found:
            assert (archive / path).exists() and part_of(os.path.basename(path)) == part
            folder = os.path.dirname(path)
            assert names[int(label)] == (folder if folder in names else "unknown")
    files = [{path for _, path in found} for found in parts.values()]
    assert not files[0] & files[1] and not files[0] & files[2] and not files[1] & files[2]
    unknown = {f"{word}/{name}" for word in ("bird", "tree") for name in os.listdir(archive / word)}
    left_out = {path for path in unknown if part_of(os.path.basename(path)) != "train"} - files[1] - files[2]
    silence = {path for path in set().union(*files) if path.startswith("silence/")}
    assert sum(map(len, files)) == 5 * 30 - len(left_out) + len(silence)
    # There are three windows of a second every 2,000 samples in 20,000; a list for validation or test may have fewer.
    assert 0 < len(silence) <= 3
    for part in ("val", "test"):
        sizes = np.bincount([int(label) for label, _ in parts[part]], minlength=12)
        assert sizes[0] == sizes[names.index("unknown")] > 0
    counts = np.bincount([int(label) for label, _ in parts["train"]], minlength=12)
    assert counts[0] == counts[1] == 50 and counts[names.index("unknown")] >= 48


def test_lists_of_the_archive_are_followed(archive):
    val, test = ({f"{word}/{speaker:08x}_nohash_0.wav" for word in ("yes", "bird")} for speaker in (3, 4))
    (archive / "validation_list.txt").write_text("\n".join(val))
    (archive / "testing_list.txt").write_text("\n".join(test) + "\n")
    main([f"--data_dir={archive}", "--any_words", "--version=v1-30"])
    found = [{path for _, path in rows(archive / f"v1-30-{part}.txt")} for part in ("val", "test")]
    assert found == [val, test]
    assert len({path for _, path in rows(archive / "v1-30-train.txt")}) == 5 * 30 - 4


def test_damaged_noise_is_named(archive):
    whole = (archive / "_background_noise_/hum.wav").read_bytes()
    (archive / "_background_noise_/hum.wav").write_bytes(whole[:9000])
    with pytest.raises(DataError, match=r"_background_noise_/hum.wav is truncated: .*: unpack the archive again"):
        main([f"--data_dir={archive}", "--any_words"])


def test_pieces_of_noise_in_different_lists_do_not_overlap(archive):
    random = np.random.default_rng(0)
    soundfile.write(archive / "_background_noise_/long.wav", random.uniform(-0.5, 0.5, 40 * 16000), 16000)
    main([f"--data_dir={archive}", "--any_words", "--train_size=1"])
    noise, _ = soundfile.read(archive / "_background_noise_/long.wav")
    used = {}
    for part in ("train", "val", "test"):
        used[part] = np.zeros(len(noise), bool)
        for path in {path for _, path in rows(archive / f"v1-12-{part}.txt") if "/long-" in path}:
            piece, _ = soundfile.read(archive / path)
            start = 2000 * int(path[-8:-4])
            np.testing.assert_array_equal(piece, noise[start:start + 16000])
            used[part][start:start + 16000] = True
    assert (used["train"].astype(int) + used["val"] + used["test"]).max() == 1
    assert used["train"].any() and (used["val"].any() or used["test"].any())


def test_all_words_and_wrong_versions(archive):
    main([f"--data_dir={archive}", "--version=v2", "--any_words", "--output_dir", str(archive / "lists"),
          "--train_size=1"])
    assert (archive / "lists/v2-classes.txt").read_text().split() == sorted([*COMMANDS[:3], "bird", "tree"])
    assert sum(len(rows(archive / f"lists/v2-{part}.txt")) for part in ("train", "val", "test")) == 150
    with pytest.raises(UserError, match="has 5 words, but v1-30 has 30"):
        main([f"--data_dir={archive}", "--version=v1-30"])
    with pytest.raises(UserError, match="does not exist"):
        main([f"--data_dir={archive}/nowhere"])
