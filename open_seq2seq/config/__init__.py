"""Reads, merges, overrides, checks and saves configs."""
