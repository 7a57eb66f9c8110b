"""N-best lists of speech recognition and of translation, rescored with a trained language model."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.decoding.n_best import read_beam_dump, read_n_best
from open_seq2seq.rescoring import log_probs
from open_seq2seq.utils.errors import UserError
from scripts import decode, rescore
from tests.integration.test_ranks_of_families import SETTINGS, language_model

# Two utterances; the words are some that the language model knows, and one that it does not.
LISTS = {"a.wav": [("bade fifi", -2.0), ("bade fifi bade fifi bade", -2.5), ("fifi", -2.25)],
         "b.wav": [("", -1.0), ("unheard bade fifi bade", -1.0)]}
ALPHA, BETA = 0.5, 0.75


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logdir of a language model after two updates."""
    root = tmp_path_factory.mktemp("lm")
    params = {**language_model(root), **SETTINGS, "max_steps": 2, "logdir": f"{root}/run"}
    (root / "config.yaml").write_text(to_yaml({"base_model": "LSTMLM", "base_params": params}))
    assert main([f"--config_file={root}/config.yaml", "--mode=train"]) == 0
    return root / "run"


@pytest.fixture
def beams(tmp_path: Path) -> Path:
    """A beam dump, with the list of its utterances beside it."""
    (tmp_path / "beams").write_text("".join(
        "B=>>>>>>>>\n" + "".join(f"{score} 0.0 0.0 {text}\n" for text, score in candidates) + "E=>>>>>>>>\n"
        for candidates in LISTS.values()))
    (tmp_path / "dev.csv").write_text("wav_filename,wav_filesize,transcript\na.wav,1,fifi\nb.wav,1,bade\n")
    return tmp_path / "beams"


def expected(run: Path) -> list[list[tuple[str, float]]]:
    """The lists with the sums of scores; each text is scored alone."""
    model = open_seq2seq.load(run)
    summed = [[(text, score + ALPHA * model.score([text])[0][0] + BETA * len(text.split()))
               for text, score in candidates] for candidates in LISTS.values()]
    return [sorted(candidates, key=lambda candidate: -candidate[1]) for candidates in summed]


@pytest.mark.long
def test_a_beam_dump_is_rescored(run: Path, beams: Path, capfd: pytest.CaptureFixture[str]):
    outputs = beams.with_name("out.csv"), beams.with_name("rescored")
    common = ["--mode", "rescore", "--n_best", str(beams), "--labels", str(beams.with_name("dev.csv")), "--lm",
              str(run), "--alpha", str(ALPHA), "--beta", str(BETA)]
    decode.main([*common, "--infer_output_file", str(outputs[0]), "--dump_all_beams_to", str(outputs[1]),
                 "--beams_format", "dump"])
    assert f"alpha={ALPHA:g}, beta={BETA:g}: WER=" in capfd.readouterr().out
    want = expected(run)
    found = [[(c.text, c.score) for c in candidates] for candidates in read_beam_dump(str(outputs[1]))]
    assert [[text for text, _ in candidates] for candidates in found] == [[t for t, _ in row] for row in want]
    for candidates, row in zip(found, want, strict=True):
        assert [score for _, score in candidates] == pytest.approx([score for _, score in row], abs=1e-4)
    best = list(csv.reader(outputs[0].open()))[1:]
    assert best == [["a.wav", want[0][0][0]], ["b.wav", want[1][0][0]]]
    # The table keeps the first score and what was added to it.
    decode.main([*common, "--dump_all_beams_to", str(outputs[1])])
    for name, candidates in read_n_best(str(outputs[1])).items():
        assert {c.text: c.acoustic for c in candidates} == dict(LISTS[name])
        assert all(c.score == pytest.approx(c.acoustic + c.lm, abs=1e-5) for c in candidates)


