"""Cells that configs select by the parameter ``core_cell``, with the names and arguments of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from open_seq2seq.config.names import register
from open_seq2seq.config.params import FREE, Param, check_params
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.layers import Direction, RecurrentLayer
from open_seq2seq.parts.rnn.weight_drop import WeightDropDirection
from open_seq2seq.utils.errors import ConfigError


def block_diagonal(blocks: tf.Tensor, gates: int) -> tf.Tensor:
    """Returns a matrix in which group i of each gate's outputs depends only on group i of the inputs.

    Args:
      blocks: ``[groups, rows, gates · columns]``.
      gates: number of gates.

    Returns:
      ``[groups · rows, gates · groups · columns]``, gate by gate.
    """
    groups, rows, width = blocks.shape
    columns = width // gates
    by_gate = tf.reshape(blocks, [groups, rows, gates, 1, columns])
    placed = by_gate * tf.reshape(tf.eye(groups, dtype=blocks.dtype), [groups, 1, 1, groups, 1])
    return tf.reshape(placed, [groups * rows, gates * groups * columns])


class GroupedDirection(Direction):
    """An LSTM whose inputs, states and gates are divided into groups.

    Groups are independent of one another, except that a projection of the output, if any, combines them.

    Args:
      input_size: number of input channels, a multiple of ``groups``.
      hidden_size: number of units, a multiple of ``groups``.
      groups: number of groups.
      kwargs: see ``Direction``.

    Raises:
      ConfigError: ``input_size`` is not a multiple of ``groups``.
    """

    def __init__(self, input_size: int, hidden_size: int, groups: int, **kwargs: Any) -> None:
        if input_size % groups:
            raise ConfigError([f"'core_cell_params/number_of_groups' is {groups}, but this does not divide the "
                               f"{input_size} channels of a layer's input: change the number of groups, or the size "
                               "of the input."])
        self._groups = groups
        super().__init__(input_size, hidden_size, **kwargs)

    def _make_matrices(self, input_size: int, initializer: Any, regularizer: Any) -> None:
        groups, columns = self._groups, self.columns // self._groups
        self.kernel = self.weight([groups, input_size // groups, columns], initializer, regularizer=regularizer)
        self.recurrent_kernel = self.weight([groups, self.output_size // groups, columns], initializer,
                                            regularizer=regularizer)
        if self.cell.name == "projected_lstm":
            self.projection = self.weight([self.hidden_size, self.output_size], initializer, regularizer=regularizer)

    def input_kernel(self, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        return block_diagonal(cast_weight(self.kernel, dtype), self.cell.gates)

    def step_weights(self, dtype: tf.DType, training: bool = False) -> list[tf.Tensor]:
        recurrent, *others = super().step_weights(dtype, training)
        return [block_diagonal(recurrent, self.cell.gates), *others]


class FactoredDirection(Direction):
    """An LSTM whose input matrix and recurrent matrix are each the product of two factors.

    The first factor, ``[rows, rank]``, is different for the two matrices; they share the second, ``[rank, columns]``.

    Args:
      input_size: number of input channels.
      hidden_size: number of units.
      rank: number of channels between the two factors.
      kwargs: see ``Direction``.
    """

    def __init__(self, input_size: int, hidden_size: int, rank: int, **kwargs: Any) -> None:
        self._rank = rank
        super().__init__(input_size, hidden_size, **kwargs)

    def _make_matrices(self, input_size: int, initializer: Any, regularizer: Any) -> None:
        def matrix(rows: int, columns: int) -> tf.Variable:
            return self.weight([rows, columns], initializer, regularizer=regularizer)

        self.kernel, self.recurrent_kernel = matrix(input_size, self._rank), matrix(self.output_size, self._rank)
        self.expansion = matrix(self._rank, self.columns)
        if self.cell.name == "projected_lstm":
            self.projection = matrix(self.hidden_size, self.output_size)

    def input_kernel(self, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        return tf.matmul(cast_weight(self.kernel, dtype), cast_weight(self.expansion, dtype))

    def step_weights(self, dtype: tf.DType, training: bool = False) -> list[tf.Tensor]:
        recurrent, *others = super().step_weights(dtype, training)
        return [tf.matmul(recurrent, cast_weight(self.expansion, dtype)), *others]


_UNITS = Param(int, doc="Number of units.", minimum=1, maximum=10**6)
_FORGET = Param(float, 1.0, "Initial bias of the forget gate, which is trained like all biases.")
_PROJECTION = Param((int, type(None)), None, "Number of output channels of a projection; None, the default, disables "
                    "the projection, so that the output has num_units channels.",
                    minimum=1, maximum=10**6)


def weight_drop_params() -> dict[str, Any]:
    """Returns the specs of the keep probabilities of weight drop and of recurrent dropout."""
    return {name: Param(float, 1.0, doc, above=0.0, maximum=1.0) for name, doc in (
        ("recurrent_keep_prob", "Keep probability of the values that an LSTM adds to its inner state at each step."),
        ("input_weight_keep_prob", "Keep probability of the elements of the input matrices (weight drop)."),
        ("recurrent_weight_keep_prob", "Keep probability of the elements of the recurrent matrices (weight drop)."))}


def weight_drop_rates(params: Mapping[str, Any]) -> dict[str, float]:
    """Returns the arguments of ``WeightDropDirection`` for the parameters of ``weight_drop_params``."""
    return {"candidate_rate": 1.0 - params["recurrent_keep_prob"],
            "input_weight_rate": 1.0 - params["input_weight_keep_prob"],
            "recurrent_weight_rate": 1.0 - params["recurrent_weight_keep_prob"]}


class CoreCell:
    """Base of the cells: declares the parameters in ``core_cell_params`` and creates layers.

    Attributes:
      kind: name of the cell in ``parts.rnn.cells.CELLS``.
      gate_bias: see ``Direction``; used if the cell has no parameter ``forget_bias``.
    """

    kind: ClassVar[str] = ""
    gate_bias: ClassVar[float] = 0.0

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        """Returns the specs of the required parameters by name."""
        return {"num_units": _UNITS}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns the specs of the optional parameters by name."""
        return {"zoneout_prob": Param(float, 0.0, "Probability with which an element of a state keeps its value from "
                                      "the previous step (zoneout).", minimum=0.0, below=1.0)}

    @classmethod
    def declared_params(cls) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the specs of all parameters by name: (required, optional)."""
        return cls.get_required_params(), cls.get_optional_params()

    @classmethod
    def problems(cls, params: Mapping[str, Any], path: str) -> list[str]:
        """Returns one message for each combination of parameters that is not valid, although each parameter is."""
        return []

    @classmethod
    def output_size(cls, params: Mapping[str, Any]) -> int:
        """Returns the number of output channels."""
        return params.get("num_proj") or params["num_units"]

    @classmethod
    def with_output_size(cls, params: Mapping[str, Any], size: int) -> dict[str, Any]:
        """Returns the parameters of the same cell with ``size`` output channels."""
        return {**params, "num_proj" if params.get("num_proj") else "num_units": size}

    @classmethod
    def layer(cls, params: Mapping[str, Any], input_size: int, initializer: Any = None,
              regularizer: Any = None) -> Direction:
        """Returns a layer of this cell.

        Args:
          params: the checked parameters.
          input_size: number of channels of the input.
          initializer: initialiser of the matrices.
          regularizer: regulariser of the matrices.
        """
        direction = cls._direction(params, input_size, initializer=initializer, regularizer=regularizer,
                                   gate_bias=params.get("forget_bias", cls.gate_bias))
        direction.zoneout_rate = params.get("zoneout_prob", 0.0)
        return direction

    @classmethod
    def _direction(cls, params: Mapping[str, Any], input_size: int, **kwargs: Any) -> Direction:
        return Direction(input_size, params["num_units"], cls.kind, **kwargs)

    @classmethod
    def bidirectional_layer(cls, params: Mapping[str, Any], input_size: int, initializer: Any = None,
                            regularizer: Any = None) -> RecurrentLayer:
        """Returns a layer with ``num_units`` units in each direction; the arguments are those of ``layer``."""
        return RecurrentLayer(
            input_size, params["num_units"], cls.kind, bidirectional=True,
            make_direction=lambda: cls.layer(params, input_size, initializer, regularizer))


class BasicLSTMCell(CoreCell):
    """Long short-term memory, ``tf.nn.rnn_cell.BasicLSTMCell``."""

    kind = "lstm"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**CoreCell.get_optional_params(), "forget_bias": _FORGET}


class LSTMCell(BasicLSTMCell):
    """Long short-term memory without peepholes, optionally with a projection, ``tf.nn.rnn_cell.LSTMCell``."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**BasicLSTMCell.get_optional_params(), "num_proj": _PROJECTION}

    @classmethod
    def _direction(cls, params: Mapping[str, Any], input_size: int, **kwargs: Any) -> Direction:
        return Direction(input_size, params["num_units"], **cls._kind_and_size(params), **kwargs)

    @staticmethod
    def _kind_and_size(params: Mapping[str, Any]) -> dict[str, Any]:
        size = params.get("num_proj")
        return {"cell_type": "projected_lstm" if size else "lstm", "output_size": size}


