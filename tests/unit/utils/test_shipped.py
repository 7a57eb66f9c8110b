"""Files of the repository in the installed package: their commands and paths."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

from open_seq2seq.utils import shipped


@pytest.mark.parametrize(("text", "becomes"), [
    ("python scripts/prepare_text.py --table=x", "open_seq2seq script prepare_text --table=x"),
    ("scripts/prepare_wmt.py prepares them", "open_seq2seq script prepare_wmt prepares them"),
    ("mpiexec -np 8 python run.py --config_file=example_configs/lm/toy-lm.py --mode=train",
     "mpiexec -np 8 open_seq2seq --config_file=recipe:lm/toy-lm --mode=train"),
    ("run.py --mode=infer, my_run.py and /home/run.py", "open_seq2seq --mode=infer, my_run.py and /home/run.py"),
    ("docs/own-text.md describes it", "docs/own-text.md describes it"),
])
def test_commands_need_no_repository(text: str, becomes: str):
    assert shipped.without_repository(text) == becomes
    assert shipped.as_usable(text) == text  # here is one


def test_a_file_of_the_recipes_is_found_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "example_configs/text2speech/english.txt"
    here = shipped.path_here(name)
    assert Path(here).is_file() and shipped.as_named(f"a {here} b") == f"a {name} b"
    assert shipped.path_here("example_configs/none.txt") == "example_configs/none.txt"
    assert shipped.path_here("other/english.txt") == "other/english.txt"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    assert shipped.path_here(name) == name


def test_an_installed_copy_uses_its_own_files(tmp_path, monkeypatch):
    package = tmp_path / "installed"
    for folder in ("utils", "share/example_configs"):
        (package / folder).mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(shipped.__file__, package / "utils" / "shipped.py")
    monkeypatch.syspath_prepend(tmp_path)
    installed = importlib.import_module("installed.utils.shipped")
    assert installed.INSTALLED and installed.RECIPES == package / "share" / "example_configs"
    assert installed.as_usable("python run.py --check") == "open_seq2seq --check"


def test_help_of_an_installed_copy_names_commands_that_work(monkeypatch):
    from open_seq2seq.cli import make_parser
    from open_seq2seq.utils.script import ScriptParser
    from scripts import decode

    monkeypatch.setattr("sys.argv", [str(shipped.SCRIPTS / "decode.py")])
    assert "usage: python scripts/decode.py [-h]" in ScriptParser(decode.__doc__).format_help()
    monkeypatch.setattr(shipped, "INSTALLED", True)
    for text in (ScriptParser(decode.__doc__).format_help(), make_parser().format_help()):
        assert "scripts/decode" not in text and "run.py" not in text and "usage: open_seq2seq " in text
