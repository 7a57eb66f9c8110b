"""The kinds of parts in the original's checkpoints: for each of our variables, the arrays that it is made from.

The gates of the original's LSTM cells are input, candidate, forget and output, and the kernels of input and state are
one matrix; ours are input, forget, output and candidate. Its GRU cells have the gates reset and update; ours have
update, reset and candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Arrays = Sequence[np.ndarray]


class Source(NamedTuple):
    """Where the value of a variable comes from.

    Attributes:
      names: names of the original's arrays, below the place of the part.
      convert: function of the arrays and of the constant that the original adds to the forget gate.
    """

    names: tuple[str, ...]
    convert: Callable[[Arrays, float], np.ndarray]


Kind = Mapping[str, Sequence[Source]]
"""For each of our variables in a part, the sources to choose from: the first whose arrays all exist is used."""


def _same(arrays: Arrays, forget: float) -> np.ndarray:
    return arrays[0]


def _named(*names: str) -> list[Source]:
    return [Source((name,), _same) for name in names]


def _transposed(name: str) -> Source:
    return Source((name,), lambda arrays, forget: arrays[0].T)


def _without_first(arrays: Arrays, forget: float) -> np.ndarray:
    """Sets the first row to zeros, as the original does when it looks up position 0."""
    return np.concatenate([np.zeros_like(arrays[0][:1]), arrays[0][1:]])


def _merged(arrays: Arrays, forget: float) -> np.ndarray:
    """Returns the kernel ``[1, inputs, outputs]`` of a separable convolution over one step."""
    depthwise, pointwise = arrays
    return depthwise.reshape(1, -1, 1) * pointwise.reshape(1, *pointwise.shape[-2:])


def _lstm_gates(joined: np.ndarray) -> np.ndarray:
    """Reorders the gates ``[…, 4 · units]``."""
    i, candidate, f, o = np.split(joined, 4, -1)
    return np.concatenate([i, f, o, candidate], -1)


def _lstm_input(arrays: Arrays, forget: float) -> np.ndarray:
    return _lstm_gates(arrays[0])[:-(arrays[0].shape[-1] // 4)]


def _lstm_state(arrays: Arrays, forget: float) -> np.ndarray:
    return _lstm_gates(arrays[0])[-(arrays[0].shape[-1] // 4):]


def _lstm_bias(arrays: Arrays, forget: float) -> np.ndarray:
    i, f, o, candidate = np.split(_lstm_gates(arrays[0]), 4)
    return np.concatenate([i, f + np.float32(forget), o, candidate])


def _norm_offset(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate([*arrays[:1], arrays[1] + np.float32(forget), *arrays[2:]])


def _joined(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate(arrays, -1)


def _update_first(gates: np.ndarray) -> np.ndarray:
    return np.concatenate(np.split(gates, 2, -1)[::-1], -1)


def _gru_input(arrays: Arrays, forget: float) -> np.ndarray:
    """The gates' kernel is of input and state; that of the candidate is too, except in cells like cuDNN's."""
    gates, candidate = arrays
    inputs = len(gates) - gates.shape[-1] // 2
    return np.concatenate([_update_first(gates)[:inputs], candidate[:inputs]], -1)


def _gru_state(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate([_update_first(arrays[0])[-(arrays[0].shape[-1] // 2):], *arrays[1:]], -1)


def _gru_candidate(arrays: Arrays, forget: float) -> np.ndarray:
    return arrays[0][-arrays[0].shape[-1]:]


def _gru_bias(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate([_update_first(arrays[0]), arrays[1]])


_NORMALISED = ("input", "forget", "output", "transform", "state")
_OF_INPUT, _OF_STATE = ("candidate/input_projection/", "candidate/hidden_projection/")

NORM: Kind = {"gamma": _named("gamma", "layer_norm_scale"), "beta": _named("beta", "layer_norm_bias"),
              "moving_mean": _named("moving_mean"), "moving_variance": _named("moving_variance")}
DENSE: Kind = {"kernel": _named("kernel"), "bias": _named("bias")}
CONVOLUTION: Kind = {
    "kernel": [*_named("kernel", "w"), Source(("depthwise_kernel", "pointwise_kernel"), _merged)],
    "depthwise": _named("depthwise_kernel"), "pointwise": _named("pointwise_kernel"), "bias": _named("bias")}
WEIGHT_NORMALISED: Kind = {"kernel": _named("V"), "gain": _named("g"), "bias": _named("b")}
ATTENTION: Kind = {ours: _named(f"{theirs}/kernel") for ours, theirs in (
    ("query", "q"), ("key", "k"), ("value", "v"), ("output", "output_transform"))}
FEED_FORWARD: Kind = {f"{part}_{name}": _named(f"{part}_layer/{name}")
                      for part in ("filter", "output") for name in ("kernel", "bias")}
CELL: Kind = {
    "kernel": [Source(("kernel",), _lstm_input), Source(("gates/kernel", "candidate/kernel"), _gru_input),
               Source(("gates/kernel", f"{_OF_INPUT}kernel"), _gru_input)],
    "recurrent_kernel": [Source(("kernel",), _lstm_state),
                         Source(("gates/kernel", f"{_OF_STATE}kernel"), _gru_state),
                         Source(("gates/kernel",), _gru_state)],
    "candidate_kernel": [Source(("candidate/kernel",), _gru_candidate)],
    "bias": [Source(("bias",), _lstm_bias), Source(("gates/bias", "candidate/bias"), _gru_bias),
             Source(("gates/bias", f"{_OF_INPUT}bias"), _gru_bias)],
    "recurrent_bias": _named(f"{_OF_STATE}bias"),
    "scale": [Source(tuple(f"{gate}/gamma" for gate in _NORMALISED), _joined)],
    "offset": [Source(tuple(f"{gate}/beta" for gate in _NORMALISED), _norm_offset)]}
MEMORY: Kind = {"memory_kernel": _named("kernel")}
_SCORE: Kind = {
    "query_kernel": _named("query_layer/kernel"), "score_vector": _named("attention_v"),
    "score_scale": _named("attention_g"), "inner_bias": _named("attention_bias"),
    **{name: _named("location_conv/kernel") for name in ("filters", "place_filters")},
    **{name: _named("location_conv/bias") for name in ("filter_bias", "place_bias")},
    **{name: _named("location_dense/kernel") for name in ("location_kernel", "place_kernel")}}
SCORE: Kind = {**_SCORE, "bias": _named("attention_b")}
# The original's heads have no bias.
SPELLER_SCORE: Kind = {**_SCORE, "bias": [Source(("attention_v",), lambda arrays, forget: np.zeros_like(arrays[0]))]}
SPELLER: Kind = {"output_kernel_0": _named("attention_layer/kernel")}
EMBEDDING: Kind = {"table": _named("weights")}
POSITIONS: Kind = {"table": [Source(("weights",), _without_first)]}
STYLE: Kind = {"tokens": _named("token_embeddings"), "score_vector": _named("attention/attention_v")}
TRANSPOSED: Kind = {"kernel": [_transposed("kernel")], "bias": _named("bias")}
# What encoders and decoders have beside their parts.
DIRECT: Kind = {
    "embedding": [*_named("EncoderEmbeddingMatrix", "DecoderEmbeddingMatrix", "TargetEmbeddingMatrix"),
                  _transposed("dense/kernel")],
    "source_positions": _named("EncoderPositionEmbeddingMatrix"),
    "target_positions": _named("DecoderPositionEmbeddingMatrix"),
    "kernel": _named("fully_connected/kernel"), "bias": _named("fully_connected/bias"),
    "output_kernel": _named("decoder/dense/kernel", "dense/kernel", "decoder/fully_connected/fully_connected_0/kernel"),
    "output_bias": _named("decoder/fully_connected/fully_connected_0/bias")}
