"""Outputs that get their names when they are whole."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import (
    MARK,
    OutputFiles,
    beside,
    check_new_folder,
    check_no_input,
    check_output_file,
    new_folder,
)

WRITER = """
import sys, time
from pathlib import Path
from open_seq2seq.utils.output_file import OutputFiles
with OutputFiles() as outputs:
    file = outputs.open(sys.argv[1] + "/out.txt")
    file.write("half"); file.flush()
    folder = outputs.folder(sys.argv[1] + "/waves")
    (folder / "one.wav").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def killed_while_writing(folder) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with pytest.raises(UserError, match=r"out.txt is being written by another process"), OutputFiles() as outputs:
        outputs.open(f"{folder}/out.txt")
    with pytest.raises(UserError, match=r"waves is being written by another process"), OutputFiles() as outputs:
        outputs.folder(f"{folder}/waves")
    process.send_signal(signal.SIGKILL)
    process.wait()


def written(folder, text: str) -> None:
    with OutputFiles() as outputs:
        outputs.open(f"{folder}/out.txt").write(text)
        (outputs.folder(f"{folder}/waves") / "two.wav").write_text(text)
        assert len(list(folder.glob(".tmp-*"))) == 2


@pytest.mark.parametrize("before", [False, True])
def test_a_killed_process_leaves_the_old_output_or_none_and_the_next_one_cleans_up(tmp_path, before):
    if before:
        written(tmp_path, "old")
    killed_while_writing(tmp_path)
    assert (tmp_path / "out.txt").exists() == (tmp_path / "waves").exists() == before
    if before:
        assert (tmp_path / "out.txt").read_text() == (tmp_path / "waves/two.wav").read_text() == "old"
    written(tmp_path, "new")
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "waves"}
    assert (tmp_path / "out.txt").read_text() == "new"
    assert {path.name for path in (tmp_path / "waves").iterdir()} == {MARK, "two.wav"}
    assert (tmp_path / "waves/two.wav").read_text() == "new"


def test_after_an_error_everything_is_as_before(tmp_path):
    written(tmp_path, "old")
    with pytest.raises(ZeroDivisionError), OutputFiles() as outputs:
        outputs.open(f"{tmp_path}/out.txt").write("x" * 100_000)
        outputs.open(f"{tmp_path}/other/out.bin", "wb").write(b"x")
        (outputs.folder(f"{tmp_path}/waves") / "two.wav").write_text("x")
        _ = 1 / 0
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "waves", "other"}
    assert not list((tmp_path / "other").iterdir())
    assert (tmp_path / "out.txt").read_text() == (tmp_path / "waves/two.wav").read_text() == "old"


def test_a_folder_of_somebody_else_is_never_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/diary.txt").write_text("dear")
    for name in ("mine", "mine/diary.txt"):
        with pytest.raises(UserError, match=name), OutputFiles() as outputs:
            outputs.folder(f"{tmp_path}/{name}")
    with pytest.raises(UserError, match="which is a folder"), OutputFiles() as outputs:
        outputs.open(f"{tmp_path}/mine")
    assert (tmp_path / "mine/diary.txt").read_text() == "dear"
    (tmp_path / "empty").mkdir()
    with OutputFiles() as outputs:
        outputs.folder(f"{tmp_path}/empty")
    assert (tmp_path / "empty" / MARK).is_file()


@pytest.mark.parametrize("change", ["notes", "a changed file", "a link", "another mark"])
def test_a_folder_of_results_with_anything_of_the_users_is_never_replaced(tmp_path, change):
    written(tmp_path, "old")
    folder = tmp_path / "waves"
    if change == "notes":
        (folder / "notes.txt").write_text("mine")
    elif change == "a changed file":
        (folder / "two.wav").write_text("mine")
    elif change == "a link":
        (folder / "more").symlink_to(tmp_path)
    else:
        (folder / MARK).write_text("mine")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(UserError, match="did not write"), OutputFiles() as outputs:
        outputs.folder(str(folder))
    with pytest.raises(UserError, match="which is a folder"):
        check_output_file(str(folder))
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_what_appears_while_results_are_written_stays(tmp_path, capsys):
    """The work is not lost over it either."""
    written(tmp_path, "old")
    with OutputFiles() as outputs:
        (outputs.folder(f"{tmp_path}/waves") / "two.wav").write_text("new")
        (tmp_path / "waves/notes.txt").write_text("mine")
    assert (tmp_path / "waves/two.wav").read_text() == "new"
    assert (tmp_path / "waves.aside/notes.txt").read_text() == "mine"
    assert "renamed to waves.aside" in capsys.readouterr().out


def temporary_of(folder, name: str):
    """The path at which results are written until they are whole."""
    with OutputFiles() as outputs:
        outputs.open(f"{folder}/{name}")
        return next(folder.glob(".tmp-*"))


@pytest.mark.parametrize("way", ["a link", "a pipe"])
def test_where_results_are_written_until_they_are_whole_no_link_is_followed(tmp_path, way):
    place = temporary_of(tmp_path, "out.txt")
    (tmp_path / "out.txt").unlink()
    (tmp_path / "mine").write_text("mine")
    if way == "a pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "mine")
    for _ in range(2):
        with pytest.raises(UserError, match="cannot be written"), OutputFiles() as outputs:
            outputs.open(f"{tmp_path}/out.txt")
    assert (tmp_path / "mine").read_text() == "mine" and not (tmp_path / "out.txt").exists()


