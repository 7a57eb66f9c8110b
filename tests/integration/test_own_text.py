"""The walk of docs/own-text.md, at toy size: from a table of pairs to translations with the logdir alone."""

from __future__ import annotations

import json
import random
import shutil

import pytest

from open_seq2seq.cli import main
from tests.unit.data.text2text.test_own_text import pairs
from tests.unit.example_configs.test_own_text_recipe import TINY, edited
from tests.unit.scripts.running import ok, run

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
    ([], "Give either --tsv"), (["--tsv=pairs.tsv", "--source=x", "--target=y"], "Give either"),
    (["--source=pairs.tsv"], "both --source=FILE and --target=FILE"),
    (["--tsv=pairs.tsv", "--columns", "1", "1"], "two different numbers"),
    (["--tsv=pairs.tsv", "--columns", "1", "3"], "302 of the 302 lines"), (["--tsv=none.tsv"], "does not exist"),
    (["--tsv=pairs.tsv", "--languages", "es", "es"], "two different suffixes of file names"),
    (["--tsv=pairs.tsv", "--dev_size=0"], "at least 1"), (["--tsv=pairs.tsv", "--dev_size=200"], "too few"),
    (["--tsv=pairs.tsv", "--vocab_size=100000"], "cannot make 100000 pieces"),
])
def test_mistakes_are_one_sentence(table, arguments, words):
    result = run("prepare_text", *arguments, cwd=table)
    assert result.returncode == 2 and words in result.stderr and "Traceback" not in result.stderr
