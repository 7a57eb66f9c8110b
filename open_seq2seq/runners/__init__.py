"""Runners define which devices and processes compute, and how gradients and results are combined."""

from open_seq2seq.runners.build import make_runner, on_this_machine, one_device
from open_seq2seq.runners.runner import Runner

__all__ = ["Runner", "make_runner", "on_this_machine", "one_device"]
