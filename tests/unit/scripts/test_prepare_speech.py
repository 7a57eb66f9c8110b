"""scripts/prepare_speech.py, run as a user runs it: from a table to lists and an alphabet that the data layer reads."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
import soundfile

from open_seq2seq.config.loader import load_config
from open_seq2seq.data.speech2text.alphabet import Characters, text_normalizer
from open_seq2seq.data.speech2text.manifests import Utterance, read_manifests
from open_seq2seq.data.speech2text.own_speech import Recording
from open_seq2seq.utils.errors import UserError
from scripts.prepare_speech import main, say_rates
from tests.unit.scripts.running import SCRIPTS, ok, run

SPELLING = ("--lower_case", "--remove_characters=.,?!")
PARTS = ("train", "dev", "test")


@pytest.fixture
def table(tmp_path):
    """Forty recordings of eight speakers, and two that cannot be used."""
    (tmp_path / "in" / "wav").mkdir(parents=True)
    for number in range(40):
        soundfile.write(tmp_path / "in" / "wav" / f"{number}.wav", 0.2 * np.sin(np.arange(8000) * 0.1), 8000)
    rows = [(f"Well, {'où' if number else 'là'}?", f"speaker{number % 8}", f"wav/{number}.wav") for number in range(40)]
    rows += [("gone", "speaker1", "wav/none.wav"), (" ?! ", "speaker1", "wav/1.wav")]
    lines = ["\t".join(row) for row in [("transcript", "speaker", "wav_filename"), *rows]]
    (tmp_path / "in" / "table.tsv").write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    return tmp_path


def lists_of(folder):
    return [list(csv.DictReader((folder / f"{part}.csv").open(encoding="utf-8", newline=""))) for part in PARTS]


def test_a_table_becomes_lists_and_their_alphabet(table):
    out = ok("prepare_speech", "--table=in/table.tsv", "--output_dir=my", *SPELLING, "--test_share=0.1",
             cwd=table).stdout
    parts = lists_of(table / "my")
    assert [len(part) for part in parts] == [34, 2, 4]
    assert list(parts[0][0]) == ["transcript", "speaker", "wav_filename"]
    for part in PARTS:
        for row in read_manifests([str(table / "my" / f"{part}.csv")], None, True):
            assert soundfile.info(row.path).frames == 8000 and row.name.startswith("../in/wav/")
            assert row.text in ("Well, où?", "Well, là?")  # the data layer normalises transcripts
    alphabet = Characters(str(table / "my" / "vocab.txt"))
    assert alphabet.labels == [" ", "e", "l", "o", "w", "à", "ù"]
    with (table / "my" / "dropped.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"line": "42", "reason": "does not exist", "wav_filename": "wav/none.wav", "transcript": "gone"},
            {"line": "43", "reason": "empty transcript", "wav_filename": "wav/1.wav", "transcript": " ?! "}]
    for words in ("my/train.csv: 34 recordings, 34 s, such as\n***    wav/", ".wav: well où\n",
                  "my/vocab.txt: 7 characters from 40", "1 missing (first: line 42, wav/none.wav)",
                  "Sampling rate: 8,000 Hz (40 recordings)\n", 'data_dir = "my/"',
                  'lower_case, remove_characters = True, ".,?!"', "sample_freq = 8000\n", "--mode=train_eval --check"):
        assert words in out


def test_the_config_has_the_unicode_form_of_the_alphabet(table, monkeypatch, capfd):
    monkeypatch.chdir(table)
    (table / "in" / "list.csv").write_text("wav_filename,transcript\n" + "".join(
        f"wav/{number}.wav,ﬁne ½\n" for number in range(4)), encoding="utf-8")
    main(["--table=in/list.csv", "--output_dir=my", "--unicode_form=NFKC"])
    lines = re.findall(r"\*\*\*    (\w.* = .*)", capfd.readouterr().out)
    (table / "my.py").write_text("\n".join(lines).replace("example_configs", f"{SCRIPTS.parent}/example_configs"))
    params = load_config("my.py").sections["base_params"]["data_layer_params"]
    alphabet = Characters(params["vocab_file"])
    for row in read_manifests(["my/train.csv"], None, True):
        assert not alphabet.unknown(text_normalizer({"unicode_form": None, **params})(row.text or ""))


@pytest.mark.parametrize(("rates", "line", "value"), [
    ([16000], "16,000 Hz (3 recordings)\n", 16000),
    ([44100], "44,100 Hz (3 recordings), converted to 16,000 Hz in training\n", 16000),
    ([8000, 16000, 8000],
     "8,000 Hz (2 recordings), 16,000 Hz (1 recording), converted to 8,000 Hz in training\n", 8000),
])
def test_the_rates_and_the_value_to_set(rates, line, value, capfd):
    rows = [Recording(Utterance("a.wav", "a.wav", "a", "t.csv", 2), [], None, rate=rate) for rate in rates] * (
        3 // len(rates))
    assert say_rates(rows) == value and capfd.readouterr().out == f"*** Sampling rate: {line}"


def test_speakers_stay_together(table, monkeypatch):
    arguments = ["--table=in/table.tsv", "--speaker_column=speaker", "--output_dir"]
    out = ok("prepare_speech", *arguments, "one", cwd=table).stdout
    speakers = [{row["speaker"] for row in part} for part in lists_of(table / "one")]
    assert [len(found) for found in speakers] == [6, 1, 1] and len(set.union(*speakers)) == 8
    assert "one/dev.csv: 5 recordings, 5 s, 1 speaker, such as\n" in out
    again = run("prepare_speech", *arguments, "one", cwd=table)
    assert again.returncode == 2 and len(again.stderr.splitlines()) == 1
    assert "Error: The folder one exists" in again.stderr
    monkeypatch.chdir(table)
    main([*arguments, "two"])
    assert all((table / "one" / f"{part}.csv").read_bytes() == (table / "two" / f"{part}.csv").read_bytes()
               for part in PARTS)


@pytest.mark.parametrize("name", ["train.csv", "dropped.csv", "vocab.txt"])
def test_existing_files_are_kept(table, name, monkeypatch):
    (table / "my").mkdir()
    (table / "my" / name).write_text("mine")
    monkeypatch.chdir(table)
    with pytest.raises(UserError, match="^The folder my exists already and is not overwritten"):
        main(["--table=in/table.tsv", "--output_dir=my"])
    assert [path.name for path in (table / "my").iterdir()] == [name] and (table / "my" / name).read_text() == "mine"


@pytest.mark.parametrize(("arguments", "words"), [
    (["--table=none.csv"], "none.csv does not exist"),
    (["--table=in/table.tsv", "--dev_share=0"], "--dev_share must be a share"),
    (["--table=in/table.tsv", "--test_share=nan"], "--test_share must be a share"),
    (["--table=in/table.tsv", "--speaker_column=who"], "no column named 'who'"),
    (["--table=in/table.tsv", "--columns=wav_filename"], "--columns needs two columns, such as --columns=1,2, but got"),
    (["--table=in/table.tsv", "--columns", "a", "b", "c"], "--columns needs two columns, .* but got a,b,c"),
    (["--table=in/table.tsv", "--output_dir=in/table.tsv"], "is a file, not a folder"),
    (["--table=moved.tsv"], r"0 usable recordings .* line 2, wav/0.wav: does not exist \(file wav/0.wav\)"),
    (["--table=empty.csv"], "no rows below its header"),
    (["--table=wide.tsv"], "1 of the 1 lines of wide.tsv .* line 2 has 3.*: put exactly one tab"),
])
def test_mistakes_are_one_sentence(table, arguments, words, monkeypatch, capsys):
    (table / "moved.tsv").write_bytes((table / "in" / "table.tsv").read_bytes())
    (table / "empty.csv").write_text("wav_filename,transcript\n")
    (table / "wide.tsv").write_text("wav_filename\ttranscript\na.wav\tone\ttwo\n")
    monkeypatch.chdir(table)
    with pytest.raises(UserError, match=words):
        main(arguments)
    assert not (table / "my_speech").exists()
    if "moved" in arguments[0]:
        assert "41 missing (first: line 2, wav/0.wav)" in capsys.readouterr().out


def test_other_names_of_columns(table, monkeypatch, capfd):
    """Two words or one with a comma; the first row is not counted; a hint does not name a column with another role."""
    lines = (table / "in" / "table.tsv").read_text(encoding="utf-8-sig").replace("\t", ";")
    (table / "in" / "own.csv").write_text(lines.replace("transcript;speaker;wav_filename", "spoken;voice;file"))
    monkeypatch.chdir(table)
    for folder, columns in (("one", ["--columns=file,spoken"]), ("two", ["--columns", "file", "spoken"])):
        main(["--table=in/own.csv", *columns, f"--output_dir={folder}"])
    assert (table / "one" / "train.csv").read_bytes() == (table / "two" / "train.csv").read_bytes()
    out = capfd.readouterr().out
    assert "in/own.csv: 42 rows, columns separated by semicolons" in out
    assert "Then train: python run.py --config_file=my_speech.py --mode=train_eval\n" in out and "WARNING" not in out
    with pytest.raises(UserError, match="no column named 'speaker' for --speaker_column: .*file.$"):
        main(["--table=in/own.csv", "--columns=file,spoken", "--speaker_column=speaker"])


def test_few_speakers_leave_little_for_training(table, monkeypatch, capfd):
    text = (table / "in" / "table.tsv").read_text(encoding="utf-8-sig")
    (table / "in" / "few.tsv").write_text(re.sub(r"speaker(\d)", lambda match: f"speaker{int(match[1]) % 3}", text))
    monkeypatch.chdir(table)
    main(["--table=in/few.tsv", "--speaker_column=speaker", "--output_dir=few"])
    train, *held_out = (len(part) for part in lists_of(table / "few"))
    out = capfd.readouterr().out
    assert sum(held_out) > train and f"WARNING: Only {train / 40:.0%} of the recordings are for training" in out
