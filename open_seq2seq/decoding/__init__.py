"""Decoding: from step-by-step scores to sequences."""
