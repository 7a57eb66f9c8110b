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
