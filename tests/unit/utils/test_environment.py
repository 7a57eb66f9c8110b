"""Limits that are checked, and what the system refuses told in a sentence."""

from __future__ import annotations

import errno
import os
import resource
import sys
import sysconfig

import pytest

from open_seq2seq.utils import environment
from open_seq2seq.utils.environment import check_limits, failing_line, problem_of, scratch_file, with_home
from open_seq2seq.utils.errors import UserError


def test_too_little_address_space_is_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1 << 30, resource.RLIM_INFINITY))
    with pytest.raises(UserError, match=r"1\.00 GiB of address space .*ulimit -v"):
        check_limits()
    for enough in (2 << 30, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, enough=enough: (enough, enough))
        check_limits()


@pytest.mark.parametrize(("error", "words"), [
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "dev.tgt"), "dev.tgt: No such file or directory."),
    (OSError(errno.ENOSPC, "No space left on device"), "The system: No space left on device: free some space."),
    (OSError(errno.EMFILE, "Too many open files", "a"), "ulimit -n"),
    (OSError(errno.EXDEV, "Invalid cross-device link", "a", None, "b"), "a and b: Invalid"),
    (RuntimeError("can't start new thread"), "ulimit -u"),
])
def test_what_the_system_refuses_is_a_sentence(error, words):
    assert words in str(problem_of(error))


@pytest.mark.parametrize("error", [RuntimeError("x"), ValueError("x"), OSError("no number"), TimeoutError()])
def test_other_errors_are_defects(error):
    assert problem_of(error) is None


def test_the_line_is_one_of_a_users_file_even_if_the_package_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1, 1))
    path = tmp_path / "parts.py"
    path.write_text("def run(function):\n    function()\n", encoding="utf-8")
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(UserError) as caught:
        names["run"](check_limits)
    assert failing_line(caught.value) == f"{path}, line 2: "
    caught.value.__traceback__ = caught.value.__traceback__.tb_next.tb_next  # the package alone
    assert failing_line(caught.value) == ""


@pytest.mark.parametrize(("place", "is_users"), [
    (f"{sys.prefix}-project/hooks.py", True), (f"{sys.base_prefix}/src/app/hooks.py", True),
    (f"{environment._PACKAGE}_plugins/hooks.py", True), (f"{environment._PACKAGE}/hooks.py", False),
    (f"{sysconfig.get_path('stdlib')}/hooks.py", False), ("/usr/lib/python3/dist-packages/hooks.py", False)])
def test_code_beside_python_or_the_package_is_the_users(place, is_users):
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("1 / 0", place, "exec"), {})
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # without this test
    assert failing_line(caught.value) == (f"{place}, line 1: " if is_users else "")


@pytest.mark.parametrize(("argument", "expected"), [
    ("--out=~/x", "--out=/home/me/x"), ("--a/b=~/x", "--a/b=/home/me/x"), ("--out=~", "--out=~"),
    ("~/x", "~/x"), ("--out", "--out"),
    ("--out=~/", "--out=/home/me/"), ("--out=~/../x", "--out=/home/me/../x"), ("--out=~/..", "--out=/home/me/.."),
    ("--text=a ~/x", "--text=a ~/x"), ("--remove_characters=~/.,?!", "--remove_characters=~/.,?!")])
def test_the_home_folder_is_put_where_a_shell_leaves_it_out(monkeypatch, argument, expected):
    monkeypatch.setenv("HOME", "/home/me")
    assert with_home(argument) == expected
    with pytest.raises(UserError, match="the home folder ~nobody-of-this-name is not known"):
        with_home("--out=~nobody-of-this-name/x")


def test_a_scratch_file_needs_no_folder(monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    with scratch_file() as file:
        file.write(b"kept")
        file.seek(0)
        assert file.read() == b"kept"
        assert os.fstat(file.fileno()).st_size == 4
