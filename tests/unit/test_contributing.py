"""CONTRIBUTING.md answers twenty questions, and everything that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))))
PATHS = [quoted for quoted in QUOTED if re.fullmatch(r"[\w./-]+(/|\.py|\.md)(:\w+)?", quoted)]


def place(path: str) -> Path:
    """Where a path leads, from the repository or from the package."""
    return next((folder / path for folder in (ROOT, ROOT / "open_seq2seq") if (folder / path).exists()), ROOT / path)


def test_there_are_twenty_questions():
    questions = re.findall(r"^### (.*)$", TEXT, re.MULTILINE)
    assert len(questions) == 20 and all(question.endswith("?") for question in questions)


@pytest.mark.parametrize("quoted", PATHS)
def test_files_and_names_exist(quoted: str):
    path, _, name = quoted.partition(":")
    assert place(path).exists() or path == "__init__.py"
    if name:
        tree = ast.parse(place(path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def test_other_names_are_in_the_code():
    code = "".join(path.read_text(encoding="utf-8") for folder in ("open_seq2seq", "tests/integration")
                   for path in (ROOT / folder).rglob("*.py"))
    for quoted in QUOTED:
        for word in re.findall(r"^_?[a-z]\w*$|^[A-Z]+$", quoted):
            assert re.search(rf"\b{word}\b", code), word


def test_make_targets_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = set(re.findall(r"(?:`|^|&& )make ([a-z-]+)", TEXT, re.MULTILINE))
    assert {"lint", "test", "test-long", "test-ranks"} <= named <= set(targets)
