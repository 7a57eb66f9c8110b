"""Processes that watch one another, so that none waits forever for a lost process."""
