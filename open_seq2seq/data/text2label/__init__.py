"""Labelled text, for classification."""
