"""Hypotheses of n-best lists, and rescoring them with another language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Name = TypeVar("Name")


class Candidate(NamedTuple):
    """One hypothesis of an n-best list, with scores in nats: ``score`` = ``acoustic`` + ``lm``."""

    text: str
    score: float
    acoustic: float
    lm: float


def score_of(text: str) -> float:
    """Converts a score in nats from a file; it may be -infinity, the score of what is impossible.

    Raises:
      ValueError: the text is not a number, or it is NaN or infinity.
    """
    number = float(text)
    if not number < math.inf:
        raise ValueError(f"The score is {number}.")
    return number


def scored_candidate(score: str, text: str) -> Candidate:
    """Returns a hypothesis of a file that contains only total scores: ``acoustic`` is the score, and ``lm`` is 0.

    Raises:
      ValueError: the score is not one.
    """
    number = score_of(score)
    return Candidate(text, number, number, 0.0)


def rescore(n_best: Mapping[Name, Sequence[Candidate]], log_prob: Callable[[str], float], alpha: float,
            beta: float = 0.0) -> dict[Name, list[Candidate]]:
    """Returns the lists with alpha · log_prob(text) + beta · words added to ``score`` and ``lm``, sorted best first.

    Args:
      n_best: the lists.
      log_prob: function that returns the natural log probability of a text under any model.
      alpha: weight of ``log_prob``.
      beta: bonus for each word.
    """
    result = {}
    for name, candidates in n_best.items():
        gains = [alpha * log_prob(candidate.text) + beta * len(candidate.text.split()) for candidate in candidates]
        changed = [c._replace(score=c.score + gain, lm=c.lm + gain) for c, gain in zip(candidates, gains, strict=True)]
        result[name] = sorted(changed, key=lambda candidate: -candidate.score)
    return result
