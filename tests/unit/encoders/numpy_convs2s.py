"""The convolutional encoder and decoder with weight normalisation in NumPy, position by position."""

from __future__ import annotations

from typing import Any

import numpy as np

ROOT = np.sqrt(0.5)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    """A layer of width 1 at each position."""
    return convolved(layer, x, 0)


def convolved(layer: Any, x: np.ndarray, before: int) -> np.ndarray:
    """Outputs ``[time, channels]`` of windows that begin ``before`` positions before their output."""
    kernel, gain, bias = (variable.numpy().astype(np.float64) for variable in (layer.kernel, layer.gain, layer.bias))
    outputs = np.zeros([len(x), kernel.shape[2]])
    for channel in range(kernel.shape[2]):
        taps = gain[channel] * kernel[..., channel] / np.sqrt(np.sum(kernel[..., channel] ** 2))
        for place in range(len(x)):
            for tap, weights in enumerate(taps):
                if 0 <= place + tap - before < len(x):
                    outputs[place, channel] += weights @ x[place + tap - before]
            outputs[place, channel] += bias[channel]
    return outputs


def gated(x: np.ndarray) -> np.ndarray:
    values, gates = np.split(x, 2, 1)
    return values / (1.0 + np.exp(-gates))


def embedded(table: Any, positions: Any, ids: np.ndarray) -> np.ndarray:
    """Embeddings of ids, zeros for id 0, and of their positions."""
    found = np.where(ids[:, None] == 0, 0.0, table.table.numpy()[ids].astype(np.float64))
    if positions is None:
        return found
    rows = positions.table.numpy()
    return found + rows[np.minimum(np.arange(len(ids)), len(rows) - 1)]


def encode(encoder: Any, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values ``[time, size]`` of one sentence."""
    start = embedded(encoder.embedding, encoder.positions, ids)
    x = linear(encoder.input_layer, start)
    for layer in encoder.layers:
        y = gated(convolved(layer.convolution, x, (layer.width - 1) // 2))
        x = (y + (x if layer.projection is None else linear(layer.projection, x))) * ROOT
    keys = linear(encoder.output_layer, x)
    return keys, (keys + start) * ROOT


def decode(decoder: Any, table: Any, keys: np.ndarray, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Logits ``[time, ids]`` of one sentence."""
    start = embedded(table, decoder.positions, ids)
    x = linear(decoder.input_layer, start)
    for layer in decoder.layers:
        y = gated(convolved(layer.convolution.convolution, x, layer.convolution.width - 1))
        scores = (linear(layer.attention.query, y) + start) * ROOT @ keys.T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        context = weights / weights.sum(1, keepdims=True) @ values * np.sqrt(len(keys))
        y = (linear(layer.attention.output, context) + y) * ROOT
        projection = layer.convolution.projection
        x = (y + (x if projection is None else linear(projection, x))) * ROOT
    hidden = linear(decoder.output_layer, x)
    if decoder.vocabulary_layer is not None:
        return linear(decoder.vocabulary_layer, hidden)
    return hidden @ table.table.numpy().T
