"""Checkpoints of NVIDIA's OpenSeq2Seq, which TensorFlow 1 wrote: their names, layouts and files."""

from open_seq2seq.checkpoints.original.names import Conventions, Conversion, convert
from open_seq2seq.checkpoints.original.reading import OriginalCheckpoint, OriginalFiles, read_converted, read_original

__all__ = ["Conventions", "Conversion", "OriginalCheckpoint", "OriginalFiles", "convert", "read_converted",
           "read_original"]
