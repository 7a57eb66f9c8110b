"""Output folders of scripts: new, and complete or not there at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import check_output_file, claim


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

    After an error or Ctrl-C, nothing remains of it. What a killed process has left, ``.NAME.unfinished``, the next one
    that writes this folder removes.

    Yields:
      The path at which to write until then. Messages should give the final path instead.

    Raises:
      UserError: see ``check_new_folder``; another process is writing this folder; or it cannot be written.
    """
    check_new_folder(name, flag)
    place = Path(os.path.realpath(name))
    work: disk.Workplace | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        work = claim(str(place), name)
        work.written.mkdir()
        yield str(work.written)
        for folder, _, names in os.walk(work.written, topdown=False):
            for path in (*(os.path.join(folder, file) for file in names), folder):
                disk.sync(path)
        work.put(lambda folder: None if os.listdir(folder) else [])
    except OSError as error:
        raise UserError(f"The folder {name} cannot be written: {error.strerror or error}.") from error
    finally:
        if work is not None:
            work.close()
