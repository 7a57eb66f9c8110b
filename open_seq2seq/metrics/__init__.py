"""Metrics that evaluate a model's results."""
