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


def _projected_lstm(x, h, c, w, u, p, b):
    y, c = _lstm(x, h, c, w, u, b)
    return tf.linalg.matvec(p, y, transpose_a=True), c


def _input_lstm(x, h, c, w, b):
    return _lstm(x, h, c, w, tf.zeros([h.shape[0], b.shape[0]], tf.float64), b)


def _grouped(x, h, w, u):
    """Sums of products: each group of each gate depends on a group of the input and of the output before."""
    by_group = [tf.split(tf.linalg.matvec(own_w, own_x, transpose_a=True) + tf.linalg.matvec(
        own_u, own_h, transpose_a=True), 4) for own_x, own_h, own_w, own_u in zip(
            tf.split(x, w.shape[0]), tf.split(h, w.shape[0]), tf.unstack(w), tf.unstack(u), strict=True)]
    return [tf.concat(parts, 0) for parts in zip(*by_group, strict=True)]


def stepper(direction):
    """Returns a function (input, states) → new states for a ``Direction`` of any kind, and its weights by name."""
    weights = {name: tf.cast(value, tf.float64) for name, value in vars(direction).items()
               if isinstance(value, tf.Variable)}
    kind = direction.cell.name

    def plain(x, states):
        if weights["kernel"].shape.rank == 3:
            sums = tf.concat(_grouped(x, states[0], weights["kernel"], weights["recurrent_kernel"]), 0)
            identity = tf.eye(sums.shape[0], dtype=tf.float64)
            c = _lstm(sums, tf.zeros([1], tf.float64), states[1], identity,
                      tf.zeros([1, sums.shape[0]], tf.float64), weights["bias"])
            return (tf.linalg.matvec(weights["projection"], c[0], transpose_a=True), c[1]) \
                if kind == "projected_lstm" else c
        if "expansion" in weights:
            narrow = tf.linalg.matvec(weights["kernel"], x, transpose_a=True) + tf.linalg.matvec(
                weights["recurrent_kernel"], states[0], transpose_a=True)
            rest = [weights[name] for name in ("projection", "bias") if name in weights]
            nothing = tf.zeros([states[0].shape[0], weights["expansion"].shape[1]], tf.float64)
            return step(kind, narrow, states, [weights["expansion"], nothing, *rest])
        return step(kind, x, states, [weights[name] for name in WEIGHTS[kind]])

    def mixed(x, states):
        rate = direction.zoneout_rate
        return tuple(rate * old + (1.0 - rate) * new for old, new in zip(states, plain(x, states), strict=True))

    return mixed, weights


WEIGHTS = {
    "projected_lstm": ("kernel", "recurrent_kernel", "projection", "bias"),
    "input_lstm": ("kernel", "bias"),
    "lstm": ("kernel", "recurrent_kernel", "bias"),
    "gru": ("kernel", "recurrent_kernel", "bias", "recurrent_bias"),
    "classic_gru": ("kernel", "recurrent_kernel", "candidate_kernel", "bias"),
    "layernorm_lstm": ("kernel", "recurrent_kernel", "scale", "offset"),
}


def step(cell_type, x, states, weights):
    """Returns the states after one step of one example; the output comes first."""
    found = {"lstm": _lstm, "layernorm_lstm": _layer_norm_lstm, "projected_lstm": _projected_lstm,
             "input_lstm": _input_lstm, "gru": _gru, "classic_gru": _classic_gru}[cell_type](x, *states, *weights)
    return found if isinstance(found, tuple) else (found,)


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
