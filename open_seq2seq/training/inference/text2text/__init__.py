"""Inference for text."""
