"""Serving of trained models over HTTP."""
