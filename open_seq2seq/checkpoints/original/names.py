"""Converts the arrays of the original's checkpoints to our names, shapes and orders."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from open_seq2seq.checkpoints.original.kinds import Source
from open_seq2seq.checkpoints.original.places import CUDNN_CELL, creation_order, places, plain_cells
from open_seq2seq.parts.rnn.layers import GATE_ORDER
from open_seq2seq.utils.errors import CheckpointError

_OPAQUE = "/opaque_kernel"
# Layouts in which the frequency comes before the time.
_FREQUENCY_FIRST = ("BFTC", "BCFT")
_CUDNN_LAYER = re.compile(r"encoder/(?:rnn/|stack/)?layer_\d+(?:/(?:forward|backward))?")


@dataclass(frozen=True)
class Conventions:
    """What the names and shapes in a checkpoint of the original do not say.

    Attributes:
      forget_biases: for each part of the model, the constant that the original adds to the forget gates of its cells.
      frequency_first: whether convolutions over time and frequency have kernels ``[frequency, time, …]``.
    """

    forget_biases: Mapping[str, float] = field(default_factory=dict)
    frequency_first: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Mapping[str, Any]]) -> Conventions:
        """Returns the conventions of a model.

        Args:
          params: the parameters of its parts, by the name of the part.
        """
        biases = {name: (values.get("core_cell_params") or {}).get("forget_bias", 1.0)
                  for name, values in params.items()}
        return cls(biases, params.get("encoder", {}).get("data_format") in _FREQUENCY_FIRST)


@dataclass(frozen=True)
class Conversion:
    """Result of ``convert``.

    Attributes:
      weights: arrays by our names; names without any array in the checkpoint are left out.
      unused: names of the arrays that no variable of the model is made from.
    """

    weights: dict[str, np.ndarray]
    unused: list[str]


def convert(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]],
            conventions: Conventions) -> Conversion:
    """Returns the arrays of a checkpoint of the original as values of our variables.

    Args:
      arrays: arrays of the original by name, such as ``ForwardPass/transformer_encoder/…``.
      shapes: shapes of our variables, by name.
      conventions: see ``Conventions``.

    Raises:
      CheckpointError: the arrays cannot be used, because of another kind of cells or stacks.
    """
    by_name = {plain_cells(name): name for name in arrays}
    parts = dict.fromkeys(name.rpartition("/")[0] for name in shapes)
    weights, used = _unpacked_cudnn(arrays, shapes)
    for name, shape in shapes.items():
        part, _, leaf = name.rpartition("/")
        source = None if name in weights else _source(part, leaf, parts, by_name)
        if source is None:
            continue
        place, chosen = source
        names = [by_name[f"{place}/{one}"] for one in chosen.names]
        forget = 0.0 if place.endswith(CUDNN_CELL) else conventions.forget_biases.get(name.partition("/")[0], 1.0)
        value = chosen.convert([np.asarray(arrays[one], np.float32) for one in names], forget)
        weights[name] = _fitted(value, tuple(shape), conventions)
        used |= set(names)
    _refuse_other_cells(by_name, shapes, weights)
    return Conversion({name: weights[name] for name in shapes if name in weights},
                      [name for name in arrays if name not in used])


def _source(part: str, leaf: str, parts: Collection[str], names: Collection[str]) -> tuple[str, Source] | None:
    """Returns the place in the original, and the source there, of a variable ``part/leaf``; None if there is none."""
    for pattern, kind in places(part, parts):
        found = dict.fromkeys(match[0] for name in names if (match := pattern.match(name)))
        for source in kind.get(leaf, ()):
            for place in found:
                if all(f"{place}/{name}" in names for name in source.names):
                    return place, source
    return None


def _fitted(value: np.ndarray, shape: tuple[int, ...], conventions: Conventions) -> np.ndarray:
    """Swaps time and frequency of kernels if needed, and adds or removes axes of length 1."""
    if conventions.frequency_first and value.ndim == 4:
        value = value.swapaxes(0, 1)
    is_same = [size for size in value.shape if size != 1] == [size for size in shape if size != 1]
    return value.reshape(shape) if is_same else value


def _unpacked_cudnn(arrays: Mapping[str, np.ndarray],
                    shapes: Mapping[str, Sequence[int]]) -> tuple[dict[str, np.ndarray], set[str]]:
    """Returns the weights in cuDNN's array, if there is one, by our names; and the name of the array.

    cuDNN has the matrices of all layers, transposed and gate by gate, and then the two biases of each gate.

    Raises:
      CheckpointError: the array does not have the size of the model's recurrent layers.
    """
    opaque = [name for name in arrays if name.endswith(_OPAQUE)]
    if not opaque:
        return {}, set()
    layers = sorted({name.rpartition("/")[0] for name in shapes if name.endswith("/recurrent_kernel")
                     and _CUDNN_LAYER.fullmatch(name.rpartition("/")[0])},
                    key=lambda layer: (creation_order(layer), layer.endswith("backward")))
    flat = np.asarray(arrays[opaque[0]], np.float32).reshape(-1)
    sizes = [(shapes[f"{layer}/kernel"], shapes[f"{layer}/recurrent_kernel"]) for layer in layers]
    if len(opaque) > 1 or len(flat) != sum(sum(np.prod(shape) + shape[1] for shape in pair) for pair in sizes):
        raise CheckpointError(f"{opaque[0]} has {len(flat):,} weights of cuDNN, which are not those of the recurrent "
                              "layers of this config: give the config that the model was trained with.")
    weights: dict[str, np.ndarray] = {}
    rest = flat
    for layer, pair in zip(layers, sizes, strict=True):
        for name, (rows, columns) in zip(("kernel", "recurrent_kernel"), pair, strict=True):
            weights[f"{layer}/{name}"], rest = _gates(rest, rows, columns, _gate_order(layer, shapes))
    for layer, (_, (_, columns)) in zip(layers, sizes, strict=True):
        of_input, rest = _gates(rest, 1, columns, _gate_order(layer, shapes))
        of_state, rest = _gates(rest, 1, columns, _gate_order(layer, shapes))
        weights |= _biases(layer, of_input[0], of_state[0], f"{layer}/recurrent_bias" in shapes)
    return weights, {opaque[0]}


def _gate_order(layer: str, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    return GATE_ORDER["gru" if f"{layer}/recurrent_bias" in shapes else "lstm"]


def _gates(flat: np.ndarray, rows: int, columns: int, order: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first matrix ``[rows, columns]`` of cuDNN's array, with the gates in our order, and the rest."""
    blocks = flat[:rows * columns].reshape(len(order), -1, rows)
    return np.concatenate([blocks[order.index(gate)].T for gate in range(len(order))], -1), flat[rows * columns:]


