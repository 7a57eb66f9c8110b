"""Texts of the target side that inference reads: beginnings of translations, and translations to score."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.data.text2text.corpus import TokenCorpus, load_corpus
from open_seq2seq.data.text2text.tokenizers import Tokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.errors import DataError

_PATH = (str, type(None))


def given_target_params() -> dict[str, Any]:
    """Returns the parameters that name texts of the target side for inference."""
    return with_change(FREE, {
        "prefix_file": Param(_PATH, None, "For inference: text file with the beginning of each translation, one line "
                             "for each source sentence; an empty line prescribes no beginning.", file=DATA),
        "prefix_column": Param(bool, False, "For inference: whether each line of source_file may have a second column, "
                               "after a tab, with the beginning of the translation."),
        "score_file": Param(_PATH, None, "For inference: text file with a translation of each source sentence. "
                            "Inference then computes the log probabilities of these translations and does not "
                            "translate.", file=DATA),
    })


def given_target_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one sentence for each contradiction among the parameters of ``given_target_params``."""
    problems = []
    if params["prefix_file"] and params["prefix_column"]:
        problems.append(f"'{path}/prefix_file' is set, but prefix_column is True, so prefixes are read from "
                        "source_file: leave out prefix_file or prefix_column.")
    if params["score_file"] and (params["prefix_file"] or params["prefix_column"]):
        problems.append(f"'{path}/score_file' is set, so inference scores translations, and prefixes have no "
                        "meaning: leave out score_file, or prefix_file and prefix_column.")
    return problems


class ColumnTokenizer:
    """Tokenizes one column of lines whose columns are separated by tabs; missing columns are empty.

    Args:
      tokenizer: tokenizer of the column's text.
      column: index of the column, from 0.
    """

    def __init__(self, tokenizer: Any, column: int) -> None:
        self._tokenizer, self._column = tokenizer, column
        self.unknown_id = int(SpecialTextTokens.UNK_ID)
        self.vocab_size = tokenizer.vocab_size
        self.fingerprint = hashlib.sha256(f"column {column} {tokenizer.fingerprint}".encode()).hexdigest()

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of the column in all lines, and the number of ids in each line."""
        return self._tokenizer.encode([column_of(line, self._column) for line in lines], threads)

    def first_unknown(self, line: str) -> str:
        """Returns the first unknown token of the column in a line, or an empty string."""
        return self._tokenizer.first_unknown(column_of(line, self._column))

    def decode(self, ids: Any) -> str:
        """Returns the text of ids."""
        return self._tokenizer.decode(ids)


def column_of(line: str, column: int) -> str:
    """Returns a column of a line, without white space at its ends, or an empty string if the line has fewer columns."""
    columns = line.rstrip("\r\n").split("\t")
    return columns[column].strip() if column < len(columns) else ""


def load_given_targets(params: Mapping[str, Any], source: TokenCorpus, tokenizer: Tokenizer, max_tokens: int,
                       how: tuple[Any, ...]) -> tuple[TokenCorpus | None, TokenCorpus | None]:
    """Returns (translations to score, prefixes), at most one of which is not None.

    Args:
      params: the data layer's parameters.
      source: the source sentences.
      tokenizer: tokenizer of the target side.
      max_tokens: maximum number of tokens of a text.
      how: the remaining arguments of ``load_corpus``: (index_dir, threads, thorough).

    Raises:
      DataError: a file cannot be read, or its texts do not fit; see ``check_given_targets``.
    """
    if params["score_file"]:
        given = load_corpus(params["score_file"], tokenizer, *how)
        check_given_targets(given, source, max_tokens, "translation")
        return given, None
    if not params["prefix_file"] and not params["prefix_column"]:
        return None, None
    if params["prefix_file"]:
        given = load_corpus(params["prefix_file"], tokenizer, *how)
    else:
        given = load_corpus(params["source_file"], ColumnTokenizer(tokenizer, 1), *how)
    check_given_targets(given, source, max_tokens, "prefix")
    return None, given


def check_given_targets(given: TokenCorpus, source: TokenCorpus, max_tokens: int, what: str) -> None:
    """Checks the prefixes, or the translations to score.

    Args:
      given: the prefixes or translations.
      source: the source sentences.
      max_tokens: maximum number of tokens of a text; longer ones are errors, because they must not be truncated.
      what: ``prefix`` or ``translation``, for messages.

    Raises:
      DataError: the numbers of lines differ, or a text is too long.
    """
    if len(given) != len(source):
        raise DataError(f"{source.path} has {len(source)} lines, but {given.path} has {len(given)}: line n has to be "
                        f"the {what} for line n of the source.")
    long = np.flatnonzero(given.counts > max_tokens)
    if len(long):
        raise DataError(f"{given.path or 'input'}:{long[0] + 1}: the {what} has {given.counts[long[0]]} tokens, but "
                        f"max_length allows {max_tokens}: set a larger max_length for inference.")


def prefixes(corpus: TokenCorpus, lines: np.ndarray) -> list[np.ndarray]:
    """Returns the ids of prefixes ``[batch, time]``, without special tokens, and their lengths ``[batch]``."""
    ids, lengths = corpus.padded(lines, int(corpus.counts[lines].max(initial=0)), start_token=False)
    ids[np.arange(len(lines)), lengths - 1] = SpecialTextTokens.PAD_ID  # replaces the EOS that padded() appends
    return [ids[:, :-1] if ids.shape[1] > 1 else ids, lengths - 1]
