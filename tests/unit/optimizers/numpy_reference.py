"""Optimizers, policies, LARC, averaging and loss scalers in float64 NumPy, written from the papers' formulas.

An optimizer is a function that gives a stateful rule ``(w, g, lr) -> new w`` for one variable.
"""

from __future__ import annotations

import math

import numpy as np


def follow(rule, w, grads, lrs):
    """Returns w after an update by each gradient."""
    w = np.asarray(w, np.float64)
    for g, lr in zip(grads, lrs, strict=True):
        w = rule(w, np.asarray(g, np.float64), float(lr))
    return w


def sgd():
    return lambda w, g, lr: w - lr * g


def momentum(mu=0.9, nesterov=False):
    a = 0.0

    def rule(w, g, lr):
        nonlocal a
        a = mu * a + g
        return w - lr * (g + mu * a if nesterov else a)

    return rule


def adam(beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, nesterov=False):
    m = v = 0.0
    t = 0

    def rule(w, g, lr):
        nonlocal m, v, t
        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        rate = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        direction = beta1 * m + (1 - beta1) * g if nesterov else m
        return w - lr * weight_decay * w - rate * direction / (np.sqrt(v) + epsilon)

    return rule


def lazy_adam(w, sparse_grads, lrs, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """``sparse_grads``: (values, indices) of each update; indices may repeat."""
    w, m, v = w.copy(), np.zeros_like(w), np.zeros_like(w)
    for t, ((values, indices), lr) in enumerate(zip(sparse_grads, lrs, strict=True), 1):
        rate = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        for row in sorted(set(indices)):
            g = sum(value for value, index in zip(values, indices, strict=True) if index == row)
            m[row] = beta1 * m[row] + (1 - beta1) * g
            v[row] = beta2 * v[row] + (1 - beta2) * g**2
            w[row] -= rate * m[row] / (np.sqrt(v[row]) + epsilon)
    return w


def adagrad(initial=0.1):
    a = initial

    def rule(w, g, lr):
        nonlocal a
        a = a + g**2
        return w - lr * g / np.sqrt(a)

    return rule


def rmsprop(decay=0.9, mu=0.0, epsilon=1e-10, centered=False):
    s, c, a = 1.0, 0.0, 0.0

    def rule(w, g, lr):
        nonlocal s, c, a
        s = decay * s + (1 - decay) * g**2
        c = decay * c + (1 - decay) * g
        a = mu * a + lr * g / np.sqrt(s - (c**2 if centered else 0) + epsilon)
        return w - a

    return rule


def ftrl(power=-0.5, initial=0.1, l1=0.0, l2=0.0, shrinkage=0.0):
    n, z = initial, 0.0

    def rule(w, g, lr):
        nonlocal n, z
        before, n = n, n + g**2
        z = z + g + 2 * shrinkage * w - (n**-power - before**-power) / lr * w
        return (np.clip(z, -l1, l1) - z) / (n**-power / lr + 2 * l2)

    return rule


def adafactor(decay_rate=0.8, beta1=0.0, threshold=1.0, factored=True, relative=True, epsilon1=1e-30, epsilon2=1e-3):
    m = v = r = c = 0.0
    t = 0

    def rule(w, g, lr):
        nonlocal m, v, r, c, t
        t += 1
        beta2 = 1 - t**-decay_rate
        square = g**2 + epsilon1
        if factored and w.ndim >= 2:
            r = beta2 * r + (1 - beta2) * square.sum(-1)
            c = beta2 * c + (1 - beta2) * square.sum(-2)
            v = r[..., :, None] * c[..., None, :] / r.sum(-1)[..., None, None]
        else:
            v = beta2 * v + (1 - beta2) * square
        u = g / np.sqrt(v)
        u = u / max(1, np.sqrt(np.mean(u**2)) / threshold)
        change = lr * (max(epsilon2, np.sqrt(np.mean(w**2))) if relative else 1) * u
        if beta1:
            m = change = beta1 * m + (1 - beta1) * change
        return w - change

    return rule


def novograd(beta1=0.95, beta2=0.98, epsilon=1e-8, weight_decay=0.0, grad_averaging=False, ema=True):
    m = 0.0
    v = None

    def rule(w, g, lr):
        nonlocal m, v
        square = np.sum(g**2)
        v = square if v is None or not ema else beta2 * v + (1 - beta2) * square
        g = g / (np.sqrt(v) + epsilon if ema else np.sqrt(v + epsilon)) + weight_decay * w
        m = beta1 * m + (g * (1 - beta1) if grad_averaging else g)
        return w - lr * m

    return rule


def orthogonal(x, steps=5, dtype=np.float64):
    """Newton-Schulz with the published coefficients in ``dtype``, the shorter side first, of the normalised matrix."""
    x = np.asarray(x)
    x = (x / (np.linalg.norm(x) + 1e-7)).astype(dtype)
    is_tall = x.shape[0] >= x.shape[1]
    x = x.T if is_tall else x
    # NumPy adds up products of bfloat16 in bfloat16; processors add them up in FP32.
    wide = np.promote_types(np.float32, dtype) if dtype in (np.float32, np.float64) else np.float32

    def product(a, b):
        return (a.astype(wide) @ b.astype(wide)).astype(dtype)

    for _ in range(steps):
        a = product(x, x.T)
        x = dtype(3.4445) * x + product(dtype(-4.7750) * a + dtype(2.0315) * product(a, a), x)
    return x.T if is_tall else x


def muon(momentum=0.95, nesterov=True, steps=5, rms_rate=0.2, dtype=np.float64):
    a = 0.0

    def rule(w, g, lr):
        nonlocal a
        a = momentum * a + g
        direction = g + momentum * a if nesterov else a
        matrix = direction.reshape(-1, direction.shape[-1]).T  # outputs by inputs, as published
        outputs, inputs = matrix.shape
        factor = max(1, outputs / inputs) ** 0.5 if rms_rate is None else rms_rate * max(outputs, inputs) ** 0.5
        change = orthogonal(matrix, steps, dtype).astype(np.float64)
        return w - lr * factor * change.T.reshape(w.shape)

    return rule


def muon_or_adam(adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, adam_lr_ratio=1.0, **params):
    """Muon for two or more axes, Adam for vectors."""
    matrices, others = muon(**params), adam(adam_beta1, adam_beta2, adam_epsilon)
    return lambda w, g, lr: matrices(w, g, lr) if w.ndim > 1 else others(w, g, lr * adam_lr_ratio)


def schedule_free(beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, warmup=0, averages=None):
    """Algorithm of Defazio et al. 2024; the average x after each update is added to the list ``averages``."""
    x = z = None
    v = total = 0.0
    t = 0

    def rule(y, g, lr):
        nonlocal x, z, v, total, t
        t += 1
        x, z = (y, y) if t == 1 else (x, z)
        v = beta2 * v + (1 - beta2) * g**2
        rate = lr * np.sqrt(1 - beta2**t) * (min(1, t / warmup) if warmup else 1)
        z = z - rate * g / (np.sqrt(v) + epsilon) - rate * weight_decay * y
        total += rate**2
        c = rate**2 / total if total else 0.0
        x = (1 - c) * x + c * z
        if averages is not None:
            averages.append(x)
        return (1 - beta1) * z + beta1 * x

    return rule


def with_weight_decay(rule, decay):
    """Puts decoupled weight decay beside an optimizer's rule."""
    return lambda w, g, lr: rule(w - lr * decay * w, g, lr)


def with_average(rule, average, decay):
    """Keeps a moving average of the weights in the one-element list ``average``."""
    n = 0

    def wrapped(w, g, lr):
        nonlocal n
        w = rule(w, g, lr)
        d = min(decay, (1 + n) / (10 + n))
        average[0] = d * average[0] + (1 - d) * w
        n += 1
        return w

    return wrapped


def larc_factor(w, g, lr, larc_eta, larc_mode="clip", min_update=1e-7, epsilon=1e-7):
    """What a gradient is multiplied by."""
    ratio = larc_eta * np.linalg.norm(w)
    if larc_mode == "scale":
        return max(ratio / (np.linalg.norm(g) + epsilon), min_update)
    # At rate 0 the limit: infinite for a variable that is not all zeros.
    with np.errstate(divide="ignore"):
        return min(1.0, max(np.divide(ratio, lr * (np.linalg.norm(g) + epsilon)) if ratio else 0.0, min_update))


def with_larc(rule, factors=None, **params):
    """Puts LARC before an optimizer's rule; its factors are added to the list ``factors``."""
    def wrapped(w, g, lr):
        u = larc_factor(w, g, lr, **params)
        if factors is not None:
            factors.append(u)
        return rule(w, u * g, lr)

    return wrapped


# Learning-rate policies: the rate at update s, 0 at first.


def poly(s, lr, steps, power=1.0, begin=0, least=0.0, warmup=0):
    begin = max(begin, warmup)
    if s < warmup:
        return lr * s / warmup
    if s < begin:
        return lr
    return (lr - least) * (1 - min(s - begin, steps) / steps) ** power + least


def cosine(s, lr, steps, begin=0, fraction=0.0, warmup=0):
    begin = max(begin, warmup)
    if s < begin:
        return poly(s, lr, steps, 1.0, begin, 0.0, warmup)
    return lr * ((1 - fraction) * 0.5 * (1 + math.cos(math.pi * min(s - begin, steps) / steps)) + fraction)


def exponential(s, lr, steps, rate, staircase, begin=0, least=0.0):
    if s < begin:
        return lr
    exponent = (s - begin) / steps
    return max(least, lr * rate ** (math.floor(exponent) if staircase else exponent))


def inverse(s, lr, steps, least, power=1.0):
    slope = ((lr / max(least, 1e-8)) ** (1 / power) - 1) / steps
    return lr / (1 + slope * s) ** power


def transformer(s, lr, d_model, warmup):
    return lr * d_model**-0.5 * min((s + 1) * warmup**-1.5, (s + 1) ** -0.5)


def piecewise(s, lr, boundaries, rates):
    return lr * [1.0, *rates][sum(s > boundary for boundary in boundaries)]


# Loss scalers.


def backoff(finite, scale_min=1.0, scale_max=2.0**14, factor=2.0, window=2000):
    """Yields the scale after each pass."""
    scale, last = scale_max, -1
    for iteration, ok in enumerate(finite):
        if not ok:
            scale, last = np.clip(scale / factor, scale_min, scale_max), iteration
        elif (iteration - last) % window == 0:
            scale = np.clip(scale * factor, scale_min, scale_max)
        yield scale


def logmax(amaxes, scale_min=1.0, scale_max=2.0**14, log_max=16.0, beta1=0.99, beta2=0.999, deviations=3.09):
    """Yields the scale after each pass; overflows are given as inf or NaN."""
    fast = slow = square = 0.0
    scale = 1.0
    for t, amax in enumerate(amaxes, 1):
        if not np.isfinite(amax):
            x = log_max
        else:
            x = np.log2(amax if amax > 0 else 2.0**-24 / scale)
        fast = beta1 * fast + (1 - beta1) * x
        slow = beta2 * slow + (1 - beta2) * x
        square = beta2 * square + (1 - beta2) * x**2
        mean, slow_mean, slow_square = fast / (1 - beta1**t), slow / (1 - beta2**t), square / (1 - beta2**t)
        sigma = np.sqrt(max(0.0, slow_square - slow_mean**2))
        scale = float(np.clip(2.0 ** (log_max - (mean + deviations * sigma)), scale_min, scale_max))
        yield scale
