"""scripts/prepare_labels.py: from every form of table, and from folders, to parts that the data layer reads."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest

from open_seq2seq.data import LabelledTextDataLayer
from open_seq2seq.data.sentencepiece_models import load_sentencepiece
from open_seq2seq.utils.errors import DataError, UserError
from scripts.prepare_labels import main
from tests.unit.scripts.running import ok

LABELS = ("bad, or worse", "good")
ROWS = [(f'Film "{number}" was {LABELS[number % 2][:4]}, I think', LABELS[number % 2]) for number in range(60)]
COLUMNS = ("review", "opinion")
FILES = {"train.tsv", "dev.tsv", "test.tsv", "labels.txt", "dropped.tsv", "spm.model", "spm.vocab"}


def table(form):
    if form == "jsonl":
        return "".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in ROWS)
    text = io.StringIO()
    csv.writer(text, delimiter={"tsv": "\t", "csv": ",", "semicolons": ";"}[form]).writerows([COLUMNS, *ROWS])
    return text.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(table("csv"), encoding="utf-8")
    return tmp_path


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def written(folder):
    """Returns the examples of each part of ``my``, as the data layer reads them."""
    parts = []
    for part in ("train", "dev", "test"):
        layer = LabelledTextDataLayer({"text_file": str(folder / f"my/{part}.tsv"), "max_length": 50, "mode": "eval",
                                       "label_file": str(folder / "my/labels.txt"), "batch_size": 1,
                                       "tokenizer": {"type": "sentencepiece", "model": str(folder / "my/spm.model")}})
        batch = layer.make_batch(range(layer.num_examples)) if layer.num_examples else {}
        parts.append([layer.labels[label] for label in batch["target_tensors"][0]])
    return parts


@pytest.mark.parametrize("form", ["csv", "tsv", "semicolons", "jsonl", "csv.gz"])
def test_every_form_of_table(folder, form, capfd):
    kind = form.removesuffix(".gz")
    content = table(kind).encode()
    path = folder / f"table.{'csv' if form == 'semicolons' else form}"
    path.write_bytes(gzip.compress(content) if form.endswith(".gz") else content)
    main([f"--table={path}", "--label_column=opinion", "--output_dir=my"])
    assert {path.name for path in (folder / "my").iterdir()} == FILES
    assert lines(folder / "my/labels.txt") == list(LABELS) and lines(folder / "my/dropped.tsv") == []
    rows = [tuple(line.split("\t")[::-1]) for part in ("train", "dev", "test") for line in lines(
        folder / f"my/{part}.tsv")]
    assert sorted(rows) == sorted(ROWS)
    parts = written(folder)
    assert [len(part) for part in parts] == [48, 6, 6] and [part.count("good") for part in parts] == [24, 3, 3]
    pieces = load_sentencepiece(str(folder / "my/spm.model"))
    assert pieces.encode("GOOD Film") == pieces.encode("good film") and pieces.unk_id() not in pieces.encode("Good")
    out = capfd.readouterr().out
    for words in ("text: column review, label: column opinion", "my/dev.tsv: 6 texts", "good 24",
                  'data_dir = "my/"', "Then train: python run.py --config_file=my_labels.py --mode=train_eval\n"):
        assert words in out


@pytest.mark.long
def test_run_as_a_command_from_folders_of_files(folder):
    for number, (text, label) in enumerate(ROWS):
        path = folder / "reviews" / label[:4].strip() / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    path.write_text("", encoding="utf-8")
    out = ok("prepare_labels", "--folder=reviews", "--output_dir=my", cwd=folder).stdout
    assert "Read reviews: 60 files in the folders of 2 classes" in out
    assert "1 empty or not UTF-8 text (first: reviews/good/59.txt)" in out
    assert lines(folder / "my/dropped.tsv") == ["reviews/good/59.txt\tempty or not UTF-8 text\tgood\t"]
    assert lines(folder / "my/labels.txt") == ["bad,", "good"] and len(lines(folder / "my/train.tsv")) == 47


def test_what_is_left_out_is_said_with_its_line(folder, capfd):
    (folder / "in.csv").write_text(table("csv") + 'only one\n"",good\nsame,good\nSame!,good\n', encoding="utf-8")
    main(["--table=in.csv", "--text_column=review", "--label_column=opinion", "--output_dir=my"])
    out = capfd.readouterr().out
    assert "1 repeated (first: line 65)" in out and "(first: line 62)" in out
    assert lines(folder / "my/dropped.tsv")[-1] == "line 65\trepeated\tgood\tSame!"


def test_an_existing_folder_is_kept(folder):
    (folder / "my").mkdir()
    (folder / "my" / "mine").write_text("mine")
    with pytest.raises(UserError, match="The folder my exists already and is not overwritten"):
        main(["--table=in.csv", "--label_column=opinion", "--output_dir=my"])
    assert [path.name for path in (folder / "my").iterdir()] == ["mine"]


def test_nothing_half_made_remains(folder, monkeypatch):
    def fail(*_, **__):
        raise DataError("too small")

    monkeypatch.setattr("scripts.prepare_labels.train_pieces", fail)
    with pytest.raises(DataError, match="too small"):
        main(["--table=in.csv", "--label_column=opinion", "--output_dir=my"])
    assert [path.name for path in folder.iterdir()] == ["in.csv"]


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "Give either --table=FILE or --folder=FOLDER"), (["--table=in.csv", "--folder=x"], "Give either"),
    (["--folder=x", "--text_column=a"], "describe a --table"), (["--table=none.csv"], "none.csv does not exist"),
    (["--folder=none"], "The folder none cannot be read"), (["--table=in.csv"], "columns of the text and of the label"),
    (["--table=in.csv", "--label_column=who"], "no column named 'who'"),
    (["--table=in.csv", "--label_column=0"], "counted from 1"),
    (["--table=in.csv", "--text_column=opinion", "--label_column=review"],
     "Only 0 of the classes .* name the right column of the labels"),
    (["--table=in.csv", "--label_column=opinion", "--dev_share=0.5"], "--dev_share must be a share"),
    (["--table=in.csv", "--label_column=opinion", "--vocab_size=5"], "--vocab_size must be at least 100"),
    (["--table=in.csv", "--label_column=opinion", "--output_dir=in.csv"], "is a file, not a folder"),
])
def test_mistakes_are_one_sentence(folder, arguments, words):
    with pytest.raises(UserError, match=words) as error:
        main(arguments)
    assert "\n" not in str(error.value) and [path.name for path in folder.iterdir()] == ["in.csv"]
