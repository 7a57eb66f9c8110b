"""The scripts, run as a user runs them."""

from __future__ import annotations

import gzip
import random

import pytest

from tests.unit.scripts.running import ok, run

WORDS = "ein kleiner Hund läuft über die grüne Wiese und sieht einen roten Ball im Gras liegen".split()


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sentences(count, seed=0):
    numbers = random.Random(seed)
    return [" ".join(numbers.choices(WORDS, k=numbers.randint(3, 12))) for _ in range(count)]


def test_toy_data(tmp_path):
    sizes = ("--train_size=30", "--dev_size=4", "--test_size=5")
    ok("create_toy_data", "--output_dir=a", *sizes, cwd=tmp_path)
    for split, count in (("train", 30), ("dev", 4), ("test", 5)):
        source, target = (lines_of(tmp_path / "a" / split / f"{side}.txt") for side in ("source", "target"))
        assert len(source) == count
        assert [line.split()[::-1] for line in source] == [line.split() for line in target]
        assert all(5 <= len(line.split()) <= 50 for line in source)
    letters = lines_of(tmp_path / "a" / "vocab" / "source.txt")
    assert len(letters) == 10 and letters == lines_of(tmp_path / "a" / "vocab" / "target.txt")
    assert {t for line in lines_of(tmp_path / "a" / "train" / "source.txt") for t in line.split()} <= set(letters)

    ok("create_toy_data", "--output_dir=b", *sizes, cwd=tmp_path)
    ok("create_toy_data", "--output_dir=c", "--seed=1", *sizes, cwd=tmp_path)
    texts = [lines_of(tmp_path / folder / "train" / "source.txt") for folder in "abc"]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("script", ["create_toy_images", "create_toy_speech", "create_toy_text"])
def test_negative_seeds_are_refused(tmp_path, script):
    result = run(script, "--output_dir=x", "--seed=-1", cwd=tmp_path)
    assert result.returncode == 2 and "'-1' is not a whole number of at least 0" in result.stderr
    assert "Traceback" not in result.stderr and not (tmp_path / "x").exists()


@pytest.mark.parametrize(("script", "option"), [
    ("create_toy_text", "--lines"), ("create_toy_data", "--train_size"), ("create_toy_data", "--max_length"),
    ("create_toy_speech", "--train_size"), ("create_toy_speech", "--max_words"), ("create_toy_images", "--train_size")])
