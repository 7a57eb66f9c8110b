"""N-gram language models: ARPA files, scoring with back-off, and estimation from text."""

from open_seq2seq.decoding.ngram.arpa import load_language_model, read_arpa, write_arpa
from open_seq2seq.decoding.ngram.estimation import Estimate, estimate
from open_seq2seq.decoding.ngram.model import LanguageModel, NgramModel, Perplexity, perplexity

__all__ = ["Estimate", "LanguageModel", "NgramModel", "Perplexity", "estimate", "load_language_model", "perplexity",
           "read_arpa", "write_arpa"]
