"""Loads language models from files."""

from __future__ import annotations

from open_seq2seq.decoding.ngram.arpa import read_arpa
from open_seq2seq.decoding.ngram.kenlm import KenlmModel
from open_seq2seq.decoding.ngram.model import LanguageModel
from open_seq2seq.utils.data_files import opened_text, read_lines
from open_seq2seq.utils.errors import DataError


def load_language_model(path: str, vocabulary: str | None = None) -> LanguageModel:
    """Loads an ARPA file (plain or ``.gz``) or a KenLM binary file.

    Args:
      path: the model.
      vocabulary: text file with the model's words, separated by white space; required for a KenLM binary file.

    Raises:
      DataError: a file is missing or invalid, or the package kenlm is required but not installed.
    """
    if not _is_kenlm_binary(path):
        return read_arpa(path)
    if vocabulary is None:
        raise DataError(f"{path} is a KenLM binary file, which does not contain the model's words: give a text file of "
                        "the words (`lm_vocabulary`), or the ARPA file that the binary was made from.")
    words = dict.fromkeys(word for line in read_lines(vocabulary, "The vocabulary") for word in line.split())
    return KenlmModel(path, list(words))


def _is_kenlm_binary(path: str) -> bool:
    with opened_text(path, "The language model") as file:
        return file.read(5) == b"mmap "
