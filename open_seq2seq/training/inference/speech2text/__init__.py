"""Inference of speech recognition."""
