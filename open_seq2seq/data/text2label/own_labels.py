"""Prepares a user's own labelled texts: reads them from a table or from a folder of files for each class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from open_seq2seq.data.own_classes import Labelled, keep_distinct
from open_seq2seq.data.own_tables import Kept, OwnTable, bare, tidied
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

# Names of columns that are understood, in lower case, the most telling first.
_TEXT_NAMES = ("text", "sentence", "review", "reviewtext", "review_text", "comment", "message", "tweet", "utterance",
               "content", "body", "query", "question", "headline", "description", "title")
_LABEL_NAMES = ("label", "class", "category", "sentiment", "intent", "topic", "target", "labels", "polarity", "stars",
                "rating", "score", "tag", "emotion")


@dataclass(frozen=True)
class LabelledText(Labelled):
    """A text and its label; the key is the text without case and punctuation.

    Attributes:
      text: the text, with single spaces and composed letters.
    """

    text: str = ""


def columns_of(table: OwnTable, text: int | str | None, label: int | str | None) -> list[int | str]:
    """Returns the columns of the text and of its label; those that are not given are found by their usual names.

    In a table with two columns and no such names, the label is the column with fewer different values.

    Args:
      table: the table.
      text: the column of the text: its name, its number from 1, or None.
      label: the same for the label.

    Raises:
      DataError: a column is not given and cannot be found.
    """
    columns: list[int | str] = []
    for column, usual in ((text, _TEXT_NAMES), (label, _LABEL_NAMES)):
        names = [name for known in usual for name in table.names if name.lower() == known]
        columns += [column] if column is not None else names[:1]
    if len(columns) == 2:
        return columns
    if len(table.names) == 2 and not columns:
        counts = [len({cells[place] for _, cells in table.records if len(cells) == 2}) for place in (0, 1)]
        return [1, 2] if counts[1] < counts[0] else [2, 1]
    raise DataError(f"{shown(table.path)}:1: the columns of the text and of the label cannot be told by their names: "
                    "give both with --text_column and --label_column, by name or by number; the columns are "
                    f"{', '.join(table.names)[:200]}.")


def of_table(rows: Iterable[tuple[int, Sequence[str]]]) -> list[LabelledText]:
    """Returns the examples of rows (line number, [text, label])."""
    return [_example(line, label, tidied(text)) for line, (text, label) in rows]


def of_files(files: Iterable[Labelled]) -> list[LabelledText]:
    """Returns a text for each file of the folders of classes; that of a file that is not UTF-8 text is empty."""
    return [_example(file.line, shown(file.label), _text_of(file.path), file.part, file.path) for file in files]


def _example(line: int, label: str, text: str, part: str = "", path: str = "") -> LabelledText:
    return LabelledText(line, tidied(label), part, path, bare(text), text)


def _text_of(path: str) -> str:
    try:
        text = "\n".join(read_lines(path))
    except DataError:
        return ""
    return "" if "\0" in text else tidied(text)


def clean(texts: Iterable[LabelledText]) -> Kept[LabelledText]:
    """Leaves out examples without text or label, repeated ones, and those of classes that are too small to be split."""
    kept = Kept[LabelledText]()
    for row in texts:
        if row.label and row.text:
            kept.rows.append(row)
        else:
            kept.drop(row, "empty or not UTF-8 text" if row.label else "without a label")
    keep_distinct(kept)
    return kept
