"""SentencePiece as operations of TensorFlow Text: the same ids and texts as in Python."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.lm.tokenizers import PieceTokenizer
from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer, without_special
from open_seq2seq.data.text2text.tokenizers import SentencePieceTokenizer
from open_seq2seq.export import sentencepiece

TEXT = "ein kleiner Hund läuft über die Wiese\nund sieht einen roten Ball\n"
LINES = ["ein roter Hund", "", "  Ball ", "ﬁ ① \ufeffx", "a\x00b", "unbekannt 名"]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "text").write_text(TEXT * 20, encoding="utf-8")
    return train_sentencepiece([str(folder / "text")], str(folder / "m"), 28, "unigram")


@pytest.mark.skipif(not tf.__version__.startswith("2.21."), reason="tensorflow-text belongs to TensorFlow 2.21")
@pytest.mark.parametrize("kind", [SentencePieceTokenizer, PieceTokenizer])
def test_ids_and_texts_are_equal(path, kind):
    pytest.importorskip("tensorflow_text", reason=f"needs tensorflow-text: {sentencepiece.INSTALL}")
    tokenizer = kind(path)
    graph = graph_tokenizer(tokenizer)
    assert all(map(sentencepiece.is_resource, graph.resources))
    for line, row in zip(LINES, graph.ids_of(tf.constant(LINES)), strict=True):
        np.testing.assert_array_equal(row, tokenizer.encode([line])[0])
    ids = np.random.default_rng(0).integers(0, 32, (40, 9)).astype(np.int32)
    ragged = tf.RaggedTensor.from_tensor(ids) if kind is PieceTokenizer else without_special(ids)
    assert [text.decode() for text in graph.texts_of(ragged).numpy()] == [tokenizer.decode(row) for row in ids]
