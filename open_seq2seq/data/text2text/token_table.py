"""Examples of text as rows of token columns: which lines are examples, how long they are, and their padded batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.data.text2text.corpus import Layout, TokenCorpus, corpus_of_lines


@dataclass(frozen=True)
class Column:
    """A column of token ids: the texts of a file or of one field of its lines, and the tokenizer that reads them.

    A column is the tokenizer of its file; see ``tokenizers.Tokenizer``.

    Attributes:
      side: ``source``, ``target`` or ``prefix``; a batch has the ids and lengths in its ``<side>_tensors``.
      tokenizer: converts texts to ids.
      path: the file, with one text per line.
      field: index of the field of each line, if lines have several, separated by tabs; None for whole lines.
      line_end: id after the ids of each line of running text; None for no id.
    """

    side: str
    tokenizer: Any
    path: str = ""
    field: int | None = None
    line_end: int | None = None

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.tokenizer.vocab_size

    @property
    def fingerprint(self) -> str:
        """Digest of everything that the ids of a line depend on."""
        if self.field is None:
            return self.tokenizer.fingerprint
        return hashlib.sha256(f"column {self.field} {self.tokenizer.fingerprint}".encode()).hexdigest()

    def text(self, line: str) -> str:
        """Returns the text in a line: the line, or its field, which is empty if the line has fewer fields."""
        if self.field is None:
            return line
        fields = line.rstrip("\r\n").split("\t")
        return fields[self.field].strip() if self.field < len(fields) else ""

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all lines ``[tokens]``, and the number of ids in each line ``[lines]``."""
        ids, counts = self.tokenizer.encode(
            lines if self.field is None else [self.text(line) for line in lines], threads)
        if self.line_end is None:
            return ids, counts
        return np.insert(ids, np.cumsum(counts), self.line_end), counts + 1


