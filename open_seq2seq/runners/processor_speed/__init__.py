"""Measures how fast this processor computes in float32 and in bfloat16, and caches the result."""
