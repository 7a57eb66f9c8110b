"""build_lm.py and decode.py, run as a user runs them."""

from __future__ import annotations

import csv
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.decoding.ctc import CtcDecoder, beam_search_params
from open_seq2seq.decoding.ctc.logits_file import read_logits, write_logits
from open_seq2seq.decoding.n_best import read_n_best
from open_seq2seq.utils import script as script_module
from scripts.build_lm import read_texts
from scripts.decode import parse_args, text_scorer

SCRIPTS = Path(__file__).parents[3] / "scripts"
LABELS = list("abcdefghijklmnopqrstuvwxyz ")
DIGITS = "zero one two three four five six seven eight nine".split()


def run(script, *args, cwd, code=0):
    result = subprocess.run([sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, args)], cwd=cwd,
                            env={"PATH": ""}, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout if code == 0 else result.stderr


def spoken(text, rng, noise):
    """Logits of a text as a poor model would give them."""
    path = [26]
    for character in text:
        path += [LABELS.index(character)] * int(rng.integers(1, 3)) + [27] * int(rng.integers(1, 3))
    logits = noise * rng.normal(size=(len(path), 28))
    logits[np.arange(len(path)), path] += 4.0
    return logits.astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(DIGITS, rng.integers(2, 7))) for _ in range(200)]
    (folder / "train.txt").write_text("".join(line.upper() + "\n" for line in lines[:190]))
    names = [f"{i}.wav" for i in range(10)]
    with open(folder / "dev.csv", "w", newline="") as out:
        csv.writer(out).writerows([("wav_filename", "wav_filesize", "transcript"),
                                   *((name, 1, line) for name, line in zip(names, lines[190:], strict=True))])
    (folder / "other.csv").write_text("wav_filename,wav_filesize,transcript\n0.wav,1,one\n")
    (folder / "short.txt").write_text("a\nb\n")
    logits = {name: spoken(line, rng, 1.3) for name, line in zip(names, lines[190:], strict=True)}
    write_logits(str(folder / "dev.npz"), logits, LABELS, 0.02)
    write_logits(str(folder / "dev.pickle"), logits, LABELS, 0.02)
    said = run("build_lm", "--text", "train.txt", "--order", 2, "--case", "lower", "--output", "digits.arpa.gz",
               "--perplexity", "train.txt", cwd=folder)
    assert "13 1-grams" in said and "perplexity" in said
    return folder


def rates(said):
    found = {line.split(": WER=")[0]: float(line.split("WER=")[1].split(",")[0])
             for line in said.splitlines() if ": WER=" in line}
    return float(said.split("Greedy WER = ")[1].split()[0]), found


@pytest.mark.long
def test_grid(folder):
    said = run("decode", "--logits", "dev.npz", "--labels", "dev.csv", "--lm", "digits.arpa.gz", "--processes", 2,
               "--alpha", 0.0, "--alpha_max", 0.6, "--alpha_step", 0.3, "--beta", 0, "--beta_max", 1, "--beta_step", 1,
               "--beam_width", 32, "--infer_output_file", "out.csv", "--dump_all_beams_to", "n_best.tsv", cwd=folder)
    greedy, found = rates(said)
    assert len(found) == 6 and min(found.values()) < greedy
    best = said.split("BEST: ")[1].splitlines()[0]
    assert float(best.split("WER=")[1]) == min(found.values())
    texts = {row[0]: row[1] for row in list(csv.reader(open(folder / "out.csv")))[1:]}
    lists = read_n_best(str(folder / "n_best.tsv"))
    assert {name: found[0].text for name, found in lists.items()} == texts
    assert all(set(text.split()) <= set(DIGITS) for text in texts.values())
    assert all(c.score == pytest.approx(c.acoustic + c.lm, abs=1e-4) for found in lists.values() for c in found)

    header, *lines = (folder / "dev.csv").read_text().splitlines()
    (folder / "upper.csv").write_text("\n".join([header, *(line.upper().replace(".WAV", ".wav") for line in lines)]))
    said = run("decode", "--mode", "rescore", "--n_best", "n_best.tsv", "--labels", "upper.csv", "--labels_case",
               "lower", "--lm", "digits.arpa.gz", "--alpha", 0, "--beta", 0, cwd=folder)
    assert said.split("WER=")[1].split(",")[0] == best.split("WER=")[1]

    run("decode", "--mode", "rescore", "--n_best", "n_best.tsv", "--lm", "digits.arpa.gz", "--alpha", 0, "--beta", 9,
        "--dump_all_beams_to", "new/rescored.tsv", cwd=folder)
    rescored = read_n_best(str(folder / "new/rescored.tsv"))
    (folder / "loud.txt").write_text((folder / "train.txt").read_text().upper())
    run("build_lm", "--text", "loud.txt", "--order", 2, "--output", "loud.arpa", cwd=folder)
    said = run("decode", "--mode", "rescore", "--n_best", "n_best.tsv", "--labels", "dev.csv", "--lm", "loud.arpa",
               "--alpha", 0, cwd=folder)
    assert "Words of the lists that loud.arpa does not know: " in said and "WARNING: set lm_case to lower, bec" in said
    for name, before in lists.items():
        scores = {c.text: c.score + 9 * len(c.text.split()) for c in before}
        assert {c.text: c.score for c in rescored[name]} == pytest.approx(scores, abs=1e-4)
        assert [c.score for c in rescored[name]] == sorted((c.score for c in rescored[name]), reverse=True)


