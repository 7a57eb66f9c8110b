"""Reads safetensors files, checking their headers before any memory is allocated."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.utils.own_files import open_own

_MOST_HEADER_BYTES = 1 << 24  # enough for 100,000 tensors
_MOST_DIMENSIONS = 32  # the limit of NumPy 1
_MOST_BYTES = 2 ** 63 - 1
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_ITEM_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8,
               "I64": 8, "F64": 8}


def load_tensors(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Reads a safetensors file in a folder, and returns its arrays by name.

    Raises:
      ValueError: the header is invalid, or does not fit the file.
      NotOwnFileError, OSError: see ``utils.own_files.open_own``.
    """
    from safetensors.numpy import load_file

    _check(folder, name)
    return load_file(folder / name)


def _check(folder: Path, name: str) -> None:
    """Raises ValueError unless the header is valid, and its tensors fill the rest of the file without gaps."""
    with open_own(folder, name) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        room = size - _LENGTH_BYTES
        if not 0 < length <= min(room, _MOST_HEADER_BYTES):
            raise ValueError(f"{name} gives {length:,} bytes as the length of its header, but the file has {size:,}")
        try:
            header = json.loads(file.read(length), object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the header of {name} cannot be read ({error})") from error
    if not isinstance(header, dict):
        raise ValueError(f"the header of {name} is not a table of tensors")
    spans = [_span(entry, f"the tensor {key!r:.100} of {name}") for key, entry in header.items() if key != _METADATA]
    end = 0
    for begin, after in sorted(spans):
        if begin != end:
            raise ValueError(f"the tensors of {name} overlap or have gaps between them")
        end = after
    if end != room - length:
        raise ValueError(f"the header of {name} lists {end:,} bytes of tensors, but the file has {room - length:,}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


def _span(entry: Any, what: str) -> tuple[int, int]:
    """Returns the offsets at which a tensor's bytes begin and end, from its entry in the header."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{what} must have exactly the keys dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise ValueError(f"{what} has the unknown dtype {dtype!r:.100}")
    if not _counts(shape) or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{what} has the invalid shape {shape!r:.100}")
    if not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{what} has the invalid offsets {offsets!r:.100}")
    # NumPy limits the product of the nonzero dimensions even if another dimension is 0.
    if math.prod(max(n, 1) for n in shape) * _ITEM_BYTES[dtype] > _MOST_BYTES:
        raise ValueError(f"{what} has the invalid shape {shape!r:.100}")
    begin, end = offsets
    if end - begin != math.prod(shape) * _ITEM_BYTES[dtype]:
        raise ValueError(f"{what} has {end - begin:,} bytes, but its shape {shape!r:.100} and dtype {dtype} need "
                         f"{math.prod(shape) * _ITEM_BYTES[dtype]:,}")
    return begin, end


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