class GLSTMCell(LSTMCell):
    """LSTM in groups (Kuchaiev and Ginsburg 2017), ``GLSTMCell`` of TensorFlow 1; see ``GroupedDirection``."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**LSTMCell.get_optional_params(),
                "number_of_groups": Param(int, 1, "Number of groups; must divide the numbers of input channels, units "
                                          "and output channels.",
                                          minimum=1, maximum=10**6)}

    @classmethod
    def problems(cls, params: Mapping[str, Any], path: str) -> list[str]:
        groups = params["number_of_groups"]
        return [f"'{path}/{name}' must be a multiple of number_of_groups ({groups}), got {params[name]}."
                for name in ("num_units", "num_proj") if params[name] and params[name] % groups]

    @classmethod
    def _direction(cls, params: Mapping[str, Any], input_size: int, **kwargs: Any) -> Direction:
        return GroupedDirection(input_size, params["num_units"], params["number_of_groups"],
                                **cls._kind_and_size(params), **kwargs)


class FLSTMCell(LSTMCell):
    """LSTM with factorised matrices (Kuchaiev and Ginsburg 2017); see ``FactoredDirection``."""

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {**LSTMCell.get_required_params(),
                "fact_size": Param(int, doc="Number of channels between the two factors of each matrix.", minimum=1,
                                   maximum=10**6)}

    @classmethod
    def _direction(cls, params: Mapping[str, Any], input_size: int, **kwargs: Any) -> Direction:
        return FactoredDirection(input_size, params["num_units"], params["fact_size"], **cls._kind_and_size(params),
                                 **kwargs)


class BasicSLSTMCell(BasicLSTMCell):
    """LSTM whose gates depend on the input alone, so that a step has no matrix product."""

    kind = "input_lstm"


class LayerNormBasicLSTMCell(BasicLSTMCell):
    """LSTM with layer normalisation, ``LayerNormBasicLSTMCell`` of TensorFlow 1."""

    kind = "layernorm_lstm"


class WeightDropLayerNormBasicLSTMCell(LayerNormBasicLSTMCell):
    """LSTM with layer normalisation, weight drop and recurrent dropout; see ``parts.rnn.weight_drop``."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**LayerNormBasicLSTMCell.get_optional_params(), **weight_drop_params()}

    @classmethod
    def _direction(cls, params: Mapping[str, Any], input_size: int, **kwargs: Any) -> Direction:
        return WeightDropDirection(input_size, params["num_units"], cls.kind, **kwargs, **weight_drop_rates(params))


