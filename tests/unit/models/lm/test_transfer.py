"""Weights of a language model for another vocabulary."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.lm.vocabulary import LMVocabulary, count_tokens
from open_seq2seq.models import LSTMLM, LanguageModel
from open_seq2seq.models.lm.transfer import rows_by_token


class Layer:
    """A data layer with these tokens."""

    tokens = ("<unk>", "b", "new", "<eos>")


@pytest.mark.parametrize("kind", [LanguageModel, LSTMLM])
def test_rows_are_matched_by_token(tmp_path, kind):
    vocabulary = LMVocabulary.of_counts(count_tokens([["a", "a", "b"]]))
    vocabulary.save(str(tmp_path / "vocab.txt"))
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    current = {"encoder/embedding": tf.Variable(-np.ones([4, 2], np.float32))}
    found = kind.adapted_weights(SimpleNamespace(data_layer=Layer()), {"encoder/embedding": table, "other": table},
                                 {"vocab.txt": tmp_path / "vocab.txt"}, current)
    row = dict(zip(vocabulary.tokens, table, strict=True))
    np.testing.assert_array_equal(found["encoder/embedding"], [row["<unk>"], row["b"], [-1, -1], row["<eos>"]])
    assert found["other"] is table


def test_the_same_vocabulary_changes_nothing(tmp_path):
    class Same:
        tokens = LMVocabulary.of_counts(count_tokens([["a"]])).tokens

    LMVocabulary.of_counts(count_tokens([["a"]])).save(str(tmp_path / "vocab.txt"))
    weights = {"encoder/embedding": np.zeros([3, 2], np.float32)}
    assert rows_by_token(Same(), weights, {"vocab.txt": tmp_path / "vocab.txt"}, {}) is weights
    assert rows_by_token(Same(), weights, {}, {}) is weights
