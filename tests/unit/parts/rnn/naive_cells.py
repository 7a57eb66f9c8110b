"""Recurrent networks as their papers write them: one example, one step at a time, in float64."""

from __future__ import annotations

import tensorflow as tf


def _lstm(x, h, c, w, u, b):
    i, f, o, g = tf.split(tf.linalg.matvec(w, x, transpose_a=True) + tf.linalg.matvec(u, h, transpose_a=True) + b, 4)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def _gru(x, h, w, u, b, b_inner):
    x, u = tf.linalg.matvec(w, x, transpose_a=True) + b, tf.linalg.matvec(u, h, transpose_a=True)
    (xz, xr, xn), (uz, ur, un) = tf.split(x, 3), tf.split(u, 3)
    z, r = tf.sigmoid(xz + uz), tf.sigmoid(xr + ur)
    return z * h + (1.0 - z) * tf.tanh(xn + r * (un + b_inner))


def _classic_gru(x, h, w, u, u_candidate, b):
    xz, xr, xn = tf.split(tf.linalg.matvec(w, x, transpose_a=True) + b, 3)
    uz, ur = tf.split(tf.linalg.matvec(u, h, transpose_a=True), 2)
    z, r = tf.sigmoid(xz + uz), tf.sigmoid(xr + ur)
    return z * h + (1.0 - z) * tf.tanh(xn + tf.linalg.matvec(u_candidate, r * h, transpose_a=True))


def _norm(x, scale, offset):
    mean, variance = tf.nn.moments(x, 0)
    return (x - mean) / tf.sqrt(variance + 1e-6) * scale + offset


def _layer_norm_lstm(x, h, c, w, u, scale, offset):
    z = tf.split(tf.linalg.matvec(w, x, transpose_a=True) + tf.linalg.matvec(u, h, transpose_a=True), 4)
    scales, offsets = tf.split(scale, 5), tf.split(offset, 5)
    i, f, o, g = (_norm(*parts) for parts in zip(z, scales, offsets, strict=False))
    c = _norm(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), scales[4], offsets[4])
    return tf.sigmoid(o) * tf.tanh(c), c


WEIGHTS = {
    "lstm": ("kernel", "recurrent_kernel", "bias"),
    "gru": ("kernel", "recurrent_kernel", "bias", "recurrent_bias"),
    "classic_gru": ("kernel", "recurrent_kernel", "candidate_kernel", "bias"),
    "layernorm_lstm": ("kernel", "recurrent_kernel", "scale", "offset"),
}


def step(cell_type, x, states, weights):
    """Returns the states after one step of one example; the output comes first."""
    if cell_type in ("lstm", "layernorm_lstm"):
        return (_lstm if cell_type == "lstm" else _layer_norm_lstm)(x, *states, *weights)
    return ((_gru if cell_type == "gru" else _classic_gru)(x, *states, *weights),)


def zeros(cell_type, hidden):
    """Returns the states before the first step."""
    return tuple(tf.zeros([hidden], tf.float64) for _ in range(2 if "lstm" in cell_type else 1))


def run(cell_type, x, weights, hidden):
    """Returns the outputs ``[time, hidden]`` of one example ``[time, input]``, all float64."""
    states, outputs = zeros(cell_type, hidden), []
    for number in range(x.shape[0]):
        states = step(cell_type, x[number], states, weights)
        outputs.append(states[0])
    return tf.stack(outputs)
