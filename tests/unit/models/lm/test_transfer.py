"""Weights of a language model for another vocabulary."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.lm.tokenizers import LMVocabulary, PieceTokenizer, count_tokens
from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.models import LSTMLM, LanguageModel
from open_seq2seq.models.lm.language_model import rows_by_token
from open_seq2seq.parts.adaptive_softmax import AdaptiveOutputLayer
from open_seq2seq.parts.component import named_variables


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


def test_pieces_of_another_sentencepiece_model_are_matched(tmp_path):
    found = []
    for name, text in (("one", "low lower lowest slow slower"), ("two", "slow new newer newest low")):
        (tmp_path / name).write_text(f"{text}\n" * 9)
        path = train_sentencepiece([str(tmp_path / name)], str(tmp_path / name), 20)
        found.append((path, PieceTokenizer(path)))
    (path, before), (_, after) = found
    assert before.tokens != after.tokens and len(before.tokens) == len(after.tokens)
    table = np.arange(40, dtype=np.float32).reshape(20, 2)
    current = {"encoder/embedding": tf.Variable(-np.ones([20, 2], np.float32))}
    rows = rows_by_token(after, {"encoder/embedding": table}, {"tokenizer_model": path}, current)["encoder/embedding"]
    old = dict(zip(before.tokens, table, strict=True))
    np.testing.assert_array_equal(rows, [old.get(piece, [-1, -1]) for piece in after.tokens])
    assert rows.min() == -1 and rows.max() > 20


def test_tables_of_unknown_tokens_are_left_out(tmp_path, capsys):
    weights = {name: np.zeros([4, 2], np.float32) for name in ("encoder/embedding", "encoder/output_layer/kernel", "x")}
    assert list(rows_by_token(Layer(), weights, {}, {})) == ["x"]
    assert "no vocabulary" in capsys.readouterr().out


def adaptive(cutoffs, tokens, seed):
    initializer = tf.keras.initializers.RandomNormal(0.0, 0.5, seed=seed)
    layer = AdaptiveOutputLayer(8, tokens, {"cutoffs": cutoffs, "factor": 2.0}, initializer=initializer)
    layer.bias.assign(tf.random.stateless_normal([tokens], [seed, 0]))
    return layer, {f"encoder/output_layer/{name}": value for name, value in named_variables(layer).items()}


def transferred(tmp_path, tokens, cutoffs):
    """Returns output layers for <unk>, <eos>, a, b, c, d and for ``tokens``, and the weights for the latter."""
    before, weights = adaptive([2, 4], 6, 1)
    after, current = adaptive(cutoffs, len(tokens), 2)
    LMVocabulary(["<unk>", "<eos>", *"abcd"], [1] * 6).save(str(tmp_path / "vocab.txt"))
    found = rows_by_token(SimpleNamespace(tokens=tokens), {name: value.numpy() for name, value in weights.items()},
                          {"vocab.txt": tmp_path / "vocab.txt"}, current)
    return before, after, current, found


def test_tokens_of_an_adaptive_softmax_keep_their_probabilities_if_no_cluster_changes(tmp_path):
    before, after, current, found = transferred(tmp_path, ["<eos>", "<unk>", "b", "a", "d", "c"], [2, 4])
    for name, variable in current.items():
        variable.assign(found[name])
    hidden = tf.random.stateless_normal([3, 8], [0, 0])
    np.testing.assert_allclose(after.logits(hidden), tf.gather(before.logits(hidden), [1, 0, 3, 2, 5, 4], axis=1),
                               rtol=1e-5)


def test_tokens_in_another_cluster_keep_random_rows(tmp_path, capsys):
    before, after, _, found = transferred(tmp_path, ["<unk>", "<eos>", "d", "b", "new", "a", "c"], [2, 4])
    prefix = "encoder/output_layer/"
    first, second = (found[f"{prefix}tail_{number}/kernel"] for number in (0, 1))
    np.testing.assert_array_equal(first, [after.tails[0].kernel[0], before.tails[0].kernel[1]])
    np.testing.assert_array_equal(second, [*after.tails[1].kernel[:2], before.tails[1].kernel[0]])
    old, random = before.bias.numpy(), after.bias.numpy()
    np.testing.assert_array_equal(found[prefix + "bias"], [*old[:2], random[2], old[3], *random[4:6], old[4]])
    assert "6 of 7 tokens" in (printed := capsys.readouterr().out) and "4 in the same cluster" in printed


def test_other_clusters_are_left_out(tmp_path, capsys):
    assert not transferred(tmp_path, ["<unk>", "<eos>", "d", "b", "new", "a"], [3])[3]
    assert "not loaded" in capsys.readouterr().out


def test_the_output_of_a_classifier_is_not_matched(tmp_path):
    LMVocabulary(["<unk>", "<eos>", "a"], [1] * 3).save(str(tmp_path / "vocab.txt"))
    weights = {"encoder/output_layer/kernel": np.zeros([3, 2]), "encoder/output_layer/bias": np.zeros(3)}
    current = {"encoder/output_layer/kernel": tf.zeros([2, 2]), "encoder/output_layer/bias": tf.zeros(2)}
    assert rows_by_token(Layer(), weights, {"vocab.txt": tmp_path / "vocab.txt"}, current) == weights
