"""The system around the process: limits, system errors as sentences, the home folder."""

from __future__ import annotations

import errno
import os
import resource
import site
import sys
import sysconfig
import tempfile
import traceback
from typing import BinaryIO

from open_seq2seq.utils.errors import UserError

# TensorFlow cannot even be imported with less, and says so in hundreds of lines.
_LEAST_ADDRESS_SPACE = 3 << 29
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = (_PACKAGE, sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *site.getsitepackages())
_HINTS = {
    errno.ENOSPC: "make room there", errno.EDQUOT: "make room within the quota",
    errno.EFBIG: "raise the largest size of files (ulimit -f)",
    errno.EMFILE: "raise the number of open files (ulimit -n)", errno.EACCES: "see to its access rights",
    errno.EROFS: "name a place that can be written", errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "its links lead in a circle",
}


def check_limits() -> None:
    """Raises UserError if a limit is too low to import TensorFlow; to be called before that."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
        raise UserError(f"The process may use {limit / 2**30:.2f} GiB of address space (ulimit -v), but TensorFlow "
                        f"needs {_LEAST_ADDRESS_SPACE / 2**30:g} GiB to start: raise it by ulimit -v unlimited.")


def accept_missing_temporary_folder() -> None:
    """Lets libraries ask for the temporary folder when there is none that can be written.

    Some, such as absl and portalocker, ask for its name when they are imported, and create nothing in it.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = os.devnull  # creating a file below it fails with a message that has this name


def problem_of(error: BaseException) -> str | None:
    """Returns an error of the system as a sentence; None for other errors.

    Missing files, full disks, missing rights and limits are not defects of a program.
    """
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "The system lets the process start no more threads: raise the number of processes (ulimit -u)."
    if isinstance(error, RuntimeError) and str(error) == "Could not determine home directory.":
        return "A path begins with ~, but the home folder is not known: give the path in full."
    if not isinstance(error, OSError) or error.errno is None:
        return None
    names = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    hint = _HINTS.get(error.errno)
    return f"{names or 'The system'}: {error.strerror}{f': {hint}' if hint else ''}."


def failing_line(error: BaseException) -> str:
    """Returns the line of a user's own file that an error comes from, as the beginning of a message; "" without one."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__)
           if not frame.filename.startswith((*_INSTALLED, "<"))]
    return f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""


def with_home(argument: str) -> str:
    """Expands ``--key=~/x`` as shells expand ``--key ~/x``; returns other arguments unchanged.

    Raises:
      UserError: there is no such home folder.
    """
    name, equals, text = argument.partition("=")
    if not equals or not name.startswith("--") or not text.startswith("~") or "/" not in text:
        return argument
    full = os.path.expanduser(text)
    if full == text:
        raise UserError(f"'{argument}': the home folder {text.partition('/')[0]} is not known: give the path in full.")
    return f"{name}={full}"


def scratch_file() -> BinaryIO:
    """Opens a temporary file without a name, in memory if possible, so that no folder needs to be writable."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("open_seq2seq"), "w+b")
    return tempfile.TemporaryFile()  # type: ignore[return-value]
