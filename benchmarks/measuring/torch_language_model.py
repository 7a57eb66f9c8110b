"""A training step of a recurrent language model in PyTorch for each line on stdin; prints its time in seconds.

The network is that of ``LMEncoder`` with ``LSTMCell`` and as many units as embedding channels, without dropout: one
nn.LSTM, softmax over the whole vocabulary with the table of embeddings, and Adam (the fused one).

Arguments: layers, hidden, ids, batch, tokens per chunk, threads.
"""

from __future__ import annotations

import sys
from typing import Any

import torch  # type: ignore[import-not-found]
from torch import nn
from torch.nn import functional

from benchmarks.measuring.torch_steps import make_steps


class Network(nn.Module):
    """The network; returns the loss of a batch."""

    def __init__(self, layers: int, hidden: int, ids: int) -> None:
        super().__init__()
        self.table = nn.Embedding(ids, hidden)
        self.stack = nn.LSTM(hidden, hidden, layers)
        self.output = nn.Linear(hidden, ids)
        self.output.weight = self.table.weight

    def forward(self, inputs: Any, targets: Any) -> Any:
        return functional.cross_entropy(self.output(self.stack(self.table(inputs))[0].flatten(0, 1)), targets.flatten())


def main() -> None:
    """Makes steps until stdin is closed."""
    layers, hidden, ids, batch, length, threads = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    network = Network(layers, hidden, ids)
    optimizer = torch.optim.Adam(network.parameters(), 1e-4, fused=True)

    def make_loss() -> Any:
        text = torch.randint(ids, (length + 1, batch))
        return network(text[:-1], text[1:])

    make_steps(optimizer, make_loss)


if __name__ == "__main__":
    main()
