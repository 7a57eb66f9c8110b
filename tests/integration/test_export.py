"""The command that exports a model, and the lines of its README in a process without the package."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq import Run
from open_seq2seq.cli import main
from open_seq2seq.parts.component import named_variables
from open_seq2seq.utils import disk


@pytest.mark.long
def test_the_readme_of_an_export_translates(trained, monkeypatch, capfd):
    monkeypatch.chdir(trained)
    missing = [f"--eval_params/data_layer_params/{side}_file=nowhere" for side in ("source", "target")]
    assert main(["export", "run", "--export_dir=out", *missing]) == 2
    assert "give other files with --infer_files" in capfd.readouterr().err and not (trained / "out").exists()
    assert main(["export", "run", "--export_dir=out"]) == 0, capfd.readouterr().err
    report = json.loads((trained / "out/report.json").read_text())
    assert report["functions"]["translate"]["examples"] == report["functions"]["ids"]["equal"] == 40
    assert {path.name for path in (trained / "out/vocabulary").iterdir()} == {"src_vocab_file", "tgt_vocab_file"}
    command = ["export", "run", "dev.src", "--export_dir=out", "--decoder_params/beam_size=1"]
    assert main(command) == 0, capfd.readouterr().err  # replaces the earlier export
    programs = re.findall(r"```python\n(.*?)```", (trained / "out/README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) == 2
    for lines in programs:
        program = f"import sys\nsys.modules['open_seq2seq'] = None\n{lines}"
        done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout, done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def full(path: Path, content: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@pytest.mark.long
def test_mistakes_and_a_kill_leave_an_earlier_export_as_it_was(trained, monkeypatch, capfd):
    monkeypatch.chdir(trained)
    assert main(["export", "run", "--export_dir=kept"]) == 0, capfd.readouterr().err
    for name, content in (("file", b""), ("empty.txt", b""), ("binary.txt", b"\xff\n")):
        Path(name).write_bytes(content)
    before = contents(trained / "kept")
    for words, said in (
            (["--export_dir=file"], "file is not a folder"), (["--export_dir=file/below"], "cannot be written"),
            (["--export_dir=run"], "contains files, but no earlier export"),
            (["nowhere.txt", "--export_dir=kept"], "nowhere.txt, which does not exist"),
            (["--export_dir=kept", "--dtype=float23"], "Did you mean 'float32'?"),
            (["--export_dir=kept", "--decoder_params/beam_sise=2"], "Did you mean 'beam_size'?"),
            (["--export_dir=kept", "--replace_unknowns=True"], "'replace_unknowns' is True"),
            (["--export_dir=kept", "--decoder_params/beam_size=0"], "beam_size"),
            (["--export_dir=kept", "--check"], "--check has no meaning with --mode=export"),
            (["empty.txt", "--export_dir=kept"], "empty.txt is empty"),
            (["binary.txt", "--export_dir=kept"], "binary.txt:1: the line is not valid UTF-8"),
            (["--export_dir=kept", "--export_format=sherpa"], "because it is a Text2Text"),
            (["--export_dir=kept", "--export_format=argos"], "needs one SentencePiece model for both languages")):
        assert main(["export", "run", *words]) == 2
        error = capfd.readouterr().err
        assert said in error and error.count("\n") == 1, error
    shutil.copytree("run", "broken")
    for vocabulary in Path("broken").glob("**/assets/*"):
        vocabulary.unlink()
    assert main(["export", "broken", "--export_dir=kept"]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and "No intact checkpoint is left" in error and "assets" in error
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_new", full)
        assert main(["export", "run", "--export_dir=kept"]) == 2
        error = capfd.readouterr().err
        assert error.count("\n") == 1 and "No space left on device: free some space" in error
    running = subprocess.Popen([sys.executable, "-m", "open_seq2seq", "export", "run", "--export_dir=kept"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(trained.glob(".tmp-*/saved_model.pb")) and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    assert running.wait() < 0  # it had not ended before
    assert contents(trained / "kept") == before


@pytest.mark.long
def test_training_begins_with_the_weights_of_a_folder_of_hugging_face(trained, command):
    assert command("--mode=export", "--export_format=huggingface", f"--export_dir={trained}/folder")[0] == 0
    found = Run(logdir=f"{trained}/run").load().model
    values = ["--mode=train", f"--load_model={trained}/folder", f"--logdir={trained}/tuned", "--max_steps=1",
              "--save_checkpoint_steps=1", "--optimizer=Adam", "--optimizer_params={}", "--lr_policy=fixed_lr",
              "--lr_policy_params={'learning_rate': 0.0}"]
    code, out, err = command(*values)
    assert code == 0, err
    assert re.search(r"(\d+) of \1 variables loaded", out)
    tuned = Run(logdir=f"{trained}/tuned").load().model
    for name, variable in named_variables(tuned).items():
        np.testing.assert_array_equal(variable.numpy(), named_variables(found)[name].numpy(), err_msg=name)
