"""Adapts the weights of a language model to another vocabulary: the rows of tables are matched by token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.lm.params import VOCABULARY
from open_seq2seq.data.lm.vocabulary import LMVocabulary
from open_seq2seq.utils.console import deco_print

_TABLES = ("encoder/embedding", "encoder/output_layer/kernel", "encoder/output_layer/bias")


def rows_by_token(data_layer: Any, weights: Mapping[str, np.ndarray], assets: Mapping[str, Any],
                  current: Mapping[str, tf.Variable]) -> Mapping[str, np.ndarray]:
    """Returns the weights, with the rows of the embedding and of the output layer in the order of this model's tokens.

    Rows of tokens that are not in the language model's vocabulary keep their current, random values. If the checkpoint
    contains no vocabulary, or the same one, the weights are returned unchanged.

    Args:
      data_layer: the data layer, with ``tokens``.
      weights: the language model's weights by name.
      assets: paths of the files in the language model's checkpoint, by name.
      current: this model's variables by name.
    """
    if VOCABULARY not in assets or not hasattr(data_layer, "tokens"):
        return weights
    theirs = LMVocabulary.load(str(assets[VOCABULARY]))
    if theirs.tokens == tuple(data_layer.tokens):
        return weights
    places = np.array([theirs.ids.get(token, -1) for token in data_layer.tokens])
    known, changed = places >= 0, dict(weights)
    for name in _TABLES:
        if name in weights and name in current and len(weights[name]) == len(theirs):
            table = np.array(current[name].numpy())
            if table.shape[1:] == weights[name].shape[1:]:
                table[known] = weights[name][places[known]]
                changed[name] = table
    deco_print(f"{int(known.sum()):,} of {len(known):,} tokens are in the vocabulary of the loaded model", offset=1)
    return changed
