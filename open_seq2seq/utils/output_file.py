"""Files that results go to: checked before the work, not after hours of it."""

from __future__ import annotations

import os
from pathlib import Path

from open_seq2seq.utils.errors import UserError


def check_output_file(name: str, flag: str = "--infer_output_file") -> None:
    """Raises UserError where results could not be written to a file that a flag names; its folder may be missing."""
    if not name:
        raise UserError(f"{flag} is empty: name the file that results are written to.")
    path = Path(name).absolute()
    if path.is_dir():
        raise UserError(f"{flag} is {name}, which is a folder: name a file in it.")
    existing = next(place for place in (path, *path.parents) if place.exists())
    if existing != path and not existing.is_dir():
        raise UserError(f"{flag} is {name}, but {existing} is a file, not a folder: name another place.")
    if not os.access(existing, os.W_OK):
        raise UserError(f"{flag} is {name}, but {existing} cannot be written: name another place.")


def make_folder_of(name: str) -> None:
    """Makes the folder of a file, where there is none."""
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
