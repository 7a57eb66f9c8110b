"""The process's environment: limits, messages for system errors, the home folder, temporary files."""

from __future__ import annotations

import errno
import os
import re
import sysconfig
import tempfile
import traceback
from typing import BinaryIO

from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.posix import resource

# Bytes (1.5 GiB). With less address space, importing TensorFlow fails with hundreds of lines of errors.
_LEAST_ADDRESS_SPACE = 3 << 29
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Files of the package, of Python, and of other packages, at any place.
_NOT_USERS = re.compile(rf"(<|{re.escape(_PACKAGE)}[/\\]|{re.escape(sysconfig.get_path('stdlib'))}[/\\]"
                        r"|.*[/\\](site|dist)-packages[/\\])")
_HINTS = {
    errno.ENOSPC: "free some space", errno.EDQUOT: "free some space within the quota",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)", errno.EACCES: "check the access rights",
    errno.EROFS: "choose a path that can be written", errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its symbolic links form a cycle",
}


def check_limits() -> None:
    """Raises UserError if the limit of the address space is too low for importing TensorFlow."""
    if resource is None:
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
        raise UserError(f"The process may use {limit / 2**30:.2f} GiB of address space (ulimit -v), but TensorFlow "
                        f"needs {_LEAST_ADDRESS_SPACE / 2**30:g} GiB to start: run ulimit -v unlimited.")


def accept_missing_temporary_folder() -> None:
    """Prevents import errors of libraries if no temporary folder is writable.

    Some libraries, such as absl and portalocker, look up the temporary folder when they are imported, but create
    nothing in it.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = os.devnull  # creating a file below /dev/null fails with an error that names this path


def problem_of(error: BaseException) -> str | None:
    """Returns the message for a system error; None for other errors.

    System errors, such as missing files, full disks and missing access rights, are not bugs of the toolkit.
    """
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "The process cannot start more threads: raise the limit of processes (ulimit -u)."
    if isinstance(error, RuntimeError) and str(error) == "Could not determine home directory.":
        return "A path begins with ~, but the home folder is not known: give the full path."
    if not isinstance(error, OSError) or error.errno is None:
        return None
    names = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    hint = _HINTS.get(error.errno)
    return f"{names or 'The system'}: {error.strerror}{f': {hint}' if hint else ''}."


def problem_in(text: str) -> str | None:
    """Returns the message for a system error that TensorFlow reports as text; None for other texts.

    An example is ``x.png; No space left on device [Op:WriteFile]``.
    """
    match = re.fullmatch(r"(?:\{\{.*\}\} )?(.*); (.*?)(?: \[Op:\w+\].*)?", text)
    number = next((number for number in _HINTS if match and os.strerror(number) == match[2]), None)
    return problem_of(OSError(number, match[2], match[1])) if match and number is not None else None


def failing_line(error: BaseException) -> str:
    """Returns the file and line of the user's own code in which an error arose, as a message prefix, or ""."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _NOT_USERS.match(frame.filename)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""


def with_home(argument: str) -> str:
    """Expands ``--key=~/x`` as shells expand ``--key ~/x``; returns other arguments unchanged.

    Punctuation alone, such as ``~/.,?!``, is no path.

    Raises:
      UserError: the home folder is not known.
    """
    name, equals, text = argument.partition("=")
    if not equals or not name.startswith("--") or not re.match(r"~[^/]*/(?:.*\w|(?:\.\.?/?)?$)", text):
        return argument
    full = os.path.expanduser(text)
    if full == text:
        raise UserError(f"'{argument}': the home folder {text.partition('/')[0]} is not known. Give the full path.")
    return f"{name}={full}"


def scratch_file() -> BinaryIO:
    """Opens a temporary file without a name; on Linux it is in memory, so that no folder needs to be writable."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("open_seq2seq"), "w+b")
    return tempfile.TemporaryFile()  # type: ignore[return-value]
