"""The files of the IMDB reviews (Maas et al. 2011)."""

from __future__ import annotations

import os
import re

from open_seq2seq.utils.data_files import read_data, shown
from open_seq2seq.utils.errors import DataError


def review_files(folder: str) -> list[str]:
    """Returns the paths of the reviews in a folder of aclImdb, sorted by name.

    Raises:
      DataError: the folder cannot be read or has no reviews.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".txt"))
    except OSError as error:
        raise DataError(f"The folder {shown(folder)} cannot be read ({error.strerror}): give the unpacked folder "
                        "aclImdb as data_root or --data_dir.") from error
    if not names:
        raise DataError(f"The folder {shown(folder)} has no reviews (.txt): give the unpacked folder aclImdb as "
                        "data_root or --data_dir.")
    return [os.path.join(folder, name) for name in names]


def read_review(path: str) -> str:
    """Returns the text of a review; bytes that are not UTF-8 become replacement characters."""
    return read_data(path, "The review", 1 << 24).decode("utf-8", errors="replace")


def rating_of(path: str) -> str:
    """Returns the rating of a review, 1 to 10, which is part of its file name.

    Raises:
      DataError: the name has no rating.
    """
    match = re.fullmatch(r"\d+_(\d+)\.txt", os.path.basename(path))
    if match is None:
        raise DataError(f"{shown(path)}: the name must be ID_RATING.txt, such as 12_7.txt, to classify ratings: rename "
                        "the file, or set binary to True.")
    return match[1]
