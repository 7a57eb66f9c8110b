"""Random lengths of the chunks of a text, as in the recipe of AWD-LSTM (Merity et al. 2018, section 5).

With chunks of a fixed length, gradients would be cut off at the same places of the text in every epoch.
"""

from __future__ import annotations

import functools

import numpy as np

_HALVED = 0.05  # probability that the mean of a length is half of the base length
_DEVIATION = 5.0  # standard deviation of the lengths, in tokens
_SHORTEST = 5

SHORTEST_BASE = 2 * _SHORTEST
"""Smallest allowed base length; half of it is the shortest length that is drawn."""


def num_random_chunks(tokens: int, base: int) -> int:
    """Returns into how many chunks of random lengths a text is cut: its length divided by the mean chunk length."""
    return int(tokens / ((1.0 - _HALVED / 2.0) * base))


@functools.lru_cache(maxsize=4)
def chunk_offsets(count: int, base: int, tokens: int, *seed: int) -> np.ndarray:
    """Draws the lengths of consecutive chunks and returns their offsets.

    A length has a normal distribution around ``base`` or, with a probability of 5 %, around half of it. Its standard
    deviation is 5 tokens, and lengths below 5 become 5. If the chunks together are longer than the text, all are
    shortened in proportion.

    Args:
      count: number of chunks.
      base: most probable length, in tokens.
      tokens: length of the text.
      seed: seeds of the random numbers.

    Returns:
      ``[count + 1]`` int64; chunk i comprises the tokens from offset i to before offset i + 1. The array is cached and
      must not be changed.
    """
    generator = np.random.default_rng(seed)
    means = np.where(generator.random(count) < _HALVED, base / 2.0, base)
    ends = np.cumsum(np.maximum(np.floor(generator.normal(means, _DEVIATION)), _SHORTEST))
    return np.append(0, np.floor(ends * min(1.0, tokens / ends[-1]))).astype(np.int64)
