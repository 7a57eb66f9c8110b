"""House rules that the linters do not know."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "open_seq2seq"
PROGRAMS = sorted(path for folder in ("scripts", "benchmarks", "example_configs") if (REPOSITORY / folder).exists()
                  for path in (REPOSITORY / folder).rglob("*.py"))
SOURCES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 600

# Rooms that serve every task; folders in them that are named for a task are the task's own.
GENERAL = ("cli.py", "config", "optimizers", "runners", "training", "utils", "data/*.py", "models/*.py")
TASKS = ("image2label", "speech2text", "text2label", "text2text")
TASK_WORDS = re.compile(r"speech|audio|transcri|utterance|translat|recogni[sz]er|phoneme|speaker|spoken|"
                        r"\brecordings?\b|\bsentences\b", re.IGNORECASE)
# Modules of a task that lie in a general room, and names that configs give or documentation imports.
OF_TASKS = ("data/__init__.py", "models/__init__.py", "inference/trained_model.py", "cli.py", "config/old_names.py",
            "config/original_defaults.py")
TASK_NAMES = {("data/data_layer.py", "sentences"), ("data/data_layer.py", "utterances"),
              ("data/data_layer.py", "Unit of the batch size: sentences, or tokens of the longer side, padding "
                                     "included."),
              ("data/contiguous.py", "sentences"),
              ("training/loop/summaries.py", "recording")}  # what a context manager of TensorBoard does

# What TensorFlow no longer offers, or does not promise to keep.
BANNED = re.compile(r"""
    tf\.compat\.v1 | tensorflow\.compat\.v1 | tf\.contrib | tensorflow\.contrib
  | tensorflow_addons | \btf_keras\b | tensorflow_text
  | (?:import|from)\s+tensorflow\.python | (?:import|from)\s+keras\.src
""", re.VERBOSE)
ALLOWED = {
    # The one documented way to ask which graph is being built.
    ("parts/precision.py", "tf.compat.v1.get_default_graph"),
    # Names of initialisers that configs may contain, and the names of TensorFlow 1 in old configs.
    ("parts/initializers.py", "tf.compat.v1"), ("config/serialize.py", "tf.compat.v1"),
    ("config/old_names.py", "tf.contrib"), ("config/old_names.py", "tf.compat.v1"),
    ("config/old_names.py", "tensorflow.compat.v1"), ("config/old_names.py", "tensorflow.contrib"),
    # SentencePiece in exported models; not a dependency.
    ("export/sentencepiece.py", "tensorflow_text"), ("export/outside.py", "tensorflow_text"),
    ("export/export.py", "tensorflow_text"),
    # Nothing public frees the graph of a function; without these modules, it remains in memory.
    ("utils/graphs.py", "from tensorflow.python.framework import func_graph, ops"),
    # Nothing public returns the graph of a function after its optimisation.
    ("benchmarks/launches.py", "from tensorflow.python.eager import context"),
}


def relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def banned_lines(text: str, name: str) -> list[str]:
    """Lines of code (comments left out) that name a banned module."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("#", 1)[0]
        for file_name, use in ALLOWED:
            code = code.replace(use, "") if name.endswith(file_name) else code
        if BANNED.search(code):
            found.append(f"{name}:{number}: {line.strip()}")
    return found


def test_only_supported_tensorflow():
    assert [line for path in SOURCES + PROGRAMS
            for line in banned_lines(path.read_text(encoding="utf-8"), relative(path))] == []


@pytest.mark.parametrize("line", [
    "x = tf.compat.v1.placeholder()", "from tensorflow.python.ops import array_ops", "import tensorflow_addons as tfa",
    "opt = tf.contrib.opt.LazyAdamOptimizer", "from keras.src.layers import Layer",
])
def test_banned_modules_are_found(line: str):
    assert banned_lines(line, "open_seq2seq/parts/precision.py")


def test_files_are_short():
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES + PROGRAMS}
    assert {name: number for name, number in lines.items() if number > MAX_LINES} == {}, "split these"