def test_options_of_the_search_are_those_of_a_config(folder):
    """Every declared option has a flag, and the flag does what the option does."""
    given = {"beam_width": 8, "beam_threshold": 6.5, "symbol_threshold": -5.5, "top_symbols": 5, "alpha": 0.4,
             "beta": 0.7, "lm_type": "word", "lm_case": "upper", "oov_penalty": 3.5, "lm_sentence_end": False,
             "lm_path": str(folder / "train.arpa")}
    assert {*given, "lm_vocabulary", "n_best"} == set(beam_search_params())
    run("build_lm", "--text", "train.txt", "--order", 2, "--case", "lower", "--output", given["lm_path"], cwd=folder)
    upper = [label.upper() for label in LABELS]
    dump = read_logits(str(folder / "dev.npz"), upper).logits
    write_logits(str(folder / "upper.npz"), dump, upper, 0.02)
    flags = [part for name, value in given.items() for part in (f"--{name}", value)]
    run("decode", "--mode", "infer", "--logits", "upper.npz", *flags, "--infer_output_file", "new/out.csv",
        "--dump_all_beams_to", "new/out.tsv", "--processes", 1, cwd=folder)
    decoder = CtcDecoder(upper, {**given, "n_best": 8})
    for name, found in read_n_best(str(folder / "new/out.tsv")).items():
        assert [(c.text, pytest.approx(c.score, abs=1e-4)) for c in found] == [
            (t.text, t.score) for t in decoder.decode(dump[name])]


def test_references_are_those_of_evaluation(folder):
    """Lists of any form, changed as the data layer changed them when the logits were dumped."""
    rows = list(csv.reader(open(folder / "dev.csv")))[1:]
    with open(folder / "dev.json", "w") as out:
        for name, _, text in rows:
            out.write(json.dumps({"text": f"{text.upper()}!", "audio_filepath": name}) + "\n")
    dump = read_logits(str(folder / "dev.npz"))
    write_logits(str(folder / "told.npz"), dump.logits, LABELS, 0.02, {"lower_case": True, "remove_characters": "!"})
    common = ["--processes", 1, "--beam_width", 8]
    want = run("decode", "--logits", "dev.npz", "--labels", "dev.csv", *common, cwd=folder)
    assert run("decode", "--logits", "told.npz", "--labels", "dev.json", *common, cwd=folder) == want
    assert run("decode", "--logits", "dev.npz", "--labels", "dev.json", *common, cwd=folder) != want
    assert run("decode", "--logits", "dev.npz", "--labels", "dev.json", "--labels_case", "lower", "--remove_characters",
               "!", *common, cwd=folder) == want


def test_an_alphabet_is_read_as_the_data_layer_reads_it(folder):
    (folder / "windows.txt").write_bytes("\ufeff".encode() + "\r\n".join(LABELS).encode() + b"\r\n")
    common = ["--labels", "dev.csv", "--logits", "dev.npz", "--processes", 1, "--beam_width", 8]
    assert run("decode", *common, "--vocab", "windows.txt", cwd=folder) == run("decode", *common, cwd=folder)


def test_logits_of_a_diverged_model_are_named(folder):
    dump = read_logits(str(folder / "dev.npz"))
    dump.logits["3.wav"][2] = np.nan
    write_logits(str(folder / "nan.npz"), dump.logits, LABELS, 0.02)
    said = run("decode", "--labels", "dev.csv", "--logits", "nan.npz", "--processes", 1, "--beam_width", 8, cwd=folder)
    assert "NaN or infinite logits: 1" in said and "3.wav" in said


def test_infer_without_a_model_and_from_a_pickle(folder):
    for name, source in (("a.csv", "dev.npz"), ("b.csv", "dev.pickle")):
        run("decode", "--mode", "infer", "--logits", source, "--infer_output_file", name, "--processes", 1, cwd=folder)
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()
    assert (folder / "a.csv").read_text().startswith("wav_filename,transcript\n0.wav,")


