"""Whatever is in the way, and whenever a process is killed: the user's files do not change."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from open_seq2seq.utils import disk
from open_seq2seq.utils.disk import ForeignError, ListedFolder
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import OutputFiles

OURS = b"ours:"


def is_ours(file) -> bool:
    return file.read(len(OURS)) == OURS


def files_of(folder: Path) -> list[str] | None:
    """Recognises folders of this package by a list that names their files."""
    return (folder / "list").read_text().split() + ["list"] if (folder / "list").is_file() else None


def write_folder(place: Path, text: str) -> None:
    with disk.new_folder(place, files_of) as folder:
        (folder / "sub").mkdir()
        for name in ("data", "sub/more"):
            disk.write_new(folder / name, text)
        disk.write_new(folder / "list", "data sub/more")


def write_file(place: Path) -> None:
    with disk.writing(place, is_ours) as file:
        file.write(OURS)


def put_listed(place: Path) -> None:
    with ListedFolder(place.parent, "list.json").putting(place.name) as path:
        path.write_text("ours")


def tree(folder: Path) -> dict[str, str | bytes]:
    """Returns everything below a folder, including links and pipes."""
    entries: dict[str, str | bytes] = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        entries[str(path.relative_to(folder))] = (
            path.read_bytes() if stat.S_ISREG(mode) else f"{stat.S_IFMT(mode)} "
            + (os.readlink(path) if path.is_symlink() else ""))
    return entries


# What may be in the place of a file: each is a user's own.
IN_THE_WAY: dict[str, Callable[[Path, Path], object]] = {
    "a link to a file": lambda place, victim: place.symlink_to(victim / "file"),
    "a link to nothing": lambda place, victim: place.symlink_to(victim / "new"),
    "a link to a folder": lambda place, victim: place.symlink_to(victim),
    "a pipe": lambda place, victim: os.mkfifo(place),
    "a folder": lambda place, victim: place.mkdir(),
    "a file": lambda place, victim: place.write_text("mine"),
    "a hard link": lambda place, victim: os.link(victim / "file", place),
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("precious")
    (folder / "list").write_text("file")
    return folder


@pytest.fixture
def work(tmp_path: Path, victim: Path) -> Iterator[Path]:
    """A folder to write in; what is beside it must not change."""
    (tmp_path / "work").mkdir()
    before = tree(victim)
    yield tmp_path / "work"
    assert tree(victim) == before


@pytest.mark.parametrize("write", [write_file, put_listed, lambda place: disk.append(place, "row\n", is_ours),
                                   lambda place: disk.open_lock(place, lambda file: file.read() == b"")])
@pytest.mark.parametrize("way", IN_THE_WAY)
def test_what_no_run_has_created_is_not_replaced(work, victim, way, write):
    IN_THE_WAY[way](work / "file", victim)
    before = tree(work)
    with pytest.raises(ForeignError) as error:
        write(work / "file")
    assert error.value.strerror and error.value.filename == str(work / "file")
    assert tree(work) == before


@pytest.mark.parametrize("way", IN_THE_WAY)
def test_a_folder_takes_its_place_without_harm(work, victim, way, capsys):
    IN_THE_WAY[way](work / "run", victim)
    before = tree(work)["run"]
    write_folder(work / "run", "new")
    assert (work / "run/data").read_text() == "new"
    assert {path.name for path in work.iterdir()} == {"run", "run.aside"}
    assert tree(work)["run.aside"] == before and "renamed to run.aside" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["folder", "list"])
def test_a_list_is_not_written_through_links(work, victim, what):
    if what == "folder":
        (work / "made").symlink_to(victim)
    else:
        (work / "made").mkdir()
        (work / "made/list").symlink_to(victim / "list")
    with pytest.raises(ForeignError), ListedFolder(work / "made", "list").putting("data") as path:
        path.write_text("ours")
    assert not (victim / "data").exists()


def test_a_listed_file_that_was_changed_is_the_users(work):
    listed = ListedFolder(work / "made", "list.json")
    for name in ("step-1/a", "step-1/b", "step-2/a"):
        with listed.putting(name) as path:
            path.write_text(name)
    (work / "made/step-1/b").write_text("worked on")
    (work / "made/step-2/notes").write_text("mine")
    again = ListedFolder(work / "made", "list.json")
    with pytest.raises(ForeignError), again.putting("step-1/b") as path:
        path.write_text("new")
    with again.putting("step-2/a") as path:
        path.write_text("new")
    again.remove(["step-1/a", "step-1/b", "step-2/a", "../made/step-2/notes"])
    assert {name for name, value in tree(work / "made").items() if isinstance(value, bytes)} == {
        "step-1/b", "step-2/notes", "list.json"}
    assert again.names == []


def test_a_file_is_complete_or_as_before(work):
    write_file(work / "file")
    os.link(work / "file", work / "copy")
    with pytest.raises(ZeroDivisionError), disk.writing(work / "file", is_ours) as file:
        file.write(OURS + b"half")
        _ = 1 / 0
    assert (work / "file").read_bytes() == OURS
    with disk.writing(work / "file", is_ours, durable=True) as file:
        file.write(OURS + b"2")
    assert (work / "file").read_bytes() == OURS + b"2" and (work / "copy").read_bytes() == OURS
    assert set(tree(work)) == {"file", "copy"}


def test_an_incomplete_last_line_is_replaced(work):
    for lines in ("ours: 1\n", "ours: 1\n" * 10_000):
        for rest in ("", "2", "\0" * 30_000):
            (work / "file").write_text(lines + rest)
            disk.append(work / "file", "3\n", is_ours)
            assert (work / "file").read_text() == lines + "3\n"


def test_files_of_the_user_in_a_folder_outlive_it(work, victim, capsys):
    def add() -> None:
        (work / "run/notes").write_text("mine")
        (work / "run/sub/link").symlink_to(victim / "file")
        (work / "run/data").unlink()
        (work / "run/data").symlink_to(victim / "file")

    write_folder(work / "run", "old")
    add()
    disk.remove_folder(work / "run", files_of(work / "run") or [])
    assert set(tree(work)) == {"run", "run/notes", "run/sub", "run/sub/link", "run/data"}
    (work / "run").rename(work / "first")
    write_folder(work / "run", "old")
    add()
    before = {f"run.aside/{name}": content for name, content in tree(work / "run").items()}
    write_folder(work / "run", "new")
    assert (work / "run/data").read_text() == "new" and before.items() <= tree(work).items()
    assert "renamed to run.aside" in capsys.readouterr().out
    assert {path.name for path in work.iterdir()} == {"first", "run", "run.aside"}


@pytest.mark.parametrize("name", ["../victim/file", "/etc/hostname", "sub/../../victim/file", "link/file", "", "\0"])
def test_no_listed_name_leads_out_of_a_folder(work, victim, name):
    (work / "run/sub").mkdir(parents=True)
    (work / "run/link").symlink_to(victim)
    disk.remove_folder(work / "run", [name])
    assert (victim / "file").read_text() == "precious" and (work / "run/link").is_symlink()


class Killed(BaseException):
    """Ends a function as a kill does: nothing is cleaned up."""


CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "open")


def killed_after(count: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> bool:
    """Runs something until it has made that many changes of the disk; returns whether it was killed there."""
    changes = [0]

    def counted(call):
        def replacement(*args, **kwargs):
            if changes[0] >= count:
                raise Killed
            changes[0] += 1
            return call(*args, **kwargs)
        return replacement

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            action()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("action", ["new", "replace", "remove"])
def test_killed_at_any_moment(work, monkeypatch, action):
    """The folder is the old one, the new one or missing; the next process leaves nothing incomplete behind."""
    killed, count = True, 0
    while killed:
        base = work / str(count)
        (base / ".tmp-notes").mkdir(parents=True)
        (base / ".tmp-notes/diary").write_text("dear")
        if action != "new":
            write_folder(base / "run", "old")
        killed = killed_after(count, monkeypatch, lambda place=base / "run": (
            disk.remove_folder(place, files_of(place) or []) if action == "remove" else write_folder(place, "new")))
        if (base / "run").exists():
            assert len({(base / "run" / name).read_text() for name in ("data", "sub/more")}) == 1
        disk.remove_unfinished(base)
        assert (base / ".tmp-notes/diary").read_text() == "dear"
        assert {path.name for path in base.iterdir()} <= {"run", ".tmp-notes"}
        count += 1
    assert count > 5


def test_what_only_looks_unfinished_is_the_users(work, victim):
    """A name of another form, or a link. A library's files in an unfinished folder are removed, but through no link."""
    for name in (".tmp-0", f".tmp-{'0' * 16}", f".tmp-{'0' * 16}.newer", f".tmp-{'G' * 16}.new", ".tmp-notes.json"):
        (work / name).mkdir()
        (work / name / "notes").write_text("mine")
    (work / f".tmp-{'1' * 16}.new").symlink_to(victim)
    before = tree(work)
    (work / f".tmp-{'2' * 16}.new/assets").mkdir(parents=True)
    (work / f".tmp-{'2' * 16}.new/.tmpaB3xYz").write_text("half")
    (work / f".tmp-{'2' * 16}.new/more").symlink_to(victim)
    disk.remove_unfinished(work)
    assert tree(work) == before