def class_definitions(trees: list[ast.Module]) -> list[ast.ClassDef]:
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def methods(cls: ast.ClassDef) -> set[str]:
    return {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}


def properties(cls: ast.ClassDef) -> set[str]:
    return {node.name for node in cls.body if isinstance(node, ast.FunctionDef)
            and "property" in map(ast.unparse, node.decorator_list)}


def base_names(cls: ast.ClassDef) -> set[str]:
    return {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in cls.bases}


def all_methods(cls: ast.ClassDef, classes: list[ast.ClassDef]) -> set[str]:
    """The methods of a class and of its base classes."""
    bases = [other for other in classes if other.name in base_names(cls) and other is not cls]
    return methods(cls).union(*(all_methods(base, classes) for base in bases))


def inherits(cls: ast.ClassDef, method: str, classes: list[ast.ClassDef]) -> bool:
    """Whether a base class, or a protocol that the class fulfils, has the method: its docstring then holds."""
    for parent in classes:
        if parent.name in base_names(cls) and parent is not cls:
            if method in methods(parent) or inherits(parent, method, classes):
                return True
        called = methods(parent) - properties(parent)  # what a protocol has as a property may be an attribute
        if "Protocol" in base_names(parent) and method in called <= all_methods(cls, classes):
            return True
    return False


def undocumented(tree: ast.Module, classes: list[ast.ClassDef]) -> list[str]:
    """Public classes, functions and methods without a docstring."""
    missing = []
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            missing.append(node.name)
        if isinstance(node, ast.ClassDef):
            missing += [f"{node.name}.{method.name}" for method in node.body
                        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
                        and "overload" not in map(ast.unparse, method.decorator_list)
                        and not ast.get_docstring(method) and not inherits(node, method.name, classes)]
    return missing


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def test_public_names_are_documented(trees: dict[Path, ast.Module]):
    classes = class_definitions(list(trees.values()))
    assert [f"{relative(path)}: {name}" for path, tree in trees.items() for name in undocumented(tree, classes)] == []


def test_undocumented_names_are_found():
    tree = ast.parse('class A:\n    "Doc."\n    def f(self): pass\n    def _g(self): pass\n'
                     'class B(A):\n    "Doc."\n    def f(self): pass\n    def h(self): pass\ndef k(): pass\n')
    assert undocumented(tree, class_definitions([tree])) == ["A.f", "B.h", "k"]


def docstrings(tree: ast.AST) -> set[int]:
    """The ids of the strings that stand for themselves."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named_in(tree: ast.Module) -> list[str]:
    """What a file defines, imports from the package, and says: names, and strings other than docstrings."""
    found, left_out = [], docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, ast.arg):
            found.append(node.arg)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.append(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            found.append(node.value)
    return found


def general_files() -> list[Path]:
    files = [path for place in GENERAL for path in (PACKAGE.glob(place) if "." in place else
                                                    (PACKAGE / place).rglob("*.py"))]
    return sorted(path for path in files if str(path.relative_to(PACKAGE)) not in OF_TASKS
                  and not set(path.relative_to(PACKAGE).parts[:-1]) & set(TASKS))


def test_general_rooms_name_no_task(trees: dict[Path, ast.Module]):
    names = [(str(path.relative_to(PACKAGE)), text) for path in general_files() for text in named_in(trees[path])]
    assert [pair for pair in names if TASK_WORDS.search(pair[1]) and pair not in TASK_NAMES] == []


@pytest.mark.parametrize("line", [
    "def read_audio(): pass", "def f(speech_file): pass", "transcripts = 1", "self.audio = 1", "print('No recording.')",
    "from open_seq2seq.data.speech2text.audio_files import AudioError",
])
def test_names_of_tasks_are_found(line: str):
    assert any(TASK_WORDS.search(text) for text in named_in(ast.parse(line)))


def test_docstrings_may_give_examples():
    assert not any(TASK_WORDS.search(text) for text in named_in(ast.parse(
        'def sound():\n    "Writes speech."\n    tf.summary.audio(name)')))