@pytest.mark.parametrize("kind", [(), ("--characters",)])
def test_a_vocabulary_is_spelled_as_the_text(tmp_path, kind):
    (tmp_path / "text.txt").write_text("un café\n" * 3, encoding="utf-8")
    listed = " ".join("un cafe\u0301" if kind else ["un", "cafe\u0301"]).replace("e \u0301", "e\u0301")
    (tmp_path / "words.txt").write_text(listed, encoding="utf-8")  # decomposed
    said = run("build_lm", *kind, "--text", "text.txt", "--case", "upper", "--vocabulary", "words.txt", "--order", 1,
               "--output", "lm.arpa", "--perplexity", "text.txt", cwd=tmp_path)
    assert ", 0 unknown)" in said


def test_character_model(folder):
    run("build_lm", "--text", "train.txt", "--characters", "--case", "lower", "--order", 4, "--prune", 0, 0, 1,
        "--output", "chars.arpa", cwd=folder)
    said = run("decode", "--logits", "dev.npz", "--labels", "dev.csv", "--lm", "chars.arpa", "--lm_type", "character",
               "--alpha", 0.6, "--beta", 0.5, "--processes", 1, cwd=folder)
    greedy, found = rates(said)
    assert min(found.values()) < greedy
    common = ["--lm", str(folder / "chars.arpa"), "--lm_type", "character", "--lm_case"]
    scores = [text_scorer(parse_args([*common, case]), {"one two"})("one two") for case in ("as_is", "upper")]
    assert scores[0] == scores[1]  # lm_case is for words


@pytest.mark.parametrize("script, args, what", [
    ("decode", ["--logits", "dev.npz"], "--mode eval needs --labels"),
    ("decode", ["--logits", "missing.npz", "--labels", "dev.csv"], "missing.npz"),
    ("decode", ["--logits", "dev.npz", "--labels", "train.txt"], "lacks wav_filename"),
    ("decode", ["--logits", "dev.npz", "--labels", "other.csv"], "no reference for '1.wav' (9 of 10"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--vocab", "short.txt"], "alphabet of 2 symbols needs 3"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--infer_output_file", "dev.csv/x.csv"], "is a file"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--dump_all_beams_to", "."], "--dump_all_beams_to is ."),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--lm_sentence_end", "no"], "neither True nor False"),
    ("decode", ["--mode", "rescore", "--n_best", "n_best.tsv", "--lm", "x.arpa"], "nothing to do"),
    ("decode", ["--mode", "rescore", "--n_best", "n_best.tsv", "--lm", "x.arpa", "--infer_output_file", "x",
                "--beta_max", 2], "give --labels"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--lm", "train.txt"], "not an ARPA file"),
    ("decode", ["--mode", "infer", "--logits", "dev.npz", "--infer_output_file", "x", "--alpha_max", 1], "--labels"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", 0.2], "below --alpha 0.5"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", 1, "--alpha_step", 0], "above 0"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", 1, "--alpha_step", "nan"], "not a finite"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", "inf"], "'inf' is not a finite number"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", 1, "--alpha_step", "1e-320"], "1,000"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--beta", "nan"], "'nan' is not a finite number"),
    ("rescore", ["--n_best", "x.tsv", "--lm", ".", "--alpha", 1, "nan"], "Argument --alpha: 'nan' is not"),
    ("rescore", ["--n_best", "x.tsv", "--lm", ".", "--alpha", 1, "--beta", "much"], "Argument --beta: 'much' is not"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--processes", 0], "--processes is 0"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--processes", 10**4], "--processes is 10000, but more"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--beam_width", 10**6],
     "'beam_width' is 1000000 but has to be from 1 to 10000"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", 9.5, "--alpha_step", 0.01, "--beta_max",
                9.5, "--beta_step", 0.01], "The grid would have 766,751 pairs"),
    ("decode", ["--mode", "rescore", "--n_best", "n_best.tsv", "--lm", "x.arpa", "--oov_penalty", 3,
                "--infer_output_file", "x"], "leave out --oov_penalty"),
    ("build_lm", ["--text", "train.txt"], "--output"), ("build_lm", [], "--text"),
    ("build_lm", ["--model", "a.arpa", "--output", "b.arpa", "--perplexity", "train.txt"], "--output is for"),
    ("build_lm", ["--text", "missing.txt", "--output", "x.arpa"], "missing.txt"),
    ("build_lm", ["--text", "train.txt", "--output", "x.arpa", "--prune", 1], "start with 0")])
def test_mistakes(folder, script, args, what, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    main = importlib.import_module(f"scripts.{script}").main
    with pytest.raises(SystemExit) as end, script_module._mistakes_reported():
        main([*map(str, args)])
    assert end.value.code == 2 and what in capsys.readouterr().err


def test_characters_are_removed_from_the_texts_of_a_model(tmp_path):
    (tmp_path / "train.csv").write_text('wav_filename,wav_filesize,transcript\na.wav,1,"Zero, one."\n')
    assert list(read_texts(str(tmp_path / "train.csv"), ".,")) == ["Zero one"]
