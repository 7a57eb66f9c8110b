"""Data layers: the classes that a config can name as ``data_layer``."""

from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.data.text2text.transformer import TransformerDataLayer

__all__ = ["DataLayer", "ParallelTextDataLayer", "TransformerDataLayer"]
