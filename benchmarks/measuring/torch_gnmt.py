"""Makes a training step of GNMT in PyTorch for each line on stdin; prints its time in seconds.

The network is that of ``GNMTLikeEncoderWithEmbedding`` and ``RNNDecoderWithAttention`` with ``gnmt_v2``: nn.LSTM over
whole layers (with input feeding, nn.LSTMCell step by step for the decoder's first layer), one table of embeddings for
source, target and output, cross entropy with label smoothing 0.1, and Adam.

Arguments: number of encoder layers, number of decoder layers, hidden size, vocabulary size, batch size, tokens per
sentence, input feeding (0 or 1), threads, dtype (float32 or bfloat16).
"""

from __future__ import annotations

import sys
from typing import Any

import torch  # type: ignore[import-not-found]
from torch import nn
from torch.nn import functional

from benchmarks.measuring.torch_steps import make_steps

_KEEP, _SMOOTHING = 0.8, 0.1


class Attention(nn.Module):
    """Bahdanau attention with a normalised score vector; returns contexts ``[batch, queries, hidden]``."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden, bias=False)
        self.vector, self.scale = nn.Parameter(torch.randn(hidden) / hidden ** 0.5), nn.Parameter(torch.ones(()))

    def forward(self, queries: Any, keys: Any, values: Any) -> Any:
        sums = torch.tanh(self.query(queries)[:, :, None] + keys[:, None])
        scores = sums @ (self.vector * self.scale / self.vector.norm())
        return torch.softmax(scores, -1) @ values


class Gnmt(nn.Module):
    """The network; returns the loss of a batch."""

    def __init__(self, encoder_layers: int, decoder_layers: int, hidden: int, ids: int, feeds: bool) -> None:
        super().__init__()
        self.hidden, self.feeds = hidden, feeds
        self.table = nn.Embedding(ids, hidden)
        self.both = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.encoder = nn.ModuleList(nn.LSTM(2 * hidden if number == 0 else hidden, hidden, batch_first=True)
                                     for number in range(encoder_layers - 1))
        self.attention = Attention(hidden)
        self.fed = nn.LSTMCell(2 * hidden, hidden) if feeds else nn.LSTM(hidden, hidden, batch_first=True)
        self.decoder = nn.ModuleList(nn.LSTM(2 * hidden, hidden, batch_first=True) for _ in range(decoder_layers - 1))
        self.output = nn.Linear(hidden, ids)
        self.output.weight = self.table.weight

    def forward(self, source: Any, inputs: Any, targets: Any) -> Any:
        memory = self.encode(source)
        embedded = functional.dropout(self.table(inputs), 1 - _KEEP)
        x, context = (self.step_by_step if self.feeds else self.whole)(embedded, self.attention.key(memory), memory)
        for number, layer in enumerate(self.decoder):
            y = layer(functional.dropout(torch.cat([x, context], -1), 1 - _KEEP))[0]
            x = x + y if number else y
        return functional.cross_entropy(self.output(x).flatten(0, 1).float(), targets.flatten(),
                                        label_smoothing=_SMOOTHING)

    def encode(self, source: Any) -> Any:
        x = self.both(functional.dropout(self.table(source), 1 - _KEEP))[0]
        for number, layer in enumerate(self.encoder):
            y = layer(functional.dropout(x, 1 - _KEEP))[0]
            x = x + y if number else y
        return x

    def whole(self, embedded: Any, keys: Any, values: Any) -> Any:
        x = self.fed(embedded)[0]
        return x, self.attention(x, keys, values)

    def step_by_step(self, embedded: Any, keys: Any, values: Any) -> Any:
        hidden = state = context = embedded.new_zeros(len(embedded), self.hidden)
        outputs, contexts = [], []
        for step in range(embedded.shape[1]):
            hidden, state = self.fed(torch.cat([embedded[:, step], context], -1), (hidden, state))
            context = self.attention(hidden[:, None], keys, values)[:, 0]
            outputs.append(hidden)
            contexts.append(context)
        return torch.stack(outputs, 1), torch.stack(contexts, 1)


def main() -> None:
    """Makes steps until stdin is closed."""
    *numbers, dtype = sys.argv[1:]
    encoder, decoder, hidden, ids, batch, length, feeds, threads = map(int, numbers)
    torch.set_num_threads(threads)
    network = Gnmt(encoder, decoder, hidden, ids, bool(feeds))
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)

    def make_loss() -> Any:
        source, targets = torch.randint(ids, (2, batch, length))
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            return network(source, targets, targets)

    make_steps(optimizer, make_loss)


if __name__ == "__main__":
    main()
