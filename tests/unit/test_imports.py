"""Imports point one way: a package knows only those below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "open_seq2seq"
PACKAGE = ROOT.name
# From the bottom up; a package imports from those in rows below its own, and from itself.
LAYERS = (
    ("utils",),
    ("config",),
    ("parts", "decoding", "metrics"),
    ("data", "encoders", "decoders", "losses", "optimizers"),
    ("runners", "models"),
    ("training",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(path: Path) -> str:
    """The package below open_seq2seq (or the module in it) that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(source: str, path: Path) -> Iterator[tuple[str, int]]:
    """Yields (room, line) for every import of the package, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # from .x import y
                package = (PACKAGE, *path.relative_to(ROOT).parts[:-1])
                base = ".".join((*package[:len(package) - node.level + 1], *filter(None, [base])))
            names = [f"{base}.{alias.name}" for alias in node.names] if base == PACKAGE else [base]
        for name in names:
            parts = name.split(".")
            if parts[0] == PACKAGE and len(parts) > 1 and parts[1] in RANK:
                yield parts[1], node.lineno


def forbidden_imports(source: str, path: Path) -> list[str]:
    own = room_of(path)
    return [f"{path.relative_to(ROOT.parent)}:{line}: {own} may not import {room}"
            for room, line in imported_rooms(source, path) if room != own and RANK[room] >= RANK[own]]


def test_every_package_has_a_rank():
    assert {room_of(path) for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path):
    assert forbidden_imports(path.read_text(encoding="utf-8"), path) == []


def test_package_itself_imports_nothing_of_its_own():
    """``import open_seq2seq`` is cheap: no TensorFlow, none of the rooms."""
    init = ROOT / "__init__.py"
    tree = ast.parse(init.read_text(encoding="utf-8"))
    modules = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import)
               for alias in node.names}
    modules |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not modules & {"tensorflow", "keras"}
    assert list(imported_rooms(init.read_text(encoding="utf-8"), init)) == []


@pytest.mark.parametrize(("statement", "room"), [
    ("import open_seq2seq.training.loop.step", "training"),
    ("from open_seq2seq.encoders import Encoder", "encoders"),
    ("from open_seq2seq import models", "models"),
    ("from ..training import step", "training"),
    ("def f():\n    from open_seq2seq.decoders.decoder import Decoder", "decoders"),
])
def test_upward_and_sideways_imports_are_found(statement: str, room: str):
    path = ROOT / "data" / "some_layer.py"
    found = forbidden_imports(statement, path)
    assert [line.rsplit(" ", 1)[1] for line in found] == [room]


@pytest.mark.parametrize("statement", [
    "from open_seq2seq.parts.component import Component",
    "from open_seq2seq.config.params import Param\nfrom open_seq2seq.utils import errors",
    "from open_seq2seq.data import batching",
    "from . import batching",
    "import tensorflow as tf",
])
def test_downward_imports_pass(statement: str):
    assert forbidden_imports(statement, ROOT / "data" / "some_layer.py") == []
