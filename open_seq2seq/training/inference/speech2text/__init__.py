"""Inference for speech recognition."""