@pytest.mark.parametrize("number", [10**12])
def test_absurd_sizes_are_refused(tmp_path, script, option, number):
    result = run(script, "--output_dir=x", f"{option}={number}", cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith(f"Error: {option} is {number}, but has to be")
    assert result.stderr.count("\n") == 1 and not (tmp_path / "x").exists()


def test_toy_data_of_other_tasks(tmp_path):
    tables = {}
    for task, name in (("labels", "labels/train.tsv"), ("dialogue", "dialogue/train.tsv"),
                       ("summary", "summary/train.csv"), ("sources", "sources/train.tsv")):
        ok("create_toy_data", f"--task={task}", f"--output_dir={task}", "--train_size=30", "--dev_size=4",
           "--test_size=5", cwd=tmp_path)
        tables[task] = [line.split("," if name.endswith("csv") else "\t") for line in lines_of(tmp_path / name)]
        known = {token for side in ("source", "target")
                 for token in lines_of(tmp_path / task / "vocab" / f"{side}.txt")}
        cells = [cell for row in tables[task][task != "labels":] for cell in row[task in ("labels", "dialogue"):]]
        assert {token for cell in cells for token in cell.strip('"').split()} <= known
    letter_of = {"alpha": "α", "beta": "β", "gamma": "γ"}
    for label, text in tables["labels"]:
        counts = {name: text.split().count(letter) for name, letter in letter_of.items()}
        assert sorted(counts.values())[-1] == counts[label] > sorted(counts.values())[-2]
    for _, question, answer in tables["dialogue"][1:]:
        place, _, *letters = question.split()
        assert answer == f"it is {letters[{'first': 0, 'second': 1, 'last': -1}[place]]}"
    for summary, text in tables["summary"][1:]:
        assert summary.split() == [piece.split()[0] for piece in text.strip('"').split("!")[1:]]
    for first, second, target in tables["sources"][1:]:
        joined = [a if b == "_" else b for a, b in zip(first.split(), second.split(), strict=True)]
        assert joined[::-1] == target.split() and "_" not in joined


@pytest.mark.long
def test_tokenizer_modes(tmp_path):
    for side in "12":
        write(tmp_path / f"text{side}", sentences(300, int(side)))
        kind = ("bpe", "unigram")[int(side) - 1]
        ok("tokenizer_wrapper", "--mode=train", f"--text_input=text{side}", f"--model_prefix=m{side}",
           "--vocab_size=44", f"--model_type={kind}", cwd=tmp_path)
    ok("tokenizer_wrapper", "--mode=tokenize", *(f"--{flag}{side}={name}{side}" for side in "12" for flag, name in (
        ("text_input", "text"), ("tokenized_output", "pieces"), ("model_prefix", "m"))), cwd=tmp_path)
    ok("tokenizer_wrapper", "--mode=encode", "--text_input=text1", "--tokenized_output=again",
       "--model_prefix=m1.model", cwd=tmp_path)
    assert lines_of(tmp_path / "pieces1") == lines_of(tmp_path / "again") != lines_of(tmp_path / "text1")
    for mode in ("detokenize", "decode"):
        ok("tokenizer_wrapper", f"--mode={mode}", "--text_input=pieces2", f"--decoded_output={mode}",
           "--model_prefix=m2", cwd=tmp_path)
        assert lines_of(tmp_path / mode) == lines_of(tmp_path / "text2")


def test_multi30k(tmp_path):
    (tmp_path / "in").mkdir()
    for split, count in (("train", 300), ("val", 5), ("test_2016_flickr", 6)):
        (tmp_path / "in" / f"{split}.en.gz").write_bytes(gzip.compress("\n".join(sentences(count, 1)).encode()))
        write(tmp_path / "in" / f"{split}.de", sentences(count, 2))
        write(tmp_path / "in" / f"{split}.fr", sentences(count, 3))
    ok("prepare_multi30k", "--data_dir=in", "--output_dir=three", "--vocab_size=44", "--languages", "en", "fr", "de",
       cwd=tmp_path)
    assert [lines_of(tmp_path / "three" / f"val.{language}") for language in ("en", "de", "fr")] == [
        sentences(5, seed) for seed in (1, 2, 3)]
    ok("prepare_multi30k", "--data_dir=in", "--output_dir=out", "--vocab_size=44", cwd=tmp_path)
    assert lines_of(tmp_path / "out" / "val.en") == sentences(5, 1)
    assert (tmp_path / "out" / "spm44.model").exists() and (tmp_path / "out" / "spm44.vocab").exists()


def test_wmt(tmp_path):
    pairs = list(zip(sentences(300, 1), sentences(300, 2), strict=True)) + [("", "x"), (" ".join("a" * 90), "b")]
    for i, (begin, end) in enumerate(((0, 100), (100, 302))):
        for side, language in enumerate(("en", "de")):
            write(tmp_path / f"corpus{i}.{language}", [pair[side] for pair in pairs[begin:end]])
    for language in ("en", "de"):
        write(tmp_path / f"dev.{language}", sentences(7, 3))
    ok("prepare_wmt", "--output_dir=out", "--train_source", "corpus0.en", "corpus1.en", "--train_target", "corpus0.de",
       "corpus1.de", "--dev_source=dev.en", "--dev_target=dev.de", "--vocab_size=44", cwd=tmp_path)
    out = tmp_path / "out"
    shuffled = list(zip(*(lines_of(out / f"train.clean.{la}.shuffled") for la in ("en", "de")), strict=True))
    assert sorted(shuffled) == sorted(pairs[:300]) and shuffled != pairs[:300]
    assert lines_of(out / "wmt13-en-de.ref") == sentences(7, 3)
    for name in ("train.clean.en.shuffled", "train.clean.de.shuffled", "wmt13-en-de.src", "wmt13-en-de.ref"):
        tokenised = lines_of(out / f"{name}.BPE_common.44.tok")
        assert ["".join(line.split()).replace("▁", " ").strip() for line in tokenised] == lines_of(out / name)
    assert (out / "m_common.vocab").exists()


def test_imdb(tmp_path):
    reviews = {f"{part}/{number}_{rating}.txt": f"Review {number} of {part}, don't<br /><br />stop!"
               for part, rating in (("neg", 2), ("pos", 9), ("unsup", 0)) for number in range(4)}
    for name, text in reviews.items():
        (tmp_path / "aclImdb" / "train" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "aclImdb" / "train" / name).write_text(text)
    ok("prepare_imdb", "--data_dir=aclImdb", "--output_dir=out", "--num_valid=3", cwd=tmp_path)
    train, valid = (lines_of(tmp_path / "out" / f"{name}.txt") for name in ("train", "valid"))
    assert len(valid) == 3
    assert sorted([*train, *valid]) == sorted(
        f"review {number} of {part} , do n't stop !" for part in ("neg", "pos", "unsup") for number in range(4))
    few = run("prepare_imdb", "--data_dir=aclImdb", "--output_dir=out", "--num_valid=12", cwd=tmp_path)
    assert few.returncode == 2 and "less than the number of reviews, 12" in few.stderr


@pytest.mark.parametrize(("script", "args", "message"), [
    ("prepare_imdb", ["--data_dir=nowhere"], "give the unpacked folder aclImdb"),
    ("create_toy_data", ["--min_length=9", "--max_length=3"], "--min_length is 9 and --max_length is 3"),
    ("tokenizer_wrapper", ["--mode=encode", "--text_input=x"], "also needs --tokenized_output, --model_prefix"),
    ("tokenizer_wrapper", ["--mode=encode", "--text_input=x", "--tokenized_output=y", "--model_prefix=z"],
     "z.model does not exist"),
    ("tokenizer_wrapper", ["--mode=train", "--text_input=x", "--model_prefix=z"], "The file x does not exist"),
    ("prepare_multi30k", ["--data_dir=nowhere"], "neither train.en nor train.en.gz"),
    ("prepare_multi30k", ["--data_dir=nowhere", "--languages", "en"], "--languages is en, but must name a source"),
    ("prepare_wmt", ["--train_source", "a", "b", "--train_target", "c"], "names 2 files but --train_target 1"),
    ("prepare_wmt", ["--train_source", "a", "--train_target", "c"], "These files do not exist: a, c"),
    ("prepare_wmt", ["--train_source", "a", "--train_target", "c", "--dev_source=d"], "Give both --dev_source"),
])
def test_mistakes(tmp_path, script, args, message):
    result = run(script, *args, cwd=tmp_path)
    assert result.returncode == 2 and message in result.stderr
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr


@pytest.mark.parametrize(("script", "arguments", "read"), [
    ("prepare_multi30k", ["--data_dir={0}", "--output_dir={0}"], "train.en"),
    ("tokenizer_wrapper", ["--mode=encode", "--text_input={0}/train.en", "--tokenized_output={0}/train.en",
                           "--model_prefix={0}/pieces"], "train.en"),
    ("tokenizer_wrapper", ["--mode=decode", "--text_input={0}/train.en", "--decoded_output={0}/pieces.model",
                           "--model_prefix={0}/pieces"], "pieces.model"),
    ("build_lm", ["--text", "{0}/train.en", "{0}/train.de", "--output={0}/train.de"], "train.de"),
    ("create_alphabet", ["--output={0}/list.csv", "{0}/list.csv"], "list.csv"),
    ("prepare_wmt", ["--train_source={0}/train.clean.en", "--train_target={0}/train.de", "--output_dir={0}"],
     "train.clean.en"),
    ("decode", ["--mode=infer", "--logits={0}/dump.npz", "--infer_output_file={0}/dump.npz"], "dump.npz"),
])
def test_no_script_writes_a_file_that_it_reads(tmp_path, script, arguments, read):
    names = [f"{split}.{side}" for split in ("train", "val", "test_2016_flickr") for side in ("en", "de")]
    for name in (*names, "train.clean.en", "pieces.model", "list.csv", "dump.npz"):
        (tmp_path / name).write_text("a b c\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = run(script, *(argument.format(tmp_path) for argument in arguments), cwd=tmp_path)
    assert done.returncode == 2 and f"The output file {tmp_path}/{read} is the same file as" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
