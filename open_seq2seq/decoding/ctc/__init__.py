"""Decoding of CTC outputs: greedy in the graph, or prefix beam search with language models in NumPy."""

from open_seq2seq.decoding.ctc.decoder import CtcDecoder, Transcript, beam_search_params, decode_all
from open_seq2seq.decoding.ctc.frames import Pruning, Word, align, words_of
from open_seq2seq.decoding.ctc.prefix_search import PrefixSearch
from open_seq2seq.decoding.ctc.symbols import Symbols

__all__ = ["CtcDecoder", "PrefixSearch", "Pruning", "Symbols", "Transcript", "Word", "align", "beam_search_params",
           "decode_all", "words_of"]