class TokenTable:
    """Examples whose texts are in the same line of several columns.

    Args:
      columns: the columns, sources first.
      corpora: the texts of each column, all with the same number of lines.
      layout: how texts are padded; prefixes have no special tokens.
      drop_empty: whether lines with an empty text are left out.
      drop_long: whether lines with a text that is too long are left out.
      labels: a number for each line ``[lines]``, or for all lines, which is the last of a batch's ``target_tensors``.
      line_numbers: number of each line in its file ``[lines]``; by default, lines are counted from 1.
      name: name of the table among several.

    Attributes:
      lengths: lengths of the examples in a batch ``[examples]``, or ``[examples, columns]`` if there are several.
      cut: indices of the examples with a text that is cut.
      num_empty_sources: number of lines all of whose sources are empty.
      num_empty: number of lines that were left out because a text is empty.
      num_long: number of other lines that were left out because a text is too long.
    """

    def __init__(self, columns: Sequence[Column], corpora: Sequence[TokenCorpus], layout: Layout, *,
                 drop_empty: bool = False, drop_long: bool = False, labels: np.ndarray | int | None = None,
                 line_numbers: np.ndarray | None = None, name: str = "") -> None:
        self.columns, self.corpora, self.layout, self.name = columns, corpora, layout, name
        self._line_numbers = line_numbers
        self._labels = None if labels is None else np.broadcast_to(np.asarray(labels, np.int32), [len(corpora[0])])
        counts = np.stack([corpus.counts for corpus in corpora], axis=1)
        sources = [column.side == "source" for column in columns]
        self.num_empty_sources = int((counts[:, sources].max(axis=1) == 0).sum())
        empty, long = counts.min(axis=1) == 0, counts.max(axis=1) > layout.max_tokens
        out_empty = empty & drop_empty
        out_long = long & ~out_empty & drop_long
        self.num_empty, self.num_long = int(out_empty.sum()), int(out_long.sum())
        self._lines: np.ndarray | None = None  # the line, from 0, of each example; None if all lines are examples
        if self.num_empty or self.num_long:
            self._lines = np.flatnonzero(~(out_empty | out_long)).astype(np.int32)
            counts, long = counts[self._lines], long[self._lines]
        self.cut = np.flatnonzero(long)
        lengths = -(-layout.lengths(counts) // layout.multiple) * layout.multiple
        self.lengths = lengths[:, 0] if len(columns) == 1 else lengths

    @classmethod
    def of_texts(cls, columns: Sequence[Column], rows: Sequence[Sequence[str]], layout: Layout, path: str = "",
                 threads: int = 1, **options: Any) -> TokenTable:
        """Returns the table of texts in memory, in which line breaks are spaces.

        Args:
          columns: the columns.
          rows: the text of each column, for each line.
          layout: see ``TokenTable``.
          path: the file that the texts are from.
          threads: number of threads for tokenising.
          **options: further arguments of ``TokenTable``.
        """
        corpora = [corpus_of_lines([" ".join(row[place].split("\n")) for row in rows], column, path, threads)
                   for place, column in enumerate(columns)]
        return cls(columns, corpora, layout, **options)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each example ``[examples]``; None without labels."""
        return self._labels if self._labels is None or self._lines is None else self._labels[self._lines]

    def line(self, example: int) -> int:
        """Returns the index, in the corpora, of the line of an example."""
        return int(example if self._lines is None else self._lines[example])

    def line_number(self, example: int) -> int:
        """Returns the number of the line of an example in its file, from 1."""
        line = self.line(example)
        return line + 1 if self._line_numbers is None else int(self._line_numbers[line])

    def text(self, column: int, example: int) -> str:
        """Returns the text of an example in a column, without white space at its ends."""
        return self.columns[column].text(self.corpora[column].line(self.line(example)))

    def batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Returns the padded batch of the examples with these numbers ``[batch]``."""
        lines = examples if self._lines is None else self._lines[examples]
        batch: dict[str, Any] = {"ids": np.asarray(examples, np.int64)}
        for column, corpus in zip(self.columns, self.corpora, strict=True):
            layout = self.layout
            if column.side == "prefix":
                layout = layout._replace(start=None, end=None, multiple=1)
            batch.setdefault(f"{column.side}_tensors", []).extend(corpus.padded(lines, layout))
        if self._labels is not None:
            batch.setdefault("target_tensors", []).append(self._labels[lines])
        return batch


class MixedTables:
    """The examples of several tables: those of the first, repeated as often as it is read, and so on.

    Args:
      tables: the tables, with the same sides.
      times: how often each table is read.
    """

    def __init__(self, tables: Sequence[TokenTable], times: Sequence[int]) -> None:
        self.tables, self.times = tables, times
        self.sizes = np.array([len(table) for table in tables])
        self._ends = np.cumsum(self.sizes * times)
        parts = [table.lengths for table, count in zip(tables, times, strict=True) for _ in range(count)]
        self.lengths = np.concatenate(parts) if len(parts) > 1 else parts[0]

    def locate(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the index of the table of each example ``[batch]``, and the example's number in it ``[batch]``."""
        numbers = np.searchsorted(self._ends, examples, side="right")
        return numbers, (examples - (self._ends - self.sizes * self.times)[numbers]) % self.sizes[numbers]

    def batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Returns the padded batch of the examples with these numbers ``[batch]``."""
        examples = np.asarray(examples, np.int64)
        numbers, inside = self.locate(examples)
        parts = [(np.flatnonzero(numbers == number), self.tables[number].batch(inside[numbers == number]))
                 for number in np.unique(numbers).tolist() or [0]]
        joined = parts[0][1] if len(parts) == 1 else {
            side: [_joined([(rows, part[side][place]) for rows, part in parts], len(examples))
                   for place in range(len(arrays))] for side, arrays in parts[0][1].items() if side != "ids"}
        return {**joined, "ids": examples}


def _joined(parts: Sequence[tuple[np.ndarray, np.ndarray]], count: int) -> np.ndarray:
    """Returns the array ``[count, …]`` with the given arrays in the given rows; narrower ones are padded with zeros."""
    widths = np.max([array.shape[1:] for _, array in parts], axis=0)
    joined = np.zeros((count, *widths.astype(int)), np.int32)
    for rows, array in parts:
        where: Any = (rows, *map(slice, array.shape[1:]))
        joined[where] = array
    return joined
