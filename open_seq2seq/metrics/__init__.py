"""Metrics: how results are judged."""
