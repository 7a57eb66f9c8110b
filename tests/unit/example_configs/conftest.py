"""Made-up speech for recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.unit.example_configs.recipes import ALPHABET


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Path:
    """Folder of train.csv (two utterances), wav/ and vocab.txt."""
    folder = tmp_path_factory.mktemp("toy")
    write_toy_speech(str(folder), {"train": 2}, words=(2, 2), rate=16000)
    (folder / "vocab.txt").write_text("\n".join(ALPHABET) + "\n", encoding="utf-8")
    return folder
