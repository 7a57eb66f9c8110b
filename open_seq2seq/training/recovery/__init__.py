"""Divergence and errors: noticed, investigated, recovered from."""
