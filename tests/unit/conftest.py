"""Toy speech on disk, made once for all tests that want as much of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech


@pytest.fixture(scope="session")
def make_toy_speech(tmp_path_factory) -> Callable[[int, int], Path]:
    """Makes a folder of train.csv and dev.csv with so many utterances of 8,000 samples a second, wav/ and vocab.txt."""
    def make(train: int, dev: int) -> Path:
        folder = tmp_path_factory.mktemp("toy_speech")
        write_toy_speech(str(folder), {"train": train, "dev": dev}, rate=8000)
        return folder
    return make
