"""Tables of token columns."""

from __future__ import annotations

import numpy as np

from open_seq2seq.data.text2text.corpus import Layout
from open_seq2seq.data.text2text.token_table import Column, MixedTables, TokenTable
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer
from open_seq2seq.data.text2text.vocabulary import Vocabulary

TOKENIZER = DelimiterTokenizer(Vocabulary(["<PAD>", "</S>", "<S>", "<UNK>", "a", "b", "c"]))
ROWS = [["a b", "c"], ["", "a"], ["b", "a b c"], ["c", "b"]]


def test_columns():
    first, second = (Column("source", TOKENIZER, field=field) for field in (0, 1))
    lines = ["a b\tc", "c", "\tb \n"]
    assert [one.tolist() for one in first.encode(lines)] == [[4, 5, 6], [2, 1, 0]]
    assert [one.tolist() for one in second.encode(lines)] == [[6, 5], [1, 0, 1]]
    assert len({first.fingerprint, second.fingerprint, Column("source", TOKENIZER).fingerprint}) == 3
    ended = Column("source", TOKENIZER, line_end=1).encode(["a b", "", "c"])
    assert [one.tolist() for one in ended] == [[4, 5, 1, 1, 6, 1], [3, 1, 2]]


def table(rows=ROWS, **options):
    columns = [Column("source", TOKENIZER), Column("target", TOKENIZER)]
    return TokenTable.of_texts(columns, rows, Layout(2, start=None), "file", **options)


def test_lines_are_left_out_or_cut():
    everything, some = table(), table(drop_empty=True, drop_long=True, line_numbers=np.array([3, 5, 6, 9]))
    assert everything.lengths.tolist() == [[3, 2], [1, 2], [2, 3], [2, 2]] and everything.cut.tolist() == [2]
    assert some.lengths.tolist() == [[3, 2], [2, 2]] and not len(some.cut)
    assert (some.num_empty, some.num_long, some.num_empty_sources) == (1, 1, 1)
    assert [some.line_number(example) for example in range(2)] == [3, 9] and everything.line_number(3) == 4
    assert some.text(1, 1) == "b" and some.batch(np.array([1]))["source_tensors"][0].tolist() == [[6, 1]]


def test_tables_are_mixed():
    mixed = MixedTables([table(ROWS[:2], labels=7), table(ROWS[2:], labels=np.array([8, 9]))], [2, 1])
    assert mixed.lengths.tolist() == [[3, 2], [1, 2]] * 2 + [[2, 3], [2, 2]]
    batch = mixed.batch(np.array([5, 0, 2, 3, 4]))
    assert batch["source_tensors"][0].tolist() == [[6, 1, 0], [4, 5, 1], [4, 5, 1], [1, 0, 0], [5, 1, 0]]
    assert batch["target_tensors"][1].tolist() == [2, 2, 2, 2, 3] and batch["ids"].tolist() == [5, 0, 2, 3, 4]
    assert batch["target_tensors"][2].tolist() == [9, 7, 7, 7, 8]
    assert mixed.batch(np.zeros(0, np.int64))["source_tensors"][1].shape == (0,)
