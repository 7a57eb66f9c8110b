"""Nothing in the package deletes, replaces or writes a file but through ``utils.disk``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PACKAGE = REPOSITORY / "open_seq2seq"
HOME = PACKAGE / "utils" / "disk.py"
FILES = sorted(path for folder in (PACKAGE, REPOSITORY / "scripts") for path in folder.rglob("*.py")
               if path != HOME)

OF_MODULES = {
    "os": {"remove", "unlink", "rename", "renames", "replace", "rmdir", "removedirs", "truncate", "ftruncate", "link",
           "symlink", "mkfifo", "mknod", "sendfile", "copy_file_range", "posix_fallocate", "pwrite"},
    "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree", "make_archive", "unpack_archive"},
    "tempfile": {"mkstemp", "NamedTemporaryFile", "mktemp"},
    "np": {"savetxt"}, "tarfile": {"extractall"},
}
OF_PATHS = {"unlink", "rmdir", "rename", "write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "truncate",
            "tofile", "extractall", "create_file_writer", "save_file", "FileHandler"}
# Functions that take a name or an open file; for writing they have to be given a file, which is one of ``utils.disk``.
OF_NUMPY = {"savez", "savez_compressed", "save", "memmap"}
BY_NAME = {*OF_NUMPY, "write_file", "ZipFile", "GzipFile"}
WRITING = set("wa+")  # and not "x", which changes no file that exists
DESCRIPTORS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}

# What cannot go through it, and why nothing is lost by that.
ALLOWED = {
    ("training/loop/summaries.py", "create_file_writer"): "TensorFlow opens it; its name has the time, the host "
                                                          "and the process's number",
    ("checkpoints/writing.py", "save_file"): "safetensors opens it, in a folder that utils.disk has just made",
    ("checkpoints/kept_files.py", "copyfile"): "into a new file of utils.disk",
    ("decoding/ctc/logits_file.py", "open"): "a member of an archive that is open",
    ("report/packing.py", "open"): "a member of an archive that utils.disk has opened",
    ("utils/console.py", "open"): "/dev/null",
    ("export/conversion.py", "write_bytes"): "a program without this package, in its caller's temporary folder",
    ("export/outside.py", "extractall"): "a program without this package, in its own temporary folder",
}


def mode_of(call: ast.Call, position: int) -> str | None:
    """The mode that a call of ``open`` has; None where it is not written there."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] + call.args[position:position + 1]
    if not given:
        return "r"
    return given[0].value if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else None


def name_of(call: ast.Call) -> tuple[str, str]:
    """(what stands before the last dot, what stands behind it)."""
    if isinstance(call.func, ast.Attribute):
        before = call.func.value
        return before.id if isinstance(before, ast.Name) else "?", call.func.attr
    return "", call.func.id if isinstance(call.func, ast.Name) else ""


def writes(call: ast.Call) -> bool:
    """Whether a call may delete, replace or write a file by its name."""
    module, name = name_of(call)
    if module in ("disk", "outputs") or module == "?" and isinstance(call.func, ast.Attribute) \
            and isinstance(call.func.value, ast.Attribute) and call.func.value.attr in ("outputs", "_listed"):
        return False
    if name in OF_MODULES.get(module, ()) or name in OF_PATHS:
        return True
    if name == "replace" and module and len(call.args) == 1 and not call.keywords:  # of str it has two
        return True
    if name == "open" and module == "os":
        return bool(DESCRIPTORS & {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)})
    if name == "open" and module in ("", "io", "gzip", "bz2", "lzma", "codecs"):
        mode = mode_of(call, 1)
        return mode is None or bool(WRITING & set(mode))
    if name == "open":  # a method: of a path the mode comes first
        modes = {mode_of(call, position) or "" for position in (0, 1)}
        return any(WRITING & set(mode) for mode in modes if set(mode) <= set("rwaxbt+"))
    if name == "write" and module == "soundfile" or name in BY_NAME and (module == "np") == (name in OF_NUMPY):
        modes = [arg.value for arg in call.args[1:] if isinstance(arg, ast.Constant)]
        reads = name in ("ZipFile", "memmap") and not any(WRITING & set(str(mode)) for mode in modes)
        target = call.args[0] if call.args else None
        into_file = isinstance(target, ast.Name) and target.id in ("file", "out", "content") or any(
            keyword.arg == "fileobj" for keyword in call.keywords)
        return not (reads or into_file)
    return False


def found_in(source: str) -> Iterator[tuple[int, str]]:
    """Yields (line, function) of the calls in a source that may delete, replace or write a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and writes(node):
            yield node.lineno, name_of(node)[1]
        elif isinstance(node, ast.ImportFrom) and node.module in OF_MODULES and node.module != "np":
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in OF_MODULES[node.module])


def test_files_are_written_and_deleted_in_one_place():
    places = {str(path.relative_to(PACKAGE if PACKAGE in path.parents else REPOSITORY)): path for path in FILES}
    found = [f"{place}:{line}: {name}" for place, path in places.items()
             for line, name in found_in(path.read_text(encoding="utf-8")) if (place, name) not in ALLOWED]
    assert found == [], "these go through utils.disk"


def test_what_is_allowed_is_used():
    used = {(str(path.relative_to(PACKAGE)), name) for path in FILES if PACKAGE in path.parents
            for _, name in found_in(path.read_text(encoding="utf-8"))}
    assert set(ALLOWED) <= used


@pytest.mark.parametrize("line", [
    "os.remove(x)", "os.replace(a, b)", "shutil.rmtree(x, ignore_errors=True)", "path.unlink(missing_ok=True)",
    "path.with_name('x').rename(y)", "temporary.replace(path)", "(folder / 'x').write_text('y')", "open(x, 'w')",
    "open(x, mode='ab')", "open(x, 'r+b')", "open(x, some_mode)", "path.open('w')", "os.open(x, os.O_RDWR | flags)",
    "gzip.open(path, mode + 't')", "np.save(path, array)", "np.savez(folder / 'x', a=b)", "soundfile.write(path, x, 8)",
    "zipfile.ZipFile(path, 'w')", "np.memmap(path, dtype, 'w+')", "from shutil import rmtree", "from os import unlink",
    "tempfile.NamedTemporaryFile(dir=x, delete=False)", "shutil.move(a, b)", "array.tofile(path)", "os.link(a, b)",
])
def test_what_writes_is_found(line: str):
    assert list(found_in(line))


@pytest.mark.parametrize("line", [
    "open(x)", "open(x, 'rb')", "open(x, 'xb')", "open(x, encoding='utf-8')", "text.replace('a', 'b')", "path.open()",
    "np.load(path)",
    "dataclasses.replace(spec, params={})", "os.open(x, os.O_RDONLY)", "disk.write_new(path, text)",
    "np.save(file, array)", "zipfile.ZipFile(file)", "np.memmap(path, np.uint8, 'r')", "outputs.open(path, 'wb')",
    "self.outputs.open(path, 'wb')", "gzip.open(path, 'rt')", "tempfile.TemporaryDirectory()",
])
def test_what_reads_is_let_through(line: str):
    assert not list(found_in(line))
