"""Streaming speech recognition."""
