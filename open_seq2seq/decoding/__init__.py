"""Decoding: turns step-by-step scores into sequences."""
