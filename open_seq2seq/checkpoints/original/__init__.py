"""Checkpoints of NVIDIA's OpenSeq2Seq, which TensorFlow 1 wrote: their names, layouts and files."""

from open_seq2seq.checkpoints.original.names import Conventions, Conversion, convert
from open_seq2seq.checkpoints.original.reading import (
    OriginalCheckpoint,
    original_path,
    read_converted,
    read_original,
)

__all__ = ["Conventions", "Conversion", "OriginalCheckpoint", "convert", "original_path", "read_converted",
           "read_original"]