def test_what_another_process_writes_is_left_alone(work):
    with disk.new_folder(work / "run", files_of) as folder, disk.placing(work / "new.json", is_ours) as file:
        (folder / "data").write_text("half")
        disk.remove_unfinished(work)
        assert (folder / "data").exists() and file.exists() and file.suffix == ".json"
    assert set(tree(work)) == {"run", "run/data", "new.json"}


def test_what_was_changed_lately_may_belong_to_another_machine(work):
    for name in ("1" * 16, "2" * 16):
        (work / f".tmp-{name}.new").write_text("half")
    os.utime(work / f".tmp-{'1' * 16}.new", (0, 0))
    disk.remove_unfinished(work, before=time.time() - 60)
    assert set(tree(work)) == {f".tmp-{'2' * 16}.new"}


@contextlib.contextmanager
def full_disk() -> Iterator[list[object]]:
    """Lets every write fail, as on a full disk; yields a list of errors that nobody could report."""
    unreported: list[object] = []
    limit, hook = resource.getrlimit(resource.RLIMIT_FSIZE), sys.unraisablehook
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    sys.unraisablehook = unreported.append
    try:
        yield unreported
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        gc.collect()
        sys.unraisablehook = hook


def write_output(place: Path, length: int = 100_000) -> None:
    with OutputFiles() as outputs:
        outputs.open(str(place)).write("x" * length)


def append_row(place: Path) -> None:
    with open(place, "wb"):
        pass
    disk.append(place, "row", disk.always)


WRITES = {"writing": write_file, "append": append_row, "output file": write_output,
          "short output file": lambda place: write_output(place, 1),
          "write_new": lambda place: disk.write_new(place, "text"),
          "copy_new": lambda place: disk.copy_new(__file__, place),
          "new_folder": lambda place: write_folder(place, "new")}


@pytest.mark.parametrize("way", WRITES)
def test_a_full_disk_is_reported_with_the_file_and_leaves_nothing_in_the_way(work, way):
    with full_disk() as unreported, pytest.raises((OSError, UserError)) as error:
        WRITES[way](work / "place")
    assert unreported == [] and str(work) in str(error.value)
    assert set(tree(work)) <= {"place"}
    (work / "place").unlink(missing_ok=True)
    WRITES[way](work / "place")
    assert (work / "place").exists()
