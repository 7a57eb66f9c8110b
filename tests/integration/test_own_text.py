"""The walk of docs/own-text.md, at toy size: from a table of pairs to translations with the logdir alone."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
from xml.sax.saxutils import escape

import pytest

from open_seq2seq.cli import main
from open_seq2seq.data.text2text.own_text import Pair
from open_seq2seq.utils.errors import UserError
from scripts.prepare_text import main as prepare
from tests.unit.data.text2text.test_own_text import pairs
from tests.unit.example_configs.test_own_text_recipe import TINY, edited
from tests.unit.scripts.running import ok

SMALL = ["--max_steps=4", "--batch_size_per_gpu=256", "--dtype=float32", "--eval_steps=2", "--print_loss_steps=1"]


@pytest.fixture
def table(tmp_path):
    rows = pairs(300)
    random.Random(1).shuffle(rows)
    lines = [f"{pair.source}\t{pair.target}\n" for pair in rows]
    (tmp_path / "pairs.tsv").write_text("".join([*lines, lines[0], "solo español\t\n"]), encoding="utf-8")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("model", TINY)
def test_from_a_table_to_translations(table, monkeypatch, capfd, model):
    output = ok("prepare_text", "--tsv=pairs.tsv", "--languages", "es", "en", "--vocab_size=60", cwd=table).stdout
    assert "270 pairs" in output and "1 repeated (first: line 301)" in output and "1 empty on one side" in output
    folder = table / "own_text"
    lines = {name: (folder / name).read_text().splitlines() for name in ("train.es", "dev.es", "test.es", "test.en")}
    assert [len(found) for found in lines.values()] == [270, 15, 15, 15]
    assert not set(lines["train.es"]) & {*lines["dev.es"], *lines["test.es"]}
    assert len((folder / "dropped.tsv").read_text().splitlines()) == 2

    monkeypatch.chdir(table)
    edited(table, model=model)
    tiny = [f"--{part}_params/{name}={json.dumps(value)}"
            for part, sizes in zip(("encoder", "decoder"), TINY[model], strict=True) for name, value in sizes.items()]
    tiny += ["--eval_params/data_layer_params/max_length=64", "--decoder_params/max_length_factor=2"]
    assert main(["--config_file=my.py", "--mode=train_eval", *SMALL, *tiny]) == 0, capfd.readouterr().err
    out = capfd.readouterr().out
    assert "270 training examples, 15 validation examples" in out and "Logdir: own-text-model" in out
    assert "best Eval_chrF_Score" in out
    shutil.move("own-text-model", "elsewhere")
    (table / "new.es").write_text("el perro corre\n", encoding="utf-8")
    assert main(["--mode=infer", "--logdir=elsewhere", "--infer_files", "new.es", "--infer_output_file=new.en"]) == 0
    assert len((table / "new.en").read_text().splitlines()) == 1


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "Give either --table"), (["--tsv=pairs.tsv", "--source=x", "--target=y"], "Give either"),
    (["--source=pairs.tsv"], "both --source=FILE and --target=FILE"),
    (["--tsv=pairs.tsv", "--columns", "1", "1"], "two different columns"),
    (["--tsv=pairs.tsv", "--columns", "1", "0"], "counted from 1"),
    (["--tsv=pairs.tsv", "--columns", "1", "text"], "no column named 'text'"),
    (["--tsv=pairs.tsv", "--columns", "1", "3"], "302 of the 302 lines"), (["--tsv=none.tsv"], "does not exist"),
    (["--tsv=pairs.tsv", "--languages", "es", "es"], "two different suffixes of file names"),
    (["--tsv=pairs.tsv", "--dev_size=0"], "at least 1"), (["--tsv=pairs.tsv", "--dev_size=200"], "too few"),
    (["--tsv=pairs.tsv", "--max_ratio=nan"], "at least 1.0"), (["--tsv=pairs.tsv", "--max_length=1"], "no usable pair"),
    (["--tsv=pairs.tsv", "--vocab_size=100000"], "make 100000 pieces from the 270 pairs of train: Vocab"),
    (["--tsv=pairs.tsv", "--output_dir=pairs.tsv"], "is a file"),
    (["--tsv=pairs.tsv", "--output_dir=."], "exists already and is not overwritten"),
    (["--tsv=pairs.tsv", "--languages", "en", "es"], "words or letters of es instead of en: give --columns 2 1, or"),
    (["--source=a", "--target=b", "--languages", "en", "es"], "exchange --source and --target"),
])
def test_mistakes_are_one_sentence(table, arguments, words, monkeypatch):
    """And nothing is left of the output."""
    for name, column in (("a", 0), ("b", 1)):
        lines = [line.split("\t")[column] for line in (table / "pairs.tsv").read_text().splitlines()]
        (table / name).write_text("".join(f"{line}\n" for line in lines))
    before = set(table.iterdir())
    monkeypatch.chdir(table)
    with pytest.raises(UserError, match=words) as error:
        prepare(arguments)
    assert "\n" not in str(error.value) and set(table.iterdir()) == before


@pytest.mark.parametrize("form", ["tsv", "csv", "semicolons.csv", "jsonl", "tmx", "files"])
def test_all_forms_of_the_same_pairs(tmp_path, form, monkeypatch, capsys):
    """Each form gives the same folder, and the languages are found by their names in it."""
    monkeypatch.chdir(tmp_path)
    given = [pair if n % 5 else Pair(n, f'"{pair.source}", ¿sí?', f'He said: "{pair.target}"; yes')
             for n, pair in enumerate(pairs(200))]
    rows = [["n", "en", "es"], *([str(pair.line), pair.target, pair.source] for pair in given)]
    arguments = [f"--table=pairs.{form}"]
    if form == "jsonl":
        text = "".join(json.dumps({"translation": dict(zip(rows[0], row, strict=True))}) + "\n" for row in rows[1:])
    elif form == "tmx":
        units = [f"<tu><tuv xml:lang='en'><seg>{escape(row[1])}</seg></tuv>\n<tuv xml:lang='es-ES'>"
                 f"<seg>{escape(row[2])}</seg></tuv></tu>" for row in rows[1:]]
        text = f"<tmx><body>{''.join(units)}</body></tmx>"
    elif form == "files":
        text, arguments = "", ["--source=given.es", "--target=given.en"]
        for place in (1, 2):
            (tmp_path / f"given.{rows[0][place]}").write_text("\n".join(row[place] for row in rows[1:]))
    else:
        out = io.StringIO()
        csv.writer(out, delimiter={"tsv": "\t", "csv": ","}.get(form, ";")).writerows(rows)
        text = out.getvalue()
    (tmp_path / f"pairs.{form}").write_text(text, encoding="utf-8", newline="")
    prepare([*arguments, "--languages", "es", "en", "--vocab_size=70", "--dev_size=8"])
    files = {path.name: path.read_text().splitlines() for path in (tmp_path / "own_text").glob("*.e[sn]")}
    assert {name: len(lines) for name, lines in files.items()} == {
        "train.es": 182, "train.en": 182, "dev.es": 8, "dev.en": 8, "test.es": 10, "test.en": 10}
    found = {pair for part in ("train", "dev", "test") for pair in zip(files[f"{part}.es"], files[f"{part}.en"],
                                                                       strict=True)}
    assert found == {(pair.source, pair.target) for pair in given}
    out = capsys.readouterr().out
    shown = f"es: {files['dev.es'][0]} / en: {files['dev.en'][0]}"[:60]
    for words in ("own_text/dev.es and own_text/dev.en: 8 pairs, such as\n***    " + shown, 'data_dir = "own_text/"',
                  'source, target = "es", "en"', "Then check it: python run.py --config_file=my.py ",
                  "Then train: python run.py --config_file=my.py --mode=train_eval\n"):
        assert words in out
    assert ".tmp-" not in out and [path.name for path in tmp_path.glob(".*")] == []
