r"""Sentence pairs in TFRecord files of token ids, as ``process_data.py`` of NVIDIA's OpenSeq2Seq wrote them.

A word, or the punctuation between two words, is written with an underscore at its end and divided into subtokens of a
vocabulary. In words, ``\u`` stands for an underscore, ``\\`` for a backslash, and ``\233;`` for the character with
this number, if the vocabulary lacks it. Only Tensor2Tensor and programs derived from it write such files.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from open_seq2seq.data.datasets import elements_of, record_starts
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_RESERVED = ("<pad>", "<EOS>")  # ids 0 and 1, whether or not the file contains them
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_SIDES = ("inputs", "targets")
_FEATURES = {side: tf.io.RaggedFeature(tf.int64) for side in _SIDES}


def load_subtokens(path: str) -> list[str]:
    """Reads a vocabulary of subtokens, in quotes, one per line; returns them in the order of their ids.

    Raises:
      DataError: the file cannot be read, or a line is not in quotes.
    """
    subtokens = list(_RESERVED)
    for number, line in enumerate(map(str.strip, read_lines(path, "The vocabulary")), 1):
        if len(line) < 3 or line[0] not in "'\"" or line[0] != line[-1]:
            raise DataError(f"{shown(path)}, line {number}: {shown(line)} is not a subtoken in quotes, such as 'the_': "
                            "give the vocabulary that belongs to the TFRecord files, such as vocab.ende.32768.")
        if line[1:-1] not in _RESERVED:
            subtokens.append(line[1:-1])
    return subtokens


def text_of(ids: Iterable[int], subtokens: Sequence[str]) -> str:
    """Returns the sentence of token ids, on one line; ids 0 and 1, padding and end of sentence, are left out.

    Raises:
      IndexError: the vocabulary does not have an id.
    """
    words = "".join(subtokens[token] for token in ids if token >= len(_RESERVED)).split("_")
    words = [word for word in (_ESCAPED.sub(_unescaped, word) for word in words) if word]
    # Spaces between two words are left out, but those beside punctuation belong to it.
    gaps = [" " if _in_word(last[-1:]) and _in_word(word[:1]) else ""
            for last, word in itertools.pairwise(["", *words])]
    return " ".join("".join(gap + word for gap, word in zip(gaps, words, strict=True)).splitlines())


def read_record_pairs(paths: Sequence[str], subtokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the sentence pairs of TFRecord files, in their order.

    Raises:
      DataError: a file cannot be read, is damaged or has other contents, or its ids are not those of the vocabulary.
    """
    for path in paths:
        record_starts(path)  # raises DataError; TensorFlow takes a file that ends in the header of a record for whole
        yield from _pairs_of(path, subtokens)


def _pairs_of(path: str, subtokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    number = 0
    try:
        for number, record in enumerate(elements_of(tf.data.TFRecordDataset(path)), 1):
            features = tf.io.parse_single_example(record, _FEATURES)
            source, target = (features[side].numpy().tolist() for side in _SIDES)
            if not source or not target:
                raise _damage(path, number, "has no inputs or no targets, so it is no sentence pair")
            yield text_of(source, subtokens), text_of(target, subtokens)
    except tf.errors.DataLossError as error:
        raise _damage(path, number + 1, "is damaged: its checksum is wrong") from error
    except tf.errors.InvalidArgumentError as error:
        raise _damage(path, number, "does not contain the lists of numbers inputs and targets") from error
    except IndexError as error:
        raise _damage(path, number, f"contains an id beyond the {len(subtokens):,} subtokens of the vocabulary: give "
                      "the vocabulary that belongs to these files") from error


def _damage(path: str, number: int, problem: str) -> DataError:
    return DataError(f"{shown(path)}, record {number} {problem}.")


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return "_" if found[0] == r"\u" else "\\"
    code = int(found[1]) if len(found[1]) < 8 else 0
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _in_word(character: str) -> bool:
    """Returns whether a character is a letter or digit."""
    return bool(character) and unicodedata.category(character)[0] in "LN"
