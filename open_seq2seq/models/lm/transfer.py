"""Adapts the weights of a language model to another vocabulary: the rows of tables are matched by token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.lm.params import tokens_in
from open_seq2seq.utils.console import deco_print

_EMBEDDING = "encoder/embedding"
_OUTPUT = "encoder/output_layer/"
_Weights = Mapping[str, Any]  # arrays or variables by name


def rows_by_token(data_layer: Any, weights: Mapping[str, np.ndarray], assets: Mapping[str, Any],
                  current: Mapping[str, tf.Variable]) -> Mapping[str, np.ndarray]:
    """Returns the weights, with the rows of the embedding and of the output layer in the order of this model's tokens.

    Rows of tokens that are not in the language model's vocabulary keep their current, random values. So do rows of an
    adaptive softmax for tokens that are in another cluster, because each cluster has a softmax of its own; an output
    layer with another number of clusters is left out. If the checkpoint contains neither a vocabulary nor a
    SentencePiece model, embedding and output layer are left out. If the tokens are the same, the weights are returned
    unchanged.

    Args:
      data_layer: the data layer, with ``tokens``.
      weights: the language model's weights by name.
      assets: paths of the files in the language model's checkpoint, by name.
      current: this model's variables by name.
    """
    if not hasattr(data_layer, "tokens"):
        return weights
    theirs, ours = tokens_in(assets), tuple(data_layer.tokens)
    if theirs == ours:
        return weights
    others = {name: value for name, value in weights.items() if not name.startswith(_OUTPUT)}
    if theirs is None:
        deco_print("The checkpoint has no vocabulary: embedding and output layer are not loaded, because their tokens "
                   "are unknown", offset=1)
        return {name: value for name, value in others.items() if name != _EMBEDDING}
    ids = {token: number for number, token in enumerate(theirs)}
    their_ids = np.array([ids.get(token, -1) for token in ours])
    output, note = _output_layer(weights, current, their_ids, len(theirs))
    deco_print(f"{np.count_nonzero(their_ids >= 0):,} of {len(their_ids):,} tokens are in the vocabulary of the "
               "loaded model" + note, offset=1)
    return {**others, **_matched({_EMBEDDING: (0, 0)}, weights, current, their_ids), **output}


def _output_layer(weights: _Weights, current: _Weights, their_ids: np.ndarray,
                  size: int) -> tuple[dict[str, np.ndarray], str]:
    """Returns the weights of the output layer to load, and what to say about them.

    Args:
      weights: the language model's weights.
      current: this model's variables.
      their_ids: the language model's id of each of this model's tokens ``[tokens]``; -1 for none.
      size: number of the language model's tokens.
    """
    output_weights = {name: value for name, value in weights.items() if name.startswith(_OUTPUT)}
    edges, our_edges = _edges(weights, size), _edges(current, len(their_ids))
    if edges is None or our_edges is None:
        return output_weights, ""  # one of the two computes something else than tokens
    if len(edges) != len(our_edges):
        return {}, "; its output layer is not loaded, because it has another number of clusters"
    stay = _parts(edges, their_ids) == _parts(our_edges, np.arange(len(their_ids)))
    begins = zip(edges[:-1], our_edges[:-1], strict=True)
    tables = {_OUTPUT + "bias": (0, 0), **dict(zip(_kernels(current), begins, strict=True))}
    note = f", and {np.count_nonzero(stay):,} in the same cluster of its output layer" if len(edges) > 2 else ""
    return output_weights | _matched(tables, weights, current, np.where(stay, their_ids, -1)), note


def _kernels(weights: _Weights) -> list[str]:
    """Returns the names of the output layer's matrices: one, or those of the shortlist and of each cluster."""
    names = [_OUTPUT + "kernel"]
    while (name := f"{_OUTPUT}tail_{len(names) - 1}/kernel") in weights:
        names.append(name)
    return names


def _edges(weights: _Weights, size: int) -> list[int] | None:
    """Returns the first id of each of the output layer's matrices, and ``size``, the number of ids.

    Returns None if the output layer does not compute logits of the tokens. Tied weights are like a single matrix.
    """
    counts = [weights[name].shape[0] for name in _kernels(weights) if name in weights] or [size]
    edges = [0, *np.cumsum(counts).tolist()]
    return edges if edges[-1] == size else None


def _parts(edges: list[int], ids: np.ndarray) -> np.ndarray:
    """Returns the number of the matrix that contains the row of each id; -1 for the id -1."""
    return np.searchsorted(edges, ids, side="right") - 1


def _matched(tables: Mapping[str, tuple[int, int]], weights: _Weights, current: _Weights,
             their_ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the tables of this model with the language model's rows.

    Args:
      tables: by name, the id of the first row in the language model and in this model.
      weights: the language model's weights.
      current: this model's variables.
      their_ids: the language model's id of each of this model's tokens ``[tokens]``; -1 for none.
    """
    our_tables = {}
    for name, (begin, our_begin) in tables.items():
        if name in weights and name in current and weights[name].shape[1:] == tuple(current[name].shape[1:]):
            table = np.array(current[name].numpy())
            rows = their_ids[our_begin:our_begin + len(table)]
            table[rows >= 0] = weights[name][rows[rows >= 0] - begin]
            our_tables[name] = table
    return our_tables
