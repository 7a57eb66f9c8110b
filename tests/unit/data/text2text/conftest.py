"""A small corpus and a SentencePiece model, made once."""

from __future__ import annotations

import random

import pytest

WORDS = "ein kleiner Hund läuft über die grüne Wiese und sieht einen roten Ball im Gras liegen".split()


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    numbers = random.Random(0)
    return [" ".join(numbers.choices(WORDS, k=numbers.randint(1, 12))) for _ in range(400)]


@pytest.fixture(scope="session")
def model_path(sentences, tmp_path_factory) -> str:
    from open_seq2seq.data.sentencepiece_models import train_sentencepiece

    folder = tmp_path_factory.mktemp("model")
    text = folder / "text"
    text.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return train_sentencepiece([str(text)], str(folder / "m"), 44, "unigram")
