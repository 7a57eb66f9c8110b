"""The records of TFRecord files."""

from __future__ import annotations

import os
import struct

import numpy as np

from open_seq2seq.utils.data_files import opened_data, shown
from open_seq2seq.utils.errors import DataError

# Sizes in bytes. A record consists of the data's length (8), its checksum (4), the data, and their checksum (4).
_HEADER, _FOOTER = 12, 4


def record_starts(path: str) -> np.ndarray:
    """Returns the offset of each record of a TFRecord file in bytes, int64 ``[records]``.

    Raises:
      DataError: the file cannot be read, is empty, or does not consist of whole records.
    """
    starts: list[int] = []
    place = 0
    with opened_data(path, "The TFRecord file") as file:
        size = os.fstat(file.fileno()).st_size
        while place < size:
            header = os.pread(file.fileno(), _HEADER, place)
            length = struct.unpack("<Q", header[:8])[0] if len(header) == _HEADER else size
            starts.append(place)
            place += _HEADER + length + _FOOTER
            if place > size:
                raise DataError(f"{shown(path)}, record {len(starts)}: the file ends within the record, so it is "
                                "incomplete or damaged, or not an uncompressed TFRecord file.")
    if not starts:
        raise DataError(f"The TFRecord file {shown(path)} is empty.")
    return np.asarray(starts, np.int64)
