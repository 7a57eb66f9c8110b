"""The note in a config that says where its data come from, for messages about missing data.

In a ``.py`` config, it is the paragraph of the docstring that begins with ``Data:``; in a ``.yaml`` config, that of the
comment at its beginning. It ends before an empty line, or before a line with another such word, as in ``Run: …``.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from open_seq2seq.utils.shipped import as_usable

SCHEMA_LINE = "# yaml-language-server: $schema=config.schema.json\n"
"""First line of a YAML config: the file, beside it, by which an editor completes and checks it."""
_MARK = "Data:"
_LONGEST = 500  # characters of a note


def note_in(text: str, mark: str = _MARK) -> str:
    """Returns the note in a docstring, in one line; "" if there is none.

    Args:
      text: the docstring, or the comment at the beginning of a YAML text.
      mark: the word that the note begins with.
    """
    lines = iter(text.splitlines())
    lines_of_note = []
    for line in lines:
        if line.startswith(mark):
            lines_of_note.append(line.removeprefix(mark))
            break
    for line in lines:
        if not lines_of_note or not line.strip() or re.match(r"\w[\w ]*:", line):
            break
        lines_of_note.append(line)
    return " ".join(" ".join(line.strip().removesuffix("\\") for line in lines_of_note).split())[:_LONGEST]


def as_comment(note: str) -> str:
    """Returns the beginning of a YAML text with this note, and with the name of the schema for editors."""
    return f"{SCHEMA_LINE}# {_MARK} {note}\n" if note else SCHEMA_LINE


def remedy(note: str) -> str:
    """Returns the sentence that follows a message about missing data, for a config with this note."""
    says = f"The config says where its data come from: {as_usable(note).removesuffix('.')}. " if note else ""
    with contextlib.suppress(OSError):  # the working directory has been removed
        return f"{says}Relative paths begin in the working directory, which is {os.getcwd()}."
    return says.rstrip()


def names_missing_path(params: Any) -> bool:
    """Returns whether a string in nested dicts and lists is a path, with a folder, that does not exist."""
    paths = [os.path.expanduser(text) for _, text in strings_in(params) if "/" in text]
    return not all(os.path.lexists(path) for path in paths if "\0" not in path)


def strings_in(params: Any, left_out: Set[str] = frozenset(),
               path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (path of keys, string) for the strings in nested dicts and lists, except under the keys ``left_out``."""
    if isinstance(params, (list, tuple)):
        params = {str(number): value for number, value in enumerate(params)}
    if isinstance(params, Mapping):
        for key, value in params.items():
            if key not in left_out:
                yield from strings_in(value, left_out, (*path, str(key)))
    elif isinstance(params, str):
        yield path, params
