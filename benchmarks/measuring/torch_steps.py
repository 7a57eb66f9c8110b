"""Training steps in PyTorch, one for each line on stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any


def make_steps(optimizer: Any, make_loss: Callable[[], Any]) -> None:
    """Makes a training step for each line on stdin, and prints its time in seconds.

    Args:
      optimizer: a torch.optim.Optimizer.
      make_loss: makes a batch and returns its loss.
    """
    for _ in sys.stdin:
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = make_loss()
        loss.backward()
        optimizer.step()
        loss.item()
        print(time.perf_counter() - start, flush=True)
