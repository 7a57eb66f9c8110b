"""Vocabularies, and the ids of special tokens."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable

from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError


class SpecialTextTokens(enum.IntEnum):
    """Ids of the special tokens in every ``Vocabulary``, and in the SentencePiece models of text layers."""

    PAD_ID = 0
    EOS_ID = 1
    S_ID = 2
    UNK_ID = 3

    @staticmethod
    def to_string(token: int) -> str:
        """Returns the text of a special token: ``<PAD>``, ``</S>``, ``<S>`` or ``<UNK>``.

        Raises:
          ValueError: no special token has this id.
        """
        return ("<PAD>", "</S>", "<S>", "<UNK>")[SpecialTextTokens(token)]


NUM_SPECIAL = len(SpecialTextTokens)


def rounded_up(size: int, multiple: int = 8) -> int:
    """Returns ``size`` rounded up to a multiple of ``multiple``."""
    return -(-size // multiple) * multiple


class Vocabulary:
    """Mapping between tokens and ids.

    Args:
      tokens: the tokens in the order of their ids, special tokens first.
      path: the file that the tokens were read from.
    """

    def __init__(self, tokens: Iterable[str], path: str = "") -> None:
        self.tokens = tuple(tokens)
        self.path = path
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.fingerprint = hashlib.sha256("\n".join(self.tokens).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def load(cls, path: str, special_tokens_already_in_vocab: bool = True, pad_to_eight: bool = False) -> Vocabulary:
        """Reads a vocabulary file.

        Args:
          path: a text file with one token per line, such as the ``.vocab`` file of a SentencePiece model. Empty lines,
            text after a tab, and a byte-order mark are ignored.
          special_tokens_already_in_vocab: whether the file begins with the four special tokens; if False, they are
            inserted as ids 0 to 3.
          pad_to_eight: whether to append tokens ``<$0$>``, ``<$1$>``… until the size is a multiple of 8.

        Raises:
          DataError: the file is missing, not UTF-8 or has no tokens, a token occurs twice, or
            ``special_tokens_already_in_vocab`` is True but the file does not begin with special tokens.
        """
        tokens = _read_tokens(path)
        if special_tokens_already_in_vocab:
            if len(tokens) < NUM_SPECIAL or any(token[0] + token[-1] != "<>" for token in tokens[:NUM_SPECIAL]):
                raise DataError(
                    f"{path} must begin with the four special tokens <PAD> </S> <S> <UNK>, but begins with "
                    f"{' '.join(tokens[:NUM_SPECIAL])}: set special_tokens_already_in_vocab to False to add them, or, "
                    "for a model that NVIDIA's OpenSeq2Seq trained with this file, put the special tokens in place of "
                    "its first four lines, whose ids stood for them.")
        else:
            tokens = [SpecialTextTokens.to_string(i) for i in SpecialTextTokens] + tokens
        if len(tokens) == NUM_SPECIAL:
            raise DataError(f"The vocabulary file {path} has only special tokens: add the tokens of the text.")
        _check_unique(tokens, path)
        if pad_to_eight:
            tokens += [f"<${i}$>" for i in range(rounded_up(len(tokens)) - len(tokens))]
        return cls(tokens, path)


def _read_tokens(path: str) -> list[str]:
    tokens = []
    for number, line in enumerate(read_lines(path, "The vocabulary file"), 1):
        token = line.split("\t")[0].strip(" ")
        if "\r" in token or "\0" in token:
            raise DataError(f"{path}:{number}: {token[:60]!r} is not a token: the vocabulary must be UTF-8 text with "
                            "one token per line and Linux or Windows line endings.")
        if token:
            tokens.append(token)
    if not tokens:
        raise DataError(f"The vocabulary file {path} is empty: write one token per line.")
    return tokens


def _check_unique(tokens: list[str], path: str) -> None:
    seen: set[str] = set()
    for token in tokens:
        if token in seen:
            raise DataError(f"The vocabulary file {path} has the token {token!r} more than once: remove the duplicates "
                            "or, for special tokens, set special_tokens_already_in_vocab to True.")
        seen.add(token)
