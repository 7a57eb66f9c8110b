"""Prepares a user's own sentence pairs: reads them, leaves out what would harm training, and splits them."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

import numpy as np

from open_seq2seq.data.own_tables import Kept, bare, groups_in_common, read_own_table, tidied
from open_seq2seq.data.text2text.languages import known_language, number_of_words
from open_seq2seq.utils.console import deco_print
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


_SHORT = 20  # number of characters up to which the ratio of lengths is not checked
_NAMES = {"source", "target", "src", "tgt", "trg"}  # what the first row may call the columns, besides languages
_MOST_WITHOUT_LETTERS = 0.5  # share of rows without letters above which a column is reported
# A pair counts as swapped if exchanging its sides raises its log-probability by more than _SURE, and by more than
# _SURE_PER_CHARACTER for each of its characters.
_SURE = 10.0
_SURE_PER_CHARACTER = 0.2


@dataclass(frozen=True)
class Pair:
    """A sentence pair with the number of its line in the file, counted from 1."""

    line: int
    source: str
    target: str


def read_table(path: str, languages: Sequence[str], columns: Sequence[int | str] | None = None,
               ) -> tuple[list[Pair], list[int | str]]:
    """Returns the pairs of a table (see ``read_own_table``), and the columns with the source and the target.

    A row that lacks a column has empty sentences. A column without letters in most rows, such as one of numbers, is
    reported.

    Args:
      path: the table.
      languages: names of both languages.
      columns: names of the columns, or numbers counted from 1. None: those that the first row names as the languages,
        otherwise the first two.

    Raises:
      DataError: the table cannot be read, or more than 5 % of its rows lack one of the columns.
    """
    table = read_own_table(path)
    names = [known_language(name) or name.lower() for name in table.names]
    wanted = [known_language(language) or language.lower() for language in languages]
    if columns is None and wanted[0] != wanted[1] and all(names.count(name) == 1 for name in wanted):
        columns = [table.names[names.index(name)] for name in wanted]
    if columns is None and table.has_names([]):
        raise DataError(f"{path} has the keys {', '.join(table.names)[:200]}: name those of the source and the target "
                        "with --columns.")
    columns = columns or [1, 2]
    titles = {names[column - 1] for column in columns if isinstance(column, int) and column <= len(names)}
    has_names = titles == set(wanted) or bool(titles and titles <= _NAMES)
    deco_print(table.describe(columns, has_names))
    rows = table.rows(columns, has_names)
    for place, column in enumerate(columns):
        count = sum(bool(values[place]) and not any(map(str.isalpha, values[place])) for _, values in rows)
        if count > _MOST_WITHOUT_LETTERS * len(rows):
            deco_print(f"WARNING: Column {column} of {path} has no letters in {count:,} of {len(rows):,} lines: if it "
                       "contains no sentences, name another one with --columns.")
    return [Pair(line, *values) for line, values in rows], list(columns)


def clean(pairs: Iterable[Pair], max_words: int, max_ratio: float) -> Kept[Pair]:
    """Leaves out pairs that are empty, too long, unequally long, untranslated, repeated, or have swapped languages.

    White space is normalised, and so is Unicode (NFC).

    Args:
      pairs: the pairs.
      max_words: maximum number of words on each side; see ``number_of_words``.
      max_ratio: maximum ratio of the number of characters of the longer side to that of the shorter side, relative to
        the ratio of most pairs, because some scripts write a sentence with a third of the characters of others.
    """
    kept, seen = Kept[Pair](), set()
    normal = [Pair(pair.line, tidied(pair.source), tidied(pair.target)) for pair in pairs]
    usual = _usual_ratio(normal)
    for pair in normal:
        reason = _fault(pair, max_words, max_ratio, usual)
        if not reason and (pair.source, pair.target) in seen:
            reason = "repeated"
        if reason:
            kept.drop(pair, reason)
        else:
            seen.add((pair.source, pair.target))
            kept.rows.append(pair)
    swapped = {pair.line for pair in swapped_pairs(kept.rows)}
    for pair in [pair for pair in kept.rows if pair.line in swapped]:
        kept.drop(pair, "languages in the wrong order")
    kept.rows = [pair for pair in kept.rows if pair.line not in swapped]
    return kept


def _usual_ratio(pairs: Sequence[Pair]) -> float:
    """Returns the median of the ratio of the source's number of characters to that of the target."""
    ratios = [len(pair.source) / len(pair.target) for pair in pairs if pair.source and pair.target]
    return float(np.median(ratios)) if ratios else 1.0


