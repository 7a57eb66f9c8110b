"""Makes a forward and backward pass of PyTorch's recurrent layers for each line on stdin; prints its time in seconds.

Arguments: cell, layers, hidden size, input size, batch size, steps, bidirectional (0 or 1), threads,
dtype (float32 or bfloat16).
"""

from __future__ import annotations

import sys
import time

import torch  # type: ignore[import-not-found]


def main() -> None:
    """Makes passes until stdin is closed."""
    cell, *numbers, dtype = sys.argv[1:]
    layers, hidden, size, batch, steps, bidirectional, threads = map(int, numbers)
    torch.set_num_threads(threads)
    kind = torch.nn.LSTM if cell == "lstm" else torch.nn.GRU
    network = kind(size, hidden, layers, batch_first=True, bidirectional=bool(bidirectional))
    x = torch.randn(batch, steps, size, requires_grad=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            outputs = network(x)[0]
        outputs.float().square().sum().backward()
        network.zero_grad()
        x.grad = None
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