class GRUCell(CoreCell):
    """Gated recurrent unit whose reset gate is applied before the matrix product, ``tf.nn.rnn_cell.GRUCell``."""

    kind = "classic_gru"
    gate_bias = 1.0


class CudnnCompatibleLSTMCell(CoreCell):
    """LSTM whose biases are initially 0, ``CudnnCompatibleLSTMCell`` of TensorFlow 1."""

    kind = "lstm"


class CudnnCompatibleGRUCell(CoreCell):
    """Gated recurrent unit whose reset gate is applied after the matrix product, as in cuDNN."""

    kind = "gru"


# Prefixes of the names in TensorFlow 1, after "tf.".
_PLACES = {"nn.rnn_cell": (LSTMCell, BasicLSTMCell, GRUCell),
           "contrib.rnn": (LSTMCell, BasicLSTMCell, GRUCell, LayerNormBasicLSTMCell, GLSTMCell),
           "contrib.cudnn_rnn": (CudnnCompatibleLSTMCell, CudnnCompatibleGRUCell)}

# Names of cuDNN's layers in TensorFlow 1, and the cells with the same results.
CUDNN_LAYERS: dict[str, type[CoreCell]] = {"CudnnLSTM": CudnnCompatibleLSTMCell, "CudnnGRU": CudnnCompatibleGRUCell}