def _biases(layer: str, of_input: np.ndarray, of_state: np.ndarray, has_recurrent: bool) -> dict[str, np.ndarray]:
    """Returns our biases of a layer: the sums of cuDNN's two, except for a GRU's candidate, which has both."""
    if not has_recurrent:
        return {f"{layer}/bias": of_input + of_state}
    gates = 2 * len(of_input) // 3
    return {f"{layer}/bias": np.concatenate([of_input[:gates] + of_state[:gates], of_input[gates:]]),
            f"{layer}/recurrent_bias": of_state[gates:]}


def _refuse_other_cells(names: Collection[str], shapes: Mapping[str, Sequence[int]],
                        weights: Mapping[str, np.ndarray]) -> None:
    """Raises CheckpointError for recurrent layers that compute something else here."""
    if any(name.endswith("/recurrent_bias") and name not in weights for name in shapes) and \
            any(name.endswith("/cell/candidate/kernel") for name in names):
        raise CheckpointError("The checkpoint has GRU cells whose reset gate is applied before the matrix product, but "
                              "those of this config, as cuDNN's, apply it after the product: the weights cannot be "
                              "converted; train the model anew.")
    stack = re.compile(r"ForwardPass/(?:ds2|tacotron2)_encoder/bidirectional_rnn/fw/multi_rnn_cell/cell_1/")
    if any(stack.match(name) for name in names):
        raise CheckpointError("The checkpoint has two separate stacks of recurrent layers, one for each direction, as "
                              "the original builds without cuDNN, but here each layer receives the outputs of both "
                              "directions: the weights cannot be converted; train the model anew.")
