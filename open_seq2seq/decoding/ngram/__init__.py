"""N-gram language models: ARPA files, look-up with back-off, estimation from text."""

from open_seq2seq.decoding.ngram.arpa import read_arpa, write_arpa
from open_seq2seq.decoding.ngram.loading import load_language_model
from open_seq2seq.decoding.ngram.model import LanguageModel, NgramModel

__all__ = ["LanguageModel", "NgramModel", "load_language_model", "read_arpa", "write_arpa"]
