"""The walks of docs/own-labels.md and docs/own-images.md, at toy size: from files to predictions by name."""

from __future__ import annotations

import csv
import random
import shutil

import pytest

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.data.image2label.toy_images import write_toy_folders
from open_seq2seq.utils.errors import UserError
from scripts.prepare_images import main as prepare_images
from scripts.prepare_labels import main as prepare_labels
from tests.integration.conftest import ROOT

WORDS = {"praise": "lovely bright moving funny rich".split(), "blame": "dull flat tired empty slow".split()}


def run(*arguments):
    assert main([*arguments, "--dtype=float32"]) == 0


@pytest.mark.long
def test_from_a_table_to_labels_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    choose = random.Random(0)
    rows = [(f"The film number {number}, is {choose.choice(WORDS[label])} and {choose.choice(WORDS[label])}.", label)
            for number in range(200) for label in WORDS]
    with open("films.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("review", "opinion"), *rows])
    prepare_labels(["--table=films.csv", "--label_column=opinion"])
    (tmp_path / "my.py").write_text(f"base_config = '{ROOT}/example_configs/text2label/own-labels.py'\n")
    run("--config_file=my.py", "--mode=train_eval", "--num_epochs=4", "--encoder_params/buckets=1024")
    shutil.move("own-labels-model", "elsewhere")
    (tmp_path / "new.txt").write_text("A LOVELY and funny film\n\nso dull, so slow\n", encoding="utf-8")
    assert main(["--mode=infer", "--logdir=elsewhere", "--infer_files", "new.txt", "--infer_output_file=new.tsv"]) == 0
    labels = [line.split("\t")[0] for line in (tmp_path / "new.tsv").read_text().splitlines()]
    assert labels == ["praise", "", "blame"]
    model = open_seq2seq.load("elsewhere")
    assert model.classify("a tired film") == "blame" and model.classify(["", "Funny!"]) == ["", "praise"]
    with pytest.raises(UserError, match="Text2Label does not translate: call infer or classify"):
        model.translate("a film")


@pytest.mark.long
def test_from_folders_of_pictures_to_classes_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_toy_folders("", {"pictures": 80, "new": 4})
    prepare_images(["--folder=pictures"])
    recipe = f"{ROOT}/example_configs/image2label/own-images.py"
    (tmp_path / "my.py").write_text(f"base_config = {recipe!r}\nimage_size = 32\n")
    run("--config_file=my.py", "--mode=train_eval", "--num_epochs=1", "--encoder_params/resnet_size=None",
        "--encoder_params/block_sizes=[1,1]", "--encoder_params/first_num_filters=4")
    shutil.move("own-images-model", "elsewhere")
    assert main(["--mode=infer", "--logdir=elsewhere", "--infer_files", "new", "--infer_output_file=new.csv"]) == 0
    with open("new.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == 4 and {row["class"] for row in found} <= {"circle", "cross", "square", "triangle"}
    assert open_seq2seq.load("elsewhere").classify(found[0]["example"]) == found[0]["class"]
    assert [row["example"] for row in found] == sorted(str(path) for path in map(str, (
        p.relative_to(tmp_path) for p in (tmp_path / "new").rglob("*.png"))))
