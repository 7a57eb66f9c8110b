"""Data layers of toy speech."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.speech2text.speech2text import Speech2TextDataLayer

RATE = 8000


@pytest.fixture(scope="session")
def toy(make_toy_speech) -> Path:
    return make_toy_speech(16, 4)


@pytest.fixture
def params(toy) -> dict[str, Any]:
    """Parameters of a small layer."""
    return {"num_audio_features": 20, "input_type": "logfbank", "backend": "librosa", "sample_freq": RATE,
            "vocab_file": str(toy / "vocab.txt"), "dataset_files": [str(toy / "train.csv")], "batch_size": 4}


@pytest.fixture
def make_layer(params) -> Callable[..., Speech2TextDataLayer]:
    """Makes a layer; parameters may be changed by name."""
    def make(mode: str = "train", seed: int = 1, **changes: Any) -> Speech2TextDataLayer:
        layer = Speech2TextDataLayer({**params, **changes}, mode=mode)
        layer.seed = seed
        return layer
    return make


@pytest.fixture
def one_list(tmp_path, params) -> Callable[..., dict[str, Any]]:
    """Writes recordings and one list of them; returns the parameters of a layer of it.

    A row is (file name, audio or bytes or None for no file, transcript).
    """
    def write(*rows: tuple[str, Any, str], header: str = "wav_filename,wav_filesize,transcript",
              rate: int = RATE) -> dict[str, Any]:
        lines = [header] if header else []
        for name, audio, text in rows:
            if isinstance(audio, bytes):
                (tmp_path / name).write_bytes(audio)
            elif audio is not None:
                subtype = "FLOAT" if not np.all(np.isfinite(audio)) else None
                soundfile.write(tmp_path / name, audio, rate, subtype=subtype)
            lines.append(f"{name},0,{text}")
        (tmp_path / "list.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {**params, "dataset_files": [str(tmp_path / "list.csv")]}
    return write


@pytest.fixture
def voice() -> np.ndarray:
    """Half a second of something to hear."""
    time = np.arange(RATE // 2) / RATE
    return (0.3 * np.sin(2 * np.pi * 440 * time) * (1 + np.sin(2 * np.pi * 5 * time))).astype(np.float32)
