"""The wheel and the source archive have the same files; installed without a repository: recipes, data, training."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT_FROM = ("open_seq2seq", "example_configs", "scripts", "toy_models", "setup.py", "pyproject.toml",
              "README.md", "LICENSE")
BUILD = "from setuptools import build_meta; print(build_meta.build_{kind}({folder!r}))"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def started(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program that does not find this repository."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, timeout=500,
                          check=False)


def checked(*words: str | Path, cwd: Path) -> str:
    """Runs a program that must succeed; returns what it prints to stdout."""
    done = started(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source archive."""
    root = tmp_path_factory.mktemp("built")
    (root / "source").mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():  # without bytecode, which other tests write meanwhile
            shutil.copytree(ROOT / name, root / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, root / "source" / name)
    files = {kind: root / checked(sys.executable, "-c", BUILD.format(kind=kind, folder=str(root)),
                                  cwd=root / "source").splitlines()[-1] for kind in ("sdist", "wheel")}
    shutil.rmtree(root / "source")
    return files


@pytest.fixture(scope="module")
def command(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the source archive as installed, where the other packages are those of the tests."""
    root = tmp_path_factory.mktemp("installed")
    checked(sys.executable, "-m", "venv", "--without-pip", root / "venv", cwd=root)
    packages = next((root / "venv").glob("lib/python*/site-packages"))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    checked(sys.executable, "-m", "pip", "--python", root / "venv/bin/python", "install", "--no-deps", "--no-index",
            "--no-build-isolation", "--quiet", built["sdist"], cwd=root)
    return root / "venv/bin/open_seq2seq"


def test_the_wheel_has_the_files_that_the_source_archive_installs(built: dict[str, Path], command: Path):
    packages = next(command.parents[1].glob("lib/python*/site-packages"))
    with zipfile.ZipFile(built["wheel"]) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
        (entry_points,) = [wheel.read(name) for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    installed = {path.relative_to(packages).as_posix(): path.read_bytes()
                 for path in (packages / "open_seq2seq").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert files == installed
    assert entry_points == next(packages.glob("*.dist-info/entry_points.txt")).read_bytes()


def test_the_installed_package_lists_copies_trains_and_translates(command: Path, tmp_path: Path):
    python = command.with_name("python")
    where = checked(python, "-c", "import open_seq2seq; print(open_seq2seq.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(command.parents[1])
    assert "score:     97 to 99 BLEU on the test set" in checked(command, "recipes", cwd=tmp_path)
    (tmp_path / "toy.txt").write_text("α β γ\n", encoding="utf-8")
    assert checked(command, "translate", "toy:reversal", "toy.txt", cwd=tmp_path) == "γ β α\n"
    checked(command, "script", "create_toy_data", "--train_size=200", "--dev_size=20", "--test_size=4", cwd=tmp_path)

    short = ("--mode=train_eval", "--max_steps=4", "--eval_steps=4", "--batch_size_per_gpu=8")
    checked(command, "--config_file=recipe:nmt-reversal-RR", *short, cwd=tmp_path)
    checked(command, "recipes", "copy", "nmt-reversal-RR", "mine.yaml", cwd=tmp_path)
    checked(command, "--config_file=mine.yaml", *short, "--logdir=mine", cwd=tmp_path)
    (tmp_path / "letters.txt").write_text("α β γ\nβ β\n", encoding="utf-8")
    results = [checked(command, "translate", logdir, "letters.txt", cwd=tmp_path)
               for logdir in ("nmt-reversal-RR", "mine")]
    assert results[0] == results[1] and len(results[0].splitlines()) == 2
    checked(command, "--mode=report", "--logdir=mine", cwd=tmp_path)
    assert {"report.html", "README.md"} <= {path.name for path in (tmp_path / "mine").iterdir()}
    done = started(command, "script", "prepare_text", "--help", cwd=tmp_path)
    assert "usage: open_seq2seq script prepare_text --table" in done.stdout and "scripts/" not in done.stdout

    program = 'from open_seq2seq import Run; Run("recipe:nmt-reversal-TT", {"max_steps": 2}).check()'
    assert "The config can be run." in checked(python, "-c", program, cwd=tmp_path)


def test_the_installed_package_writes_the_schema_and_examines_the_machine(command: Path, tmp_path: Path):
    checked(command, "recipes", "copy", "toy-lm", "config.yaml", cwd=tmp_path)
    head = (tmp_path / "config.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert head == "# yaml-language-server: $schema=config.schema.json"
    assert json.loads(checked(command, "schema", cwd=tmp_path))["definitions"]["encoder.TransformerEncoder"]
    assert "Products on CPU:0: float32 " in checked(command, "doctor", cwd=tmp_path)


def test_files_of_recipes_are_found_and_missing_data_are_made_by_a_command_that_exists(command: Path, tmp_path: Path):
    program = ("from open_seq2seq.config.loader import load_config\n"
               "from open_seq2seq.config.recipes import find_recipe\n"
               "params = load_config(find_recipe('recipe:tacotron_float')).sections['base_params']\n"
               "print(params['data_layer_params']['vocab_file'])")
    vocabulary = checked(command.with_name("python"), "-c", program, cwd=tmp_path).strip()
    assert Path(vocabulary).is_file() and Path(vocabulary).is_relative_to(command.parents[1])
    done = started(command, "--config_file=recipe:toy-lm", "--check", cwd=tmp_path)
    assert done.returncode == 2 and "open_seq2seq script create_toy_text --output_dir=toy_text_lm" in done.stderr
