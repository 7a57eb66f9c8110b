"""From a file to a language model."""

from __future__ import annotations

import gzip
import zlib

from open_seq2seq.decoding.ngram.arpa import open_text, read_arpa
from open_seq2seq.decoding.ngram.kenlm import KenlmModel
from open_seq2seq.decoding.ngram.model import LanguageModel
from open_seq2seq.utils.errors import DataError


def load_language_model(path: str, vocabulary: str | None = None) -> LanguageModel:
    """Loads an ARPA file (plain or ``.gz``), or a binary file of KenLM.

    Args:
      path: the model.
      vocabulary: text file with the model's words, separated by white space; KenLM's binary files need it.

    Raises:
      DataError: a file is missing or wrong, or the package kenlm is.
    """
    if not _is_kenlm_binary(path):
        return read_arpa(path)
    if vocabulary is None:
        raise DataError(f"{path} is a binary file of KenLM, which does not tell its words: give them as a text file "
                        "(`lm_vocabulary`), or give the ARPA file that the model was made from.")
    try:
        with open_text(vocabulary) as stream:
            words = list(dict.fromkeys(stream.read().split()))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"The vocabulary {vocabulary} cannot be read: {error}.") from error
    return KenlmModel(path, words)


def _is_kenlm_binary(path: str) -> bool:
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as stream:  # type: ignore[operator]
            return stream.read(5) == b"mmap "
    except (EOFError, zlib.error):  # gzip that is damaged: whoever reads it says how
        return False
    except OSError as error:
        raise DataError(f"The language model {path} cannot be read: {error.strerror or error}.") from error
