"""Public import path of ``Hook``."""

from open_seq2seq.training.loop.hooks import Hook

__all__ = ["Hook"]
