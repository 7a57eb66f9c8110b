"""Reads translation memories (TMX)."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.parsers import expat

from open_seq2seq.utils.data_files import opened_data, shown
from open_seq2seq.utils.errors import DataError

SUFFIXES = (".tmx", ".tmx.gz")
_CODES = {"bpt", "ept", "ph", "it", "ut"}  # elements in a segment that contain mark-up of another format, not text

Unit = tuple[int, dict[str, str]]
"""The line of a translation unit, counted from 1, and its texts by language, in lower case, such as ``en-us``."""


def read_tmx(path: str, languages: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Returns the line and the texts in the given languages of each translation unit; a missing text is empty.

    ``en`` also means ``en-US`` and other variants. Entities that the file itself declares are refused, because a small
    file could make them expand to any size.

    Args:
      path: the file, plain or ``.gz``.
      languages: codes of the languages.

    Raises:
      DataError: the file cannot be read, is not valid XML, or has no unit in all these languages.
    """
    units = _Reader(path).units
    rows = [(line, [_text_in(texts, language) for language in languages]) for line, texts in units]
    if not any(all(texts) for _, texts in rows):
        count = Counter(language for _, texts in units for language in texts)
        there = ", ".join(language for language, _ in count.most_common(10)) or "none"
        raise DataError(f"{shown(path)} has no translation unit in {' and '.join(languages)}: give two of its "
                        f"languages ({there}) with --languages.")
    return rows


def _text_in(texts: dict[str, str], language: str) -> str:
    wanted = language.lower().replace("_", "-")
    return texts.get(wanted) or next((text for name, text in texts.items() if name.split("-")[0] == wanted), "")


class _Reader:
    """Parses a file; ``units`` are its translation units."""

    def __init__(self, path: str) -> None:
        self.units: list[Unit] = []
        self._path, self._language = path, ""
        self._text: list[str] | None = None  # the pieces of the segment that is being read
        self._codes = 0  # number of open elements that contain no text
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._parser.SkippedEntityHandler = self._refuse
        try:
            with opened_data(path) as file:
                self._parser.ParseFile(gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file)
        except expat.ExpatError as error:
            raise DataError(f"{shown(path)}:{error.lineno}: the file is not valid XML: "
                            f"{expat.ErrorString(error.code)}.") from error
        except (EOFError, zlib.error, LookupError, ValueError) as error:  # the last two: an unknown encoding
            raise DataError(f"{shown(path)} cannot be read: {str(error).rstrip('.')}.") from error

    def _refuse(self, name: str, *more: Any) -> None:
        raise DataError(f"{shown(self._path)}:{self._parser.CurrentLineNumber}: the entity {name!r} is not supported: "
                        "write its text instead.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self.units.append((self._parser.CurrentLineNumber, {}))
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", "")).lower().replace("_", "-")
        elif name == "seg":
            self._text = []
        self._codes += name in _CODES

    def _end(self, name: str) -> None:
        self._codes -= name in _CODES
        if name == "seg" and self._text is not None and self.units:
            self.units[-1][1].setdefault(self._language, re.sub(r"\s+", " ", "".join(self._text)).strip())
            self._text = None

    def _add(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)
