"""Makes passes of a network in PyTorch for each line on stdin, and prints their mean duration in seconds.

The argument is JSON: the number of ``steps`` in each round, the ``network``, and its options. The networks are those of
``benchmarks/training_steps.py`` (training steps), and ``recurrence``, recurrent layers (forward and backward passes).
This file needs no TensorFlow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import-not-found]
from torch import nn
from torch.nn import functional

_SIDE, _PADDING, _CLASSES = 32, 4, 10
_KEEP, _SMOOTHING = 0.8, 0.1
_SYMBOLS, _MELS, _ATTENTION, _FILTERS, _TAPS, _CELL_DROPOUT = 32, 80, 128, 32, 31, 0.1  # of Tacotron 2


def recurrence(options: argparse.Namespace) -> Callable[[], Any]:
    """Returns a forward and backward pass of nn.LSTM or nn.GRU."""
    kind = nn.LSTM if options.cell == "lstm" else nn.GRU
    network = kind(options.input, options.hidden, options.layers, batch_first=True,
                   bidirectional=not options.unidirectional)
    x = torch.randn(options.batch, options.length, options.input, requires_grad=True)

    def make_pass() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bfloat16"):
            outputs = network(x)[0]
        outputs.float().square().sum().backward()
        network.zero_grad()
        x.grad = None

    return make_pass


def _training_step(optimizer: Any, make_loss: Callable[[], Any]) -> Callable[[], Any]:
    def make_step() -> None:
        optimizer.zero_grad()
        loss = make_loss()
        loss.backward()
        optimizer.step()
        loss.item()

    return make_step


class LanguageModel(nn.Module):
    """The network of ``LMEncoder`` with ``LSTMCell`` and tied embeddings; returns the loss of a batch."""

    def __init__(self, layers: int, hidden: int, ids: int) -> None:
        super().__init__()
        self.table = nn.Embedding(ids, hidden)
        self.stack = nn.LSTM(hidden, hidden, layers)
        self.output = nn.Linear(hidden, ids)
        self.output.weight = self.table.weight

    def forward(self, inputs: Any, targets: Any) -> Any:
        return functional.cross_entropy(self.output(self.stack(self.table(inputs))[0].flatten(0, 1)), targets.flatten())


def lm(options: argparse.Namespace) -> Callable[[], Any]:
    """Returns a training step of the language model with the fused Adam."""
    network = LanguageModel(options.layers, options.hidden, options.ids)

    def make_loss() -> Any:
        text = torch.randint(options.ids, (options.length + 1, options.batch))
        return network(text[:-1], text[1:])

    return _training_step(torch.optim.Adam(network.parameters(), 1e-4, fused=True), make_loss)


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
    """The network of ``GNMTLikeEncoderWithEmbedding`` and ``RNNDecoderWithAttention`` with ``gnmt_v2``.

    nn.LSTM runs over whole layers; with input feeding, nn.LSTMCell runs step by step in the decoder's first layer. One
    table contains the embeddings of source, target and output. Returns the loss of a batch.
    """

    def __init__(self, layers: int, hidden: int, ids: int, feeds: bool) -> None:
        super().__init__()
        self.hidden, self.feeds = hidden, feeds
        self.table = nn.Embedding(ids, hidden)
        self.both = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.encoder = nn.ModuleList(nn.LSTM(2 * hidden if number == 0 else hidden, hidden, batch_first=True)
                                     for number in range(layers - 1))
        self.attention = Attention(hidden)
        self.fed = nn.LSTMCell(2 * hidden, hidden) if feeds else nn.LSTM(hidden, hidden, batch_first=True)
        self.decoder = nn.ModuleList(nn.LSTM(2 * hidden, hidden, batch_first=True) for _ in range(layers - 1))
        self.output = nn.Linear(hidden, ids)
        self.output.weight = self.table.weight

    def forward(self, source: Any, inputs: Any, targets: Any) -> Any:
        memory = self.encode(source)
        embedded = functional.dropout(self.table(inputs), 1 - _KEEP)
        x, context = (self.step_by_step if self.feeds else self.whole)(embedded, self.attention.key(memory), memory)
        for number, layer in enumerate(self.decoder):
            y = layer(functional.dropout(torch.cat([x, context], -1), 1 - _KEEP))[0]
            x = x + y if number else y
        return functional.cross_entropy(self.output(x).flatten(0, 1), targets.flatten(), label_smoothing=_SMOOTHING)

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


def gnmt(options: argparse.Namespace) -> Callable[[], Any]:
    """Returns a training step of GNMT with Adam."""
    network = Gnmt(options.layers, options.hidden, options.ids, options.input_feeding)

    def make_loss() -> Any:
        source, targets = torch.randint(options.ids, (2, options.batch, options.length))
        return network(source, targets, targets)

    return _training_step(torch.optim.Adam(network.parameters(), 1e-4), make_loss)


class Tacotron(nn.Module):
    """The network of ``Tacotron2Encoder`` and ``Tacotron2Decoder`` with location-sensitive attention.

    nn.LSTM encodes the symbols, and nn.LSTMCell runs step by step in the decoder, which reads the targets. The sizes
    are those of ``benchmarks/training_steps.py``. Returns the loss of a batch.
    """

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__()
        size, prenet = hidden // 2, hidden // 4
        self.table = nn.Embedding(_SYMBOLS, size)
        self.encoder = nn.ModuleList(_line_convolution(size, size) for _ in range(3))
        self.both = nn.LSTM(size, size // 2, batch_first=True, bidirectional=True)
        self.prenet = nn.ModuleList([nn.Linear(_MELS, prenet), nn.Linear(prenet, prenet)])
        self.cells = nn.ModuleList(nn.LSTMCell(hidden if number else prenet + size, hidden)
                                   for number in range(layers))
        self.query, self.key = nn.Linear(hidden, _ATTENTION), nn.Linear(size, _ATTENTION, bias=False)
        self.location = nn.Sequential(nn.Conv1d(1, _FILTERS, _TAPS, padding=_TAPS // 2),
                                      _ToLast(), nn.Linear(_FILTERS, _ATTENTION, bias=False))
        self.vector = nn.Linear(_ATTENTION, 1, bias=False)
        self.frame, self.stop = nn.Linear(hidden + size, _MELS), nn.Linear(_MELS, 1)
        widths = [_MELS, *[size] * 4, _MELS]
        self.postnet = nn.ModuleList(itertools.starmap(_line_convolution, itertools.pairwise(widths)))

    def forward(self, symbols: Any, mels: Any) -> Any:
        before = self.decode(self.encode(symbols), mels)
        x = before.transpose(1, 2)
        for number, convolution in enumerate(self.postnet):
            x = convolution(x)
            x = functional.dropout(torch.tanh(x) if number < len(self.postnet) - 1 else x, 0.5)
        after, stops = before + x.transpose(1, 2), self.stop(before)[..., 0]
        ends = torch.zeros_like(stops)
        ends[:, -1] = 1.0
        return (functional.mse_loss(before, mels) + functional.mse_loss(after, mels)
                + functional.binary_cross_entropy_with_logits(stops, ends))

    def encode(self, symbols: Any) -> Any:
        x = self.table(symbols).transpose(1, 2)
        for convolution in self.encoder:
            x = functional.dropout(torch.relu(convolution(x)), 0.5)
        return self.both(x.transpose(1, 2))[0]

    def decode(self, memory: Any, mels: Any) -> Any:
        """Returns frames ``[batch, frames, mels]`` that are predicted from the frames before them."""
        x = functional.pad(mels, (0, 0, 1, -1))
        for layer in self.prenet:
            x = functional.dropout(torch.relu(layer(x)), 0.5)
        keys, batch = self.key(memory), len(memory)
        states = [(memory.new_zeros(batch, cell.hidden_size),) * 2 for cell in self.cells]
        context, coverage = memory.new_zeros(batch, memory.shape[2]), memory.new_zeros(batch, 1, memory.shape[1])
        outputs = []
        for frame in x.unbind(1):
            y = torch.cat([frame, context], -1)
            for number, cell in enumerate(self.cells):
                states[number] = cell(functional.dropout(y, _CELL_DROPOUT), states[number])
                y = states[number][0]
            sums = torch.tanh(keys + self.query(y)[:, None] + self.location(coverage))
            weights = torch.softmax(self.vector(sums)[..., 0], -1)
            coverage = coverage + weights[:, None]
            context = (weights[:, None] @ memory)[:, 0]
            outputs.append(torch.cat([y, context], -1))
        return self.frame(torch.stack(outputs, 1))


class _ToLast(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.transpose(1, 2)


def _line_convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(inputs, outputs, 5, padding=2), nn.BatchNorm1d(outputs))


def tacotron(options: argparse.Namespace) -> Callable[[], Any]:
    """Returns a training step of Tacotron 2 with the fused Adam."""
    network = Tacotron(options.layers, options.hidden)

    def make_loss() -> Any:
        return network(torch.randint(_SYMBOLS, (options.batch, options.length)),
                       torch.randn(options.batch, options.frames, _MELS))

    return _training_step(torch.optim.Adam(network.parameters(), 1e-4, fused=True), make_loss)


def _convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, (size - 1) // 2, bias=False),
                         nn.BatchNorm2d(outputs, momentum=0.03))


class Block(nn.Module):
    """A residual block, whose connection is a convolution in the first block of a group."""

    def __init__(self, inputs: int, outputs: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3, 1)
        self.connection = _convolution(inputs, outputs, 1, stride) if projects else nn.Identity()

    def forward(self, x: Any) -> Any:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.connection(x))


def _resnet(blocks: int) -> nn.Sequential:
    """Returns the network of ``ResNetEncoder``, version 1: images ``[batch, 3, 32, 32]`` to logits."""
    layers: list[Any] = [_convolution(3, 16, 3, 1), nn.ReLU()]
    channels = 16
    for group in range(3):
        for number in range(blocks):
            layers.append(Block(channels, 16 << group, 2 if group and not number else 1, not number))
            channels = 16 << group
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, _CLASSES))


def _augmented(images: Any) -> Any:
    """Returns randomly cropped, mirrored and standardised images, float32, for images ``[batch, 3, 32, 32]``."""
    batch = torch.arange(len(images))
    windows = functional.pad(images, [_PADDING] * 4).unfold(2, _SIDE, 1).unfold(3, _SIDE, 1)
    top, left = torch.randint(2 * _PADDING + 1, (2, len(images)))
    x = windows[batch, :, top, left].float()
    x = torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, x.flip(3), x)
    return (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True).clamp_min(1.0)


def resnet(options: argparse.Namespace) -> Callable[[], Any]:
    """Returns a training step in channels-last layout by SGD with momentum and weight decay, batch included."""
    count = options.images
    images, labels = torch.randint(256, (count, 3, _SIDE, _SIDE), dtype=torch.uint8), torch.randint(_CLASSES, (count,))
    network = _resnet(options.blocks).to(memory_format=torch.channels_last)
    decayed = [weights for weights in network.parameters() if weights.dim() > 1]
    others = [weights for weights in network.parameters() if weights.dim() == 1]
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 1e-3}, {"params": others}], 0.1, momentum=0.9)

    def make_loss() -> Any:
        chosen = torch.randint(count, (options.batch,))
        x = _augmented(images[chosen]).to(memory_format=torch.channels_last)
        return functional.cross_entropy(network(x), labels[chosen])

    return _training_step(optimizer, make_loss)


def main() -> None:
    """Makes passes until stdin is closed."""
    options = argparse.Namespace(**json.loads(sys.argv[1]))
    torch.set_num_threads(options.threads)
    make_pass = {"recurrence": recurrence, "lm": lm, "gnmt": gnmt, "resnet": resnet,
                 "tacotron": tacotron}[options.network](options)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(options.steps):
            make_pass()
        print((time.perf_counter() - start) / options.steps, flush=True)


if __name__ == "__main__":
    main()