def _fault(pair: Pair, max_words: int, max_ratio: float, usual_ratio: float) -> str:
    if not pair.source or not pair.target:
        return "empty on one side"
    if max(number_of_words(pair.source), number_of_words(pair.target)) > max_words:
        return f"longer than {max_words} words"
    # As many characters as most pairs would have if both sides were in the script with the longer sentences.
    shorter, longer = sorted((len(pair.source) / min(usual_ratio, 1.0), len(pair.target) * max(usual_ratio, 1.0)))
    if longer > _SHORT and longer > max_ratio * shorter:
        return f"one side more than {max_ratio:g} times as long"
    if pair.source == pair.target and any(map(str.isalpha, pair.source)) and number_of_words(pair.source) > 3:
        return "not translated"
    return ""


def swapped_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs whose source looks like a target, and whose target looks like a source.

    Compares trigrams of characters with those of the other pairs: a pair is swapped if it is far more probable with its
    sides exchanged.
    """
    sides = [Counter[str](), Counter[str]()]
    grams = [(_trigrams(pair.source), _trigrams(pair.target)) for pair in pairs]
    for row in grams:
        for side, found in zip(sides, row, strict=True):
            side.update(found)
    kinds = len(sides[0].keys() | sides[1].keys()) + 1
    totals = [math.log(sum(side.values()) + kinds) for side in sides]

    def favour(found: Sequence[str], own: tuple[Counter[str], Counter[str]]) -> float:
        """Returns the log-probability of trigrams as a source minus that as a target, estimated from other pairs."""
        return sum(math.log(sides[0][gram] - own[0][gram] + 1) - math.log(sides[1][gram] - own[1][gram] + 1)
                   for gram in found) - len(found) * (totals[0] - totals[1])

    wrong = []
    for pair, (source, target) in zip(pairs, grams, strict=True):
        own = Counter(source), Counter(target)
        gain = favour(target, own) - favour(source, own)
        if gain > max(_SURE, _SURE_PER_CHARACTER * (len(source) + len(target))):
            wrong.append(pair)
    return wrong


def _trigrams(text: str) -> list[str]:
    padded = f"  {text.lower()} "
    return [padded[place:place + 3] for place in range(len(padded) - 2)]


def split(pairs: Sequence[Pair], sizes: Sequence[int], seed: int = 0) -> list[list[Pair]]:
    """Splits pairs at random so that no sentence of one part occurs in another part.

    Sentences count as equal if they differ only in case, punctuation or white space.

    Args:
      pairs: the pairs.
      sizes: number of pairs of each part to hold out. A part can get a few pairs more, because pairs with a common
        sentence stay together.
      seed: seed of the choice.

    Returns:
      The remaining pairs, then a part for each of ``sizes``. Within a part, pairs are in the order of ``pairs``.

    Raises:
      DataError: there are too few pairs, or too few different ones.
    """
    groups = groups_in_common([enumerate((bare(pair.source), bare(pair.target))) for pair in pairs])
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(groups))
    # Small groups first, so that sentences with many translations stay in the largest part.
    queue = sorted(order.tolist(), key=lambda number: len(groups[number]))
    parts: list[list[int]] = []
    for size in sizes:
        part: list[int] = []
        while len(part) < size and queue:
            part += groups[queue.pop(0)]
        parts.append(part)
    largest = [index for number in queue for index in groups[number]]
    if len(largest) < sum(sizes) or any(len(part) < size for part, size in zip(parts, sizes, strict=True)):
        wanted = " and ".join(f"{size:,}" for size in sizes)
        raise DataError(f"{len(pairs):,} usable pairs ({len(groups):,} groups without a common sentence) are too few "
                        f"to hold out {wanted} pairs: give smaller --dev_size and --test_size, or more pairs.")
    return [[pairs[index] for index in sorted(part)] for part in (largest, *parts)]