def _names() -> dict[str, type[CoreCell]]:
    classes = (FLSTMCell, BasicSLSTMCell, WeightDropLayerNormBasicLSTMCell)
    cells = {cell.__name__: cell for cells in (*_PLACES.values(), classes) for cell in cells}
    placed: dict[str, type[CoreCell]] = {
        f"{place}.{cell.__name__}": cell for place, cells in _PLACES.items() for cell in cells}
    placed.update({f"contrib.cudnn_rnn.{name}": cell for name, cell in CUDNN_LAYERS.items()})
    return {**cells, **CUDNN_LAYERS, **{f"tf.{name}": cell for name, cell in placed.items()}}


register("cell", _names, base=CoreCell)


def old_layer_params() -> dict[str, Any]:
    """Returns the specs of parameters without effect, which configs for NVIDIA's OpenSeq2Seq contain."""
    old = "Accepted for old configs; has no effect"
    return {name: Param(kind, default, f"{old}{reason}.", on_change=FREE) for name, kind, default, reason in (
        ("time_major", bool, False, ", because the layout does not change the results"),
        ("use_swap_memory", bool, False, ", because the loop keeps little in memory"),
        ("proj_size", (int, type(None)), None, "; set num_proj in core_cell_params instead"),
        ("num_groups", (int, type(None)), None, "; set number_of_groups in core_cell_params of GLSTMCell instead"))}


def core_cell_params() -> dict[str, Any]:
    """Returns the specs of ``core_cell`` and ``core_cell_params`` of recurrent encoders and decoders."""
    return {
        "core_cell": Param((type, str), doc="Cell: LSTMCell, BasicLSTMCell, GRUCell, LayerNormBasicLSTMCell, "
                           "WeightDropLayerNormBasicLSTMCell, GLSTMCell, FLSTMCell, BasicSLSTMCell, "
                           "CudnnCompatibleLSTMCell or CudnnCompatibleGRUCell, also with the prefixes of TensorFlow 1, "
                           "as in tf.nn.rnn_cell.LSTMCell.", names="cell"),
        "core_cell_params": Param(dict, doc="Arguments of the cell: num_units, and those described under Recurrent "
                                  "networks in the guide to translation."),
    }


def checked_cell_params(params: Mapping[str, Any], path: str) -> tuple[dict[str, Any], list[str]]:
    """Checks ``core_cell_params`` against the cell's declarations.

    Args:
      params: the checked parameters of an encoder or decoder.
      path: their path in the config, for messages.

    Returns:
      (the cell's parameters with defaults filled in, one message for each problem).
    """
    cell, path = params["core_cell"], f"{path}/core_cell_params"
    required, optional = cell.declared_params()
    checked, problems = check_params(params["core_cell_params"], required, optional, path)
    return checked, problems or cell.problems(checked, path)
