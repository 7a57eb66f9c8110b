"""Imports point one way: a package knows only those below it, and no files import one another in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "open_seq2seq"
PACKAGE = ROOT.name
# From the bottom up; a package imports from those in rows below its own, and from itself.
LAYERS = (
    ("version",),
    ("utils",),
    ("config",),
    ("parts", "decoding", "metrics"),
    ("data", "encoders", "decoders", "losses", "optimizers"),
    ("models",),
    ("runners",),
    ("checkpoints",),
    ("training",),
    ("inference", "export", "report"),
    ("run",),
    ("server",),
    ("cli",),
    ("rescoring",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
# The same for the packages and modules inside training.
TRAINING = ("loop", "precision", "recovery", "train", "hooks")
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


def test_imports_point_down():
    assert [line for path in FILES for line in forbidden_imports(path.read_text(encoding="utf-8"), path)] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("training/**/*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_inside_training_point_down(path: Path):
    own = path.relative_to(ROOT / "training").parts[0].removesuffix(".py")
    below = () if own == "__init__" else TRAINING[:TRAINING.index(own) + 1]
    inside = {name.split(".")[2] for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
              if isinstance(node, ast.ImportFrom) and (name := node.module or "").startswith(f"{PACKAGE}.training.")}
    assert inside <= set(below)


def test_package_itself_imports_nothing_of_its_own():
    """``import open_seq2seq`` is cheap: no TensorFlow, none of the rooms."""
    init = ROOT / "__init__.py"
    tree = ast.parse(init.read_text(encoding="utf-8"))
    modules = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import)
               for alias in node.names}
    modules |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not modules & {"tensorflow", "keras"}
    executed = [node for node in tree.body if not isinstance(node, ast.FunctionDef)
                and ast.unparse(node).split(":")[0] != "if TYPE_CHECKING"]
    assert [room for room, _ in imported_rooms("\n".join(map(ast.unparse, executed)), init)] == ["version"]


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


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, own: str, modules: Mapping[str, Path]) -> set[str]:
    """Returns the modules of the package that a file imports, in functions and under ``TYPE_CHECKING`` too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = own if modules[own].name == "__init__.py" else own.rpartition(".")[0]
                above = package.split(".")[:len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            found.update(name if name in modules else base for name in names)
    return {name for name in found if name in modules and name != own}


def circle_of(imports: Mapping[str, set[str]]) -> list[str] | None:
    """Returns a shortest list of modules of which each imports the next, and the last the first; None without one."""
    shortest: list[str] | None = None
    for start in sorted(imports):
        ways, seen = [[start]], {start}
        for way in ways:  # grows: in order of length
            if start in imports[way[-1]]:
                shortest = way if shortest is None or len(way) < len(shortest) else shortest
                break
            for name in sorted(imports[way[-1]] - seen):
                seen.add(name)
                ways.append([*way, name])
    return shortest


def test_no_files_import_one_another_in_a_circle():
    modules = {module_name(path): path for path in [*FILES, ROOT / "__init__.py"]}
    imports = {name: imported_modules(path.read_text(encoding="utf-8"), name, modules)
               for name, path in modules.items()}
    found = circle_of(imports)
    assert found is None, " → ".join([*found, found[0]])


@pytest.mark.parametrize(("sources", "circle"), [
    ({"a": "from open_seq2seq import b", "b": "import open_seq2seq.c", "c": ""}, None),
    ({"a": "from open_seq2seq import b", "b": "from .a import x"}, ["open_seq2seq.a", "open_seq2seq.b"]),
    ({"a": "if TYPE_CHECKING:\n    from open_seq2seq.c import x", "b": "def f():\n    import open_seq2seq.a",
      "c": "from . import b"}, ["open_seq2seq.a", "open_seq2seq.c", "open_seq2seq.b"]),
])
def test_circles_are_found(sources: dict[str, str], circle: list[str] | None):
    modules = {f"{PACKAGE}.{name}": ROOT / f"{name}.py" for name in sources}
    assert circle_of({f"{PACKAGE}.{name}": imported_modules(source, f"{PACKAGE}.{name}", modules)
                      for name, source in sources.items()}) == circle
