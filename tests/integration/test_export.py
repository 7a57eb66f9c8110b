"""The command that exports a model, and the lines of its README in a process without the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from open_seq2seq import Run
from open_seq2seq.cli import main
from open_seq2seq.parts.component import named_variables


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
