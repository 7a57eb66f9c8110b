"""The command that exports a model, and the lines of its README in a process without the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from open_seq2seq import Run
from open_seq2seq.cli import main
from tests.integration.toy_data import ROOT, make_toy_data

SMALL = {f"{part}_params/{name}": value for part in ("encoder", "decoder")
         for name, value in {"hidden_size": 16, "filter_size": 32, "num_heads": 2}.items()}


@pytest.mark.long
def test_the_readme_of_an_export_translates(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    make_toy_data("--output_dir=toy_text_data")
    recipe = str(ROOT / "example_configs/text2text/toy-reversal/nmt-reversal-TT.py")
    Run(recipe, {**SMALL, "max_steps": 1, "save_summaries_steps": None}, logdir="run").train(no_dir_check=True)
    assert main(["export", "run", "--export_dir=out", "--decoder_params/beam_size=2"]) == 0
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["functions"]["translate"]["examples"] == report["functions"]["ids"]["equal"] == 40
    assert {path.name for path in (tmp_path / "out/vocabulary").iterdir()} == {"src_vocab_file.txt", "tgt_vocab_file.txt"}
    (tmp_path / "toy_text_data").rename(tmp_path / "elsewhere")
    code = main(["export", "run", "--export_dir=other"])
    assert code == 2 and "give other files with --infer_files" in capfd.readouterr().err
    assert main(["export", "run", "elsewhere/dev/source.txt", "--export_dir=out"]) == 0  # replaces the earlier export
    for lines in re.findall(r"```python\n(.*?)```", (tmp_path / "out/README.md").read_text(), re.DOTALL):
        program = f"import sys\nsys.modules['open_seq2seq'] = None\n{lines}"
        done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout, done.stderr
