"""Output folders of scripts: new, and complete or not there at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import check_output_file, unused


def check_new_folder(name: str, flag: str = "--output_dir") -> None:
    """Raises UserError unless a folder can be made at the path that a flag names: nothing or an empty folder is there.

    Scripts call this before they begin to work.
    """
    if name and os.path.isdir(name) and os.listdir(name):
        raise UserError(f"The folder {name} exists already and is not overwritten: choose another {flag}, or remove "
                        "the folder.")
    if os.path.exists(name) and not os.path.isdir(name):
        raise UserError(f"{flag} is {name}, which is a file, not a folder: choose another path.")
    check_output_file(name, flag)


@contextlib.contextmanager
def new_folder(name: str, flag: str = "--output_dir") -> Iterator[str]:
    """Context manager for a folder that appears under its name at the end, when everything in it is complete.

    After an error or Ctrl-C, nothing remains of it. What a killed process has left, ``.tmp-<16 digits>.new``, the next
    one that writes this folder removes.

    Yields:
      The path at which to write until then. Messages should give the final path instead.

    Raises:
      UserError: see ``check_new_folder``; another process is writing this folder; or it cannot be written.
    """
    check_new_folder(name, flag)
    try:
        with unused(name), disk.new_folder(Path(os.path.realpath(name)), _if_empty, alone=True) as folder:
            yield str(folder)
    except OSError as error:
        raise UserError(f"The folder {name} cannot be written: {error.strerror or error}.") from error


def _if_empty(folder: Path) -> list[str] | None:
    return None if os.listdir(folder) else []
