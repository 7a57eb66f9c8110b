"""Processes that watch one another, so that none waits for one that is gone."""