@pytest.mark.long
def test_translations_are_chosen_by_the_language_model(run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    rows = [(line, rank, score, len(text.split()) + 1, text) for line, candidates in enumerate(LISTS.values(), 1)
            for rank, (text, score) in enumerate(candidates, 1)]
    table, output, references = (tmp_path / name for name in ("out.scores.tsv", "out.txt", "references"))
    table.write_text("line\trank\tscore\ttokens\ttext\n" + "".join(
        "\t".join(map(str, row)) + "\n" for row in rows))
    common = ["--n_best", str(table), "--lm", str(run), "--output_file", str(output)]
    rescore.main([*common, "--alpha", str(ALPHA), "--beta", str(BETA)])
    assert output.read_text().splitlines() == [row[0][0] for row in expected(run)]
    # The references are the longest hypotheses, which a high bonus prefers.
    references.write_text("bade fifi bade fifi bade\nunheard bade fifi bade\n")
    capfd.readouterr()
    rescore.main([*common, "--alpha", "0", "--beta", "0", "9", "-9", "--references", str(references)])
    said = capfd.readouterr().out
    assert said.count(": BLEU=") == 3 and "BEST: alpha=0, beta=9, " in said
    assert output.read_text() == references.read_text()
    references.write_text("only one line\n")
    with pytest.raises(UserError, match="has 1 lines, but .* for 2"):
        rescore.main([*common, "--alpha", "0", "--references", str(references)])


def test_other_models_are_refused(two_updates: Path, beams: Path):
    with pytest.raises(UserError, match="does not contain a language model"):
        log_probs(two_updates, ["a b"])


def test_a_classifier_on_the_encoder_of_a_language_model_is_refused(tmp_path: Path):
    (tmp_path / "train.csv").write_text("1,good\n0,bad\n" * 4)
    layer = {"data_root": str(tmp_path), "processed_data_folder": str(tmp_path), "max_length": 4}
    params = {**language_model(tmp_path), **SETTINGS, "max_steps": 1, "logdir": f"{tmp_path}/run",
              "loss": "CrossEntropyLoss", "loss_params": {}, "data_layer": "SSTDataLayer", "data_layer_params": layer}
    (tmp_path / "config.yaml").write_text(to_yaml({"base_model": "LSTMLM", "base_params": params}))
    assert main([f"--config_file={tmp_path}/config.yaml", "--mode=train"]) == 0
    with pytest.raises(UserError, match="run does not contain a language model"):
        log_probs(tmp_path / "run", ["good"])


MISTAKES = {
    "no file": ("--mode rescore --n_best beams --lm . --beams_format dump --labels dev.csv", "name that file"),
    "search": ("--mode eval --logits x.npz --labels dev.csv --lm .", "needs the file of an n-gram model"),
    "n-gram options": ("--mode rescore --n_best beams --labels dev.csv --lm . --lm_type word",
                       "leave out --lm_type, used only by n-gram"),
    "trust": ("--mode rescore --n_best beams --labels dev.csv --lm x.arpa --trust_code", "set --lm to its logdir"),
    "number of lists": ("--mode rescore --n_best beams --labels one.csv --lm .", "lists of 2 utterances"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_decode(beams: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(beams.parent)
    Path("one.csv").write_text("wav_filename,wav_filesize,transcript\na.wav,1,fifi\n")
    arguments, expected_words = MISTAKES[name]
    with pytest.raises(UserError, match=expected_words) as error:
        decode.main(arguments.split())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("arguments", "words"), [
    ("--alpha 1", "nothing to do"), ("--alpha 1 2 --output_file out", "give --references"),
    ("--alpha 1 --output_file n_best", "choose another output")])
def test_mistakes_of_rescore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, words: str):
    monkeypatch.chdir(tmp_path)
    Path("n_best").write_text("line\trank\tscore\ttokens\ttext\n")
    with pytest.raises(UserError, match=words):
        rescore.main(["--n_best", "n_best", "--lm", ".", *arguments.split()])
