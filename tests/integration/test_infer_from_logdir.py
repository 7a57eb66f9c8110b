"""Text models from nothing but their logdir, wherever it has been moved: sentences of files and of standard input."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.utils.errors import DataError, UserError
from tests.integration.conftest import write_corpus
from tests.unit.checkpoints.resealing import reseal

pytestmark = pytest.mark.long
LINES = "a b c\nf e d\n"


def move(logdir: Path, folder: Path) -> Path:
    """Copies a logdir to a folder, from which its vocabulary and data cannot be found."""
    shutil.copytree(logdir, folder / "moved")
    change_config(folder / "moved", lambda text: text.replace(str(logdir.parent), "/gone"))
    return folder / "moved"


@pytest.fixture
def moved(two_updates: Path, tmp_path: Path) -> Path:
    """A logdir whose vocabulary and data are gone."""
    return move(two_updates, tmp_path)


def change_config(logdir: Path, change) -> None:
    config = logdir / "model.ckpt-2" / "config.yaml"
    config.write_text(change(config.read_text(encoding="utf-8")), encoding="utf-8")
    reseal(config.parent)


def infers(source: list[str], output: Path | str, files: list[Path | str]) -> list[str]:
    return [*source, "--mode=infer", f"--infer_output_file={output}", "--infer_files", *map(str, files)]


@pytest.fixture(scope="module")
def translation(two_updates: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("translation")
    (folder / "mine.txt").write_text(LINES, encoding="utf-8")
    assert main(infers([f"--logdir={move(two_updates, folder)}"], folder / "out.txt", [folder / "mine.txt"])) == 0
    return (folder / "out.txt").read_text(encoding="utf-8")


@pytest.fixture
def translated(translation: str, tmp_path: Path) -> str:
    """What the model makes of ``LINES``, which are in the file ``mine.txt``."""
    (tmp_path / "mine.txt").write_text(LINES, encoding="utf-8")
    return translation


def test_a_config_that_lies_in_a_moved_logdir_uses_what_lies_beside_it(moved, translated, tmp_path):
    config = f"--config_file={moved}/model.ckpt-2/config.yaml"
    for source in ([config], [config, f"--logdir={moved}"]):
        assert main(infers(source, tmp_path / "again.txt", [tmp_path / "mine.txt"])) == 0
        assert (tmp_path / "again.txt").read_text(encoding="utf-8") == translated


def test_a_users_config_whose_vocabulary_is_gone_uses_that_of_the_checkpoint(trained, tmp_path, command, capfd):
    (tmp_path / "mine.txt").write_text("a b c\n", encoding="utf-8")
    outputs = []
    for vocabulary in ("there", "gone"):
        code, out, _ = command(*infers([], tmp_path / "out.txt", [tmp_path / "mine.txt"]))
        outputs.append((tmp_path / "out.txt").read_text(encoding="utf-8"))
        assert code == 0 and ("do not exist and are taken from" in out) == (vocabulary == "gone")
        (trained / "vocab.txt").unlink(missing_ok=True)
    assert outputs[0] == outputs[1]
    (trained / "vocab.txt").write_text("\n".join("abcdeg") + "\n", encoding="utf-8")
    code, _, err = command(*infers([], tmp_path / "out.txt", [tmp_path / "mine.txt"]))
    assert code == 2 and "is not the file that" in err  # a file that exists is the one that the user means


def test_evaluation_needs_only_the_logdir_and_data(moved, tmp_path, capfd):
    write_corpus(tmp_path, "other", 5, 1)
    data = "--eval_params/data_layer_params"
    assert main(["--mode=eval", f"--logdir={moved}", f"{data}/source_file={tmp_path}/other.src",
                 f"{data}/target_file={tmp_path}/other.tgt"]) == 0
    assert "BLEU: " in capfd.readouterr().out
    assert main(["--mode=eval", f"--logdir={moved}"]) == 2
    assert "/gone/dev.src" in capfd.readouterr().err


def test_a_config_with_data_of_training_only(moved, translated, tmp_path):
    def moved_to_train(text: str) -> str:
        config = yaml.safe_load(text)
        names = ("data_layer", "data_layer_params")
        config["train_params"] = {name: config["base_params"].pop(name) for name in names}
        return yaml.safe_dump({name: config[name] for name in ("base_model", "base_params", "train_params")})

    change_config(moved, moved_to_train)
    assert main(infers([f"--logdir={moved}"], tmp_path / "again.txt", [tmp_path / "mine.txt"])) == 0
    assert (tmp_path / "again.txt").read_text(encoding="utf-8") == translated


def test_only_results_go_to_standard_output(moved, translated, tmp_path, monkeypatch, capfd):
    capfd.readouterr()
    assert main(infers([f"--logdir={moved}"], "-", [tmp_path / "mine.txt"])) == 0
    captured = capfd.readouterr()
    assert captured.out == translated and "Finished inference. Results: standard output" in captured.err
    monkeypatch.setattr(sys, "stdin", open(tmp_path / "mine.txt", encoding="utf-8"))
    assert main(["translate", str(moved)]) == 0
    assert capfd.readouterr().out == translated
    assert main(["translate", str(moved), f"{tmp_path}/mine.txt", f"{tmp_path}/mine.txt"]) == 0
    assert capfd.readouterr().out == 2 * translated
    assert main(["translate"]) == 2
    assert "The logdir of a trained model is missing" in capfd.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "moved"]


def test_lines_of_a_pipe_are_answered_as_they_come(moved, translated, tmp_path, monkeypatch, capfd):
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
    os.mkfifo(tmp_path / "answers")
    answers = []

    def talk() -> None:
        with open(tmp_path / "answers", encoding="utf-8") as results, os.fdopen(writing, "wb") as typed:
            for line in (b"a b c\n", b"\n", b"f e d"):  # the last line has no end
                typed.write(line)
                if line.endswith(b"\n"):
                    typed.flush()
                    answers.append(results.readline())
            typed.close()
            answers.append(results.read())

    talking = threading.Thread(target=talk, daemon=True)
    talking.start()
    assert main(infers([f"--logdir={moved}"], tmp_path / "answers", ["-"])) == 0
    talking.join(60)
    first, last = translated.splitlines(keepends=True)
    assert answers == [first, "\n", last]
    assert "Empty lines, whose results are empty too: 1" in capfd.readouterr().out


def test_empty_lines_stay_empty_and_long_ones_are_named(moved, tmp_path, monkeypatch, capfd):
    (tmp_path / "mine.txt").write_text(f"\na b c\n  \n{'a b ' * 12}\n{'a b ' * 11}a\n", encoding="utf-8")
    for more, empty in (([], ["", ""]), (["--write_scores=True"], ["0\t0.000000\t", "2\t0.000000\t"])):
        assert main([*infers([f"--logdir={moved}"], tmp_path / "out.txt", [tmp_path / "mine.txt"]), *more]) == 0
        lines = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
        assert [lines[0], lines[2]] == empty and lines[5:] == [""]
        out = capfd.readouterr().out
        assert "Empty lines, whose results are empty too: 2" in out
        assert ("Longer than max_length 24, so only the beginning is read: 1 of 5 lines, the first is "
                f"{tmp_path}/mine.txt:4\n") in out
    monkeypatch.setattr(sys, "stdin", open(tmp_path / "mine.txt", encoding="utf-8"))
    assert main(infers([f"--logdir={moved}"], tmp_path / "out.txt", ["-"])) == 0
    assert "of 5 lines, the first is standard input:4\n" in capfd.readouterr().out


def test_sentences_of_files_and_of_standard_input(moved, tmp_path, monkeypatch, capfd):
    (tmp_path / "one.txt").write_text("a b c\n\nc b a", encoding="utf-8")
    (tmp_path / "two.txt").write_text("f e d\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a a a\n")))
    inference = ["--mode=infer", f"--logdir={moved}", f"--infer_output_file={tmp_path}/out.txt", "--infer_files"]
    assert main([*inference, f"{tmp_path}/one.txt", "-", f"{tmp_path}/two.txt"]) == 0
    together = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert len(together) == 6 and together[-1] == ""  # a line for each of five sentences, one of them empty
    assert main([*inference, f"{tmp_path}/two.txt"]) == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == together[4] + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moved", "one.txt", "out.txt", "two.txt"]
    capfd.readouterr()
    assert main([*inference, f"{tmp_path}/three.txt"]) == 2
    assert "three.txt, which does not exist" in capfd.readouterr().err


def test_the_checkpoint_before_a_damaged_one_is_used(moved, tmp_path, capfd):
    shutil.copytree(moved / "model.ckpt-2", moved / "model.ckpt-3")
    (moved / "model.ckpt-3" / "assets" / "src_vocab_file").write_text("x\n", encoding="utf-8")
    (tmp_path / "one.txt").write_text("a b c\n", encoding="utf-8")
    assert main(["--mode=infer", f"--logdir={moved}", f"--infer_output_file={tmp_path}/out.txt", "--infer_files",
                 f"{tmp_path}/one.txt"]) == 0
    assert "src_vocab_file is truncated or altered. Trying the previous checkpoint." in capfd.readouterr().out


def test_a_model_in_python(moved, translated, capfd):
    model = open_seq2seq.load(moved)
    model.translate(["a b", "a b " * 20, "a " * 50])
    assert "only a part was read: 2 of 3 inputs, the first is number 2\n" in capfd.readouterr().err
    first, last = translated.splitlines()
    assert model.translate("a b c") == first and model.translate([]) == []
    lines, answers = ["a b c", "", "f e d", "  "] * 15, [first, "", last, ""] * 15  # several batches
    assert model.translate(lines) == answers
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(model.translate, [lines[start:] for start in range(8)])) == [
            answers[start:] for start in range(8)]
    assert [result[0][1] for result in model.infer(lines[:3])] == answers[:3]
    with pytest.raises(UserError, match="Text2Text does not transcribe: call infer or translate"):
        model.transcribe("a.wav")
    with pytest.raises(DataError, match="list of strings"):
        model.translate(["a", 3])
    for call in (lambda: model.infer("a b c"), lambda: model.score("a b c", "c b a"), lambda: model.translate(None)):
        with pytest.raises(DataError, match="must be lists, but got"):
            call()
    with pytest.raises(UserError, match="has no checkpoint"):
        open_seq2seq.load(moved / "model.ckpt-2" / "assets")
    sources, targets = ["a b c", "f e d", "a"] * 10, ["c b a", "a", "f e d c b a"] * 10
    alone = [model.score([source], [target])[0] for source, target in zip(sources[:3], targets[:3], strict=True)]
    assert [score.tokens for score in alone] == [4, 2, 7] and all(score.log_prob < 0 for score in alone)
    for found, expected in zip(model.score(sources, targets), alone * 10, strict=True):
        assert found.tokens == expected.tokens and abs(found.log_prob - expected.log_prob) < 1e-4
    assert model.score([], []) == []
    with pytest.raises(DataError, match="2 inputs and 1 targets"):
        model.score(["a", "b"], ["a"])
    with pytest.raises(DataError, match="the translation has 30 tokens"):
        model.score(["a"], ["a " * 30])
    in_tokens = open_seq2seq.load(moved, {"data_layer_params/batch_size_unit": "tokens"}, batch_size_per_gpu=20)
    assert in_tokens.translate(lines) == answers


def test_scores_are_those_of_a_file(moved, tmp_path):
    sources, targets = ["a b c", "f e d"], ["c b a", "a a a a"]
    (tmp_path / "mine.txt").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    (tmp_path / "given.txt").write_text("".join(f"{line}\n" for line in targets), encoding="utf-8")
    assert main([*infers([f"--logdir={moved}"], tmp_path / "out.txt", [tmp_path / "mine.txt"]),
                 f"--data_layer_params/score_file={tmp_path}/given.txt"]) == 0
    rows = [line.split("\t") for line in (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()]
    for row, score in zip(rows, open_seq2seq.load(moved).score(sources, targets), strict=True):
        assert abs(float(row[0]) - score.log_prob) < 1e-4 and int(row[2]) == score.tokens


def test_a_run_goes_on_without_its_config_and_vocabulary(two_updates, tmp_path, capfd):
    shutil.copytree(two_updates.parent, tmp_path / "there")
    shutil.move(tmp_path / "there" / "run", tmp_path / "moved")
    (tmp_path / "there" / "vocab.txt").unlink()
    data = str(two_updates.parent)
    change_config(tmp_path / "moved", lambda text: text.replace(data, str(tmp_path / "there")))
    resume = ["--mode=train", "--continue_learning", f"--logdir={tmp_path}/moved"]
    assert main([*resume, "--max_steps=4", "--save_checkpoint_steps=1", "--num_checkpoints=1"]) == 0
    said = capfd.readouterr().out
    assert "is taken from the checkpoint" in said and "has changed since" not in said.replace("max_steps", "")
    config = (tmp_path / "moved" / "model.ckpt-4" / "config.yaml").read_text(encoding="utf-8")
    assert f"{tmp_path}/there/vocab.txt" in config  # not the temporary copy
    assert main(["--mode=train", f"--config_file={data}/config.py", f"--logdir={tmp_path}/again", "--max_steps=4"]) == 0
    weights = [(tmp_path / name / "model.ckpt-4" / "weights.safetensors").read_bytes() for name in ("moved", "again")]
    assert weights[0] == weights[1]
    assert main(["--mode=train", "--continue_learning", f"--logdir={tmp_path}"]) == 2
    assert "there is no checkpoint" in capfd.readouterr().err
