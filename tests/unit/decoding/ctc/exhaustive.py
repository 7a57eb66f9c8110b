"""Slow and plain: what a CTC search has to find."""

from __future__ import annotations

import itertools
import math

import numpy as np


def random_logits(steps, vocab, seed=0, scale=2.0):
    return scale * np.random.default_rng(seed).normal(size=(steps, vocab))


def label_probabilities(logits):
    """Log probability of every label sequence that any path of ``[time, vocabulary]`` leads to."""
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    blank = logits.shape[1] - 1
    found = {}
    for path in itertools.product(range(blank + 1), repeat=len(logits)):
        label = tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != blank)
        found.setdefault(label, []).append(log_probs[np.arange(len(logits)), path].sum())
    return {label: np.logaddexp.reduce(scores) for label, scores in found.items()}


def text_scores(logits, labels, score_words):
    """Log probability of every text plus ``score_words(words)``, the impossible ones left out."""
    texts = {}
    for label, log_prob in label_probabilities(logits).items():
        words = tuple("".join(labels[i] for i in label).replace("\u2581", " ").split())
        texts.setdefault(words, []).append(log_prob)
    scores = {words: np.logaddexp.reduce(found) + score_words(words) for words, found in texts.items()}
    return {" ".join(words): score for words, score in scores.items() if score > -math.inf}
