"""scripts/prepare_images.py: from folders of pictures to lists that the data layer reads."""

from __future__ import annotations

import csv

import pytest

from open_seq2seq.data import ImageFolderDataLayer
from open_seq2seq.data.image2label.toy_images import write_toy_folders
from open_seq2seq.utils.errors import DataError, UserError
from scripts.prepare_images import main
from tests.unit.scripts.running import ok

CLASSES = ["circle", "cross", "square", "triangle"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder with ten pictures of each of four classes, and files that cannot be used."""
    monkeypatch.chdir(tmp_path)
    write_toy_folders(str(tmp_path), {"pictures": 40})
    (tmp_path / "pictures/cross/broken.jpg").write_bytes(b"no picture")
    (tmp_path / "pictures/cross/notes.txt").write_bytes(b"notes")
    return tmp_path


def rows(folder, part):
    with (folder / "my" / f"{part}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.long
def test_run_as_a_command(folder):
    out = ok("prepare_images", "--folder=pictures", "--output_dir=my", "--test_share=0.2", cwd=folder).stdout
    for words in ("Read pictures: 42 files in the folders of 4 classes", "Left out 2 files, listed in my/dropped.tsv",
                  "1 broken: cannot be decoded (first: pictures/cross/broken.jpg)", "my/train.csv: 28 pictures",
                  "circle 7, cross 7, square 7, triangle 7", 'data_dir = "my/"', "image_size = 32",
                  "python run.py --config_file=my_images.py --mode=train_eval --check"):
        assert words in out


def test_lists_that_the_data_layer_reads(folder):
    main(["--folder=pictures", "--output_dir=deep/../my"])
    assert {path.name for path in (folder / "my").iterdir()} == {
        "train.csv", "dev.csv", "test.csv", "classes.txt", "dropped.tsv"}
    assert (folder / "my/classes.txt").read_text().splitlines() == CLASSES
    assert sorted((folder / "my/dropped.tsv").read_text().splitlines()) == [
        "pictures/cross/broken.jpg\tbroken: cannot be decoded",
        "pictures/cross/notes.txt\tnot JPEG, PNG, GIF or BMP by their suffix"]
    sizes = {}
    for part in ("train", "dev", "test"):
        found = rows(folder, part)
        sizes[part] = len(found)
        assert all(row["image"].startswith(f"../pictures/{row['label']}/") for row in found)
        layer = ImageFolderDataLayer({"dataset_files": [str(folder / f"my/{part}.csv")], "image_size": 32,
                                      "class_file": str(folder / "my/classes.txt"), "batch_size": 4, "mode": "eval"})
        assert layer.num_examples == len(found)
    assert sizes == {"train": 32, "dev": 4, "test": 4}


def test_pictures_that_are_split_already_stay_in_their_parts(folder):
    write_toy_folders(str(folder / "split"), {"train": 40, "test": 12}, seed=5)
    main(["--folder=split", "--output_dir=my"])
    assert [len(rows(folder, part)) for part in ("train", "dev", "test")] == [36, 4, 12]
    assert all(row["image"].startswith("../split/test/") for row in rows(folder, "test"))


def test_nothing_is_overwritten_or_half_made(folder, monkeypatch):
    (folder / "my").mkdir()
    (folder / "my" / "mine").write_text("mine")
    with pytest.raises(UserError, match="The folder my exists already and is not overwritten"):
        main(["--folder=pictures", "--output_dir=my"])
    assert [path.name for path in (folder / "my").iterdir()] == ["mine"]

    def fail(*_, **__):
        raise DataError("full")

    monkeypatch.setattr("scripts.prepare_images.write_lines", fail)
    with pytest.raises(DataError, match="full"):
        main(["--folder=pictures", "--output_dir=other"])
    assert {path.name for path in folder.iterdir()} == {"pictures", "my"}


@pytest.mark.parametrize(("arguments", "words"), [
    (["--folder=none"], "The folder none cannot be read"), (["--folder=pictures/cross"], "at least two"),
    (["--folder=pictures", "--dev_share=0"], "--dev_share must be a share"),
])
def test_mistakes_are_one_sentence(folder, arguments, words):
    with pytest.raises(UserError, match=words) as error:
        main(arguments)
    assert "\n" not in str(error.value) and [path.name for path in folder.iterdir()] == ["pictures"]