def test_no_output_is_an_input(tmp_path):
    (tmp_path / "text").write_text("mine")
    (tmp_path / "link").symlink_to("text")
    os.link(tmp_path / "text", tmp_path / "other")
    for name in ("text", "link", "other"):
        with pytest.raises(UserError, match="the same file as the input .*: choose another output file"):
            check_no_input([None, str(tmp_path / name)], [None, str(tmp_path / "missing"), str(tmp_path / "text")])
    check_no_input([str(tmp_path / "new"), "/dev/null", "/dev/null"], [str(tmp_path / "text"), "/dev/stdin"])
    with pytest.raises(UserError, match="Two outputs would be the same file, .*/new"):
        check_no_input([str(tmp_path / "new"), None, f"{tmp_path}/./new"], [])


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/target.txt").write_text("old")
    (tmp_path / "there/target.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("there/target.txt")
    (tmp_path / "dangling.txt").symlink_to("there/new.txt")
    with OutputFiles() as outputs:
        outputs.open(f"{tmp_path}/link.txt").write("new")
        outputs.open(f"{tmp_path}/dangling.txt").write("new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "dangling.txt").is_symlink()
    assert (tmp_path / "there/target.txt").read_text() == (tmp_path / "there/new.txt").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "there/target.txt").stat().st_mode) == 0o640
    assert len(list((tmp_path / "there").iterdir())) == 2


def test_a_pipe_gets_lines_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    lines: list[str] = []

    def read() -> None:
        with open(tmp_path / "pipe", encoding="utf-8") as pipe:
            lines.extend(pipe)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with OutputFiles() as outputs:
        outputs.open(f"{tmp_path}/pipe").write("one\n")
        deadline = time.monotonic() + 60
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
        assert lines == ["one\n"]
    reader.join(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"] and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    with pytest.raises(UserError, match="cannot be put next to it"):
        beside(f"{tmp_path}/pipe", ".words.csv")
    with OutputFiles() as outputs:
        outputs.open("/dev/null").write("nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("into_file", [False, True])
def test_results_go_to_stdout_among_what_is_printed(tmp_path, into_file):
    program = ("from open_seq2seq.utils.output_file import OutputFiles\n"
               "print('before', flush=True)\n"
               "with OutputFiles() as outputs: outputs.open('/dev/stdout').write('result\\n')\n"
               "print('after', flush=True)\n")
    with open(tmp_path / "log", "w+", encoding="utf-8") as log:
        done = subprocess.run([sys.executable, "-c", program], stdout=log if into_file else subprocess.PIPE, check=True,
                              text=True)
    printed = (tmp_path / "log").read_text() if into_file else done.stdout
    assert printed == "before\nresult\nafter\n"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_stdout_may_be_a_file_that_only_another_user_may_open(monkeypatch, capfd):
    monkeypatch.setattr(os, "access", lambda *_: False)
    check_output_file("/dev/stdout")
    with pytest.raises(UserError, match="cannot be written"):
        check_output_file("out.txt")


def test_a_full_disk_is_said_in_one_sentence():
    with pytest.raises(UserError, match="cannot be written to /dev/full: No space left"), OutputFiles() as outputs:
        outputs.open("/dev/full", "wb").write(b"x")


def test_long_names_have_room_for_a_temporary_one(tmp_path):
    name = "ä" * 125
    with OutputFiles() as outputs:
        outputs.open(f"{tmp_path}/{name}").write("x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_check_before_the_work_knows_of_folders_of_results_and_of_links(tmp_path):
    with OutputFiles() as outputs:
        outputs.folder(f"{tmp_path}/waves")
    check_output_file(f"{tmp_path}/waves")
    (tmp_path / "link").symlink_to("nowhere/out.txt")
    check_output_file(f"{tmp_path}/link")
    check_output_file("/dev/null")
    with pytest.raises(UserError, match="which is a folder"):
        check_output_file(str(tmp_path))


def test_a_folder_of_a_script_appears_when_it_is_complete(tmp_path):
    place = tmp_path / "new" / "out"
    for _ in range(2):
        with new_folder(str(place)) as folder:
            (Path(folder) / "sub").mkdir()
            (Path(folder) / "sub" / "a").write_text("content")
            assert not place.exists() or not list(place.iterdir())
        assert (place / "sub" / "a").read_text() == "content" and [p.name for p in place.parent.iterdir()] == ["out"]
        (place / "sub" / "a").unlink()
        (place / "sub").rmdir()  # an empty folder is used


@pytest.mark.parametrize(("error", "kind", "words"), [
    (OSError(28, "No space left"), UserError, "out cannot be written: No space left"), (ValueError(), ValueError, None),
    (KeyboardInterrupt(), KeyboardInterrupt, None),
])
def test_nothing_remains_of_a_folder_after_an_error(tmp_path, error, kind, words):
    with pytest.raises(kind, match=words), new_folder(str(tmp_path / "out")) as folder:
        (Path(folder) / "a").write_text("half")
        raise error
    assert not list(tmp_path.iterdir())


def test_a_script_keeps_an_existing_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(UserError, match="exists already and is not overwritten: choose another --output_dir"):
        check_new_folder(str(tmp_path / "out"))
    for name, words in (("mine", "mine, which is a file, not a folder"), ("mine/x", "mine is a file, not a folder")):
        with pytest.raises(UserError, match=words):
            check_new_folder(str(tmp_path / "out" / name))
    with pytest.raises(UserError, match="--output_dir is empty"), new_folder(""):
        pass
    with pytest.raises(UserError), new_folder(str(tmp_path / "out")):
        pass
    assert (tmp_path / "out" / "mine").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
