"""Vocabularies of language models, built from the training text and kept in a file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import is_count, read_data, read_lines, shown
from open_seq2seq.utils.errors import DataError

UNKNOWN, END = "<unk>", "<eos>"
"""The token of all unknown words, and the token that ends every line."""
_DIGEST = "vocabulary"  # key of the vocabulary's checksum in the file of its settings
_MOST_SETTINGS_BYTES = 1 << 16


class LMVocabulary:
    """Mapping between tokens and ids. A vocabulary built by ``of_counts`` is sorted by frequency.

    Args:
      tokens: the tokens in the order of their ids; ``<unk>`` and ``<eos>`` are among them.
      counts: how often each token occurs in the training text.
      path: the file that the tokens were read from.

    Attributes:
      settings: the settings with which the vocabulary was built; empty if they are unknown.

    Raises:
      DataError: a token occurs twice, or a special token is missing.
    """

    def __init__(self, tokens: Sequence[str], counts: Sequence[int], path: str = "") -> None:
        self.tokens, self.counts, self.path = tuple(tokens), tuple(counts), path
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        name = shown(path) or "The vocabulary"
        if len(self.ids) < len(self.tokens):
            double = next(token for number, token in enumerate(self.tokens) if self.ids[token] != number)
            raise DataError(f"{name} has the token {double!r} twice: use the vocab.txt that training wrote.")
        missing = [token for token in (UNKNOWN, END) if token not in self.ids]
        if missing:
            raise DataError(f"{name} has no token {missing[0]}: use the vocab.txt that training wrote.")
        self.unknown_id, self.end_id = self.ids[UNKNOWN], self.ids[END]
        self.fingerprint = hashlib.sha256("\n".join(self.tokens).encode("utf-8", "surrogatepass")).hexdigest()
        self.settings: Mapping[str, Any] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of_counts(cls, counts: Counter[str], min_count: int = 1) -> LMVocabulary:
        """Returns the vocabulary of a text: ``<unk>``, then the tokens by descending frequency.

        Args:
          counts: how often each token occurs; tokens of equal frequency keep their order.
          min_count: rarer tokens are left out, except ``<eos>``.
        """
        frequent = {token: count for token, count in counts.items() if token != UNKNOWN and count >= min_count}
        frequent.setdefault(END, counts[END])
        rare = sum(count for token, count in counts.items() if token not in frequent)
        ordered = sorted(frequent.items(), key=lambda item: -item[1])
        return cls([UNKNOWN, *(token for token, _ in ordered)], [rare, *(count for _, count in ordered)])

    @classmethod
    def load(cls, path: str) -> LMVocabulary:
        """Reads a vocabulary file: lines ``id<TAB>token<TAB>count``, then a line with the number of tokens.

        The settings are read from the file that ``save`` has written beside it, unless that is of another vocabulary.

        Raises:
          DataError: the file cannot be read, or does not have this format.
        """
        tokens: list[str] = []
        counts: list[int] = []
        last = ""
        for number, line in enumerate(read_lines(path, "The vocabulary of the language model"), 1):
            identity, tab, rest = line.partition("\t")
            token, second, count = rest.rpartition("\t")
            if last:
                raise DataError(f"{shown(path)}:{number}: the line before, the number of tokens, must be the last one: "
                                "remove all lines after it.")
            if not tab and is_count(line.strip()):
                last = line.strip()
            elif not second or not is_count(count.strip()) or identity != str(len(tokens)):
                raise DataError(f"{shown(path)}:{number}: the line must be the id {len(tokens)}, a tab, the token, a "
                                "tab and its count: use the vocab.txt that training wrote, or remove the file "
                                "to build it again.")
            else:
                tokens.append(token)
                counts.append(int(count))
        if last != str(len(tokens)):
            raise DataError(f"{shown(path)} has {len(tokens)} tokens, but its last line, the number of tokens, is "
                            f"{last or 'missing'}: the file is incomplete; remove it to build it again.")
        vocabulary = cls(tokens, counts, path)
        vocabulary.settings = _settings_beside(path, vocabulary.fingerprint)
        return vocabulary

    def save(self, path: str, settings: Mapping[str, Any] | None = None) -> None:
        """Writes the vocabulary file, and creates its folder if necessary.

        Args:
          path: the file.
          settings: the settings with which the vocabulary was built, which are written beside it as JSON.

        Raises:
          DataError: the file cannot be written, or an existing file with this name is not a vocabulary file.
        """
        rows = [f"{number}\t{token}\t{count}\n" for number, (token, count) in
                enumerate(zip(self.tokens, self.counts, strict=True))]
        if settings:
            content = json.dumps({_DIGEST: self.fingerprint, **settings})
            _write(_settings_path(path), content, lambda file: file.read(1 << 6).startswith(f'{{"{_DIGEST}"'.encode()))
        _write(path, "".join([*rows, f"{len(self)}\n"]), lambda file: file.readline(1 << 16).startswith(b"0\t"))
        self.path, self.settings = path, settings or {}


def _write(path: str, content: str, is_own: Callable[[BinaryIO], bool]) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with disk.writing(path, is_own) as file:
            file.write(content.encode())
    except OSError as error:
        raise DataError(f"The vocabulary cannot be written to {shown(path)} ({error.strerror or error}): set "
                        "processed_data_folder to a writable folder.") from error


def _settings_path(path: str) -> str:
    return f"{os.path.splitext(path)[0]}_settings.json"


def _settings_beside(path: str, fingerprint: str) -> dict[str, Any]:
    with contextlib.suppress(DataError, ValueError, RecursionError):
        settings = json.loads(read_data(_settings_path(path), most_bytes=_MOST_SETTINGS_BYTES))
        if isinstance(settings, dict) and settings.pop(_DIGEST, None) == fingerprint:
            return settings
    return {}


def count_tokens(lines: Iterable[Sequence[str]]) -> Counter[str]:
    """Returns how often each token occurs in lines of tokens, and counts one ``<eos>`` for each line.

    Tokens of equal frequency are in the order of their first occurrence.
    """
    counts: Counter[str] = Counter()
    number = 0
    for tokens in lines:
        counts.update(tokens)
        number += 1
    counts[END] += number
    return counts
