"""A training step of a ResNet for CIFAR in PyTorch for each line on stdin; prints its time in seconds.

The network is that of ``ResNetEncoder``, version 1, in channels-last layout, trained by SGD with momentum and weight
decay. A step begins with the choice of images, which are padded, cropped, mirrored and standardised as one batch.

Arguments: blocks in each of the three groups, batch, images, classes, threads.
"""

from __future__ import annotations

import sys
from typing import Any

import torch  # type: ignore[import-not-found]
from torch import nn
from torch.nn import functional

from benchmarks.measuring.torch_steps import make_steps

_SIDE, _PADDING = 32, 4


def convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    """Returns a convolution and its normalisation."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, (size - 1) // 2, bias=False),
                         nn.BatchNorm2d(outputs, momentum=0.03))


class Block(nn.Module):
    """A residual block, whose connection is a convolution in the first block of a group."""

    def __init__(self, inputs: int, outputs: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.first = convolution(inputs, outputs, 3, stride)
        self.second = convolution(outputs, outputs, 3, 1)
        self.connection = convolution(inputs, outputs, 1, stride) if projects else nn.Identity()

    def forward(self, x: Any) -> Any:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.connection(x))


def make_network(blocks: int, classes: int) -> nn.Sequential:
    """Returns the network, from images ``[batch, 3, 32, 32]`` to logits ``[batch, classes]``."""
    layers: list[Any] = [convolution(3, 16, 3, 1), nn.ReLU()]
    channels = 16
    for group in range(3):
        for place in range(blocks):
            layers.append(Block(channels, 16 << group, 2 if group and not place else 1, not place))
            channels = 16 << group
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def augmented(images: Any) -> Any:
    """Returns randomly cropped, mirrored and standardised images, float32, for images ``[batch, 3, 32, 32]``."""
    batch = torch.arange(len(images))
    windows = functional.pad(images, [_PADDING] * 4).unfold(2, _SIDE, 1).unfold(3, _SIDE, 1)
    top, left = torch.randint(2 * _PADDING + 1, (2, len(images)))
    x = windows[batch, :, top, left].float()
    x = torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, x.flip(3), x)
    return (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True).clamp_min(1.0)


def main() -> None:
    """Makes steps until stdin is closed."""
    blocks, batch, count, classes, threads = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    images, labels = torch.randint(256, (count, 3, _SIDE, _SIDE), dtype=torch.uint8), torch.randint(classes, (count,))
    network = make_network(blocks, classes).to(memory_format=torch.channels_last)
    decayed = [weights for weights in network.parameters() if weights.dim() > 1]
    others = [weights for weights in network.parameters() if weights.dim() == 1]
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 1e-3}, {"params": others}], 0.1, momentum=0.9)

    def make_loss() -> Any:
        chosen = torch.randint(count, (batch,))
        x = augmented(images[chosen]).to(memory_format=torch.channels_last)
        return functional.cross_entropy(network(x), labels[chosen])

    make_steps(optimizer, make_loss)


if __name__ == "__main__":
    main()
