"""Cells that configs name by ``core_cell``, with the names and arguments of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from open_seq2seq.config.names import register
from open_seq2seq.config.params import Param, check_params
from open_seq2seq.parts.rnn.layers import Direction, RecurrentLayer
from open_seq2seq.parts.rnn.weight_drop import WeightDropDirection

_UNITS = Param(int, doc="Number of units.", minimum=1, maximum=10**6)
_FORGET = Param(float, 1.0, "Initial bias of the forget gate, which is trained like all biases.")


def weight_drop_params() -> dict[str, Any]:
    """Returns the keep probabilities of weight drop and of recurrent dropout."""
    return {name: Param(float, 1.0, doc, above=0.0, maximum=1.0) for name, doc in (
        ("recurrent_keep_prob", "Keep probability of what an LSTM adds to its inner state at each step."),
        ("input_weight_keep_prob", "Keep probability of the elements of the input's matrices (weight drop)."),
        ("recurrent_weight_keep_prob", "Keep probability of the elements of the recurrent matrices (weight drop)."))}


def weight_drop_rates(params: Mapping[str, Any]) -> dict[str, float]:
    """Returns the arguments of ``WeightDropDirection`` for the parameters of ``weight_drop_params``."""
    return {"candidate_rate": 1.0 - params["recurrent_keep_prob"],
            "input_weight_rate": 1.0 - params["input_weight_keep_prob"],
            "recurrent_weight_rate": 1.0 - params["recurrent_weight_keep_prob"]}


class CoreCell:
    """Base of the cells: the parameters of ``core_cell_params`` and the kind of layer that they make.

    Attributes:
      kind: name of the cell in ``parts.rnn.cells.CELLS``.
      gate_bias: initial bias of the gates that keep the state, if ``core_cell_params`` has no ``forget_bias``.
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
        return {}

    @classmethod
    def declared_params(cls) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the specs of all parameters by name: (required, optional)."""
        return cls.get_required_params(), cls.get_optional_params()

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
        return Direction(input_size, params["num_units"], cls.kind, initializer, regularizer,
                         gate_bias=params.get("forget_bias", cls.gate_bias))

    @classmethod
    def bidirectional_layer(cls, params: Mapping[str, Any], input_size: int, initializer: Any = None,
                            regularizer: Any = None) -> RecurrentLayer:
        """Returns a layer with ``num_units`` units in each direction; the arguments are those of ``layer``."""
        return RecurrentLayer(input_size, params["num_units"], cls.kind, True, initializer, regularizer,
                              gate_bias=params.get("forget_bias", cls.gate_bias))


class LSTMCell(CoreCell):
    """Long short-term memory without peepholes, ``tf.nn.rnn_cell.LSTMCell``."""

    kind = "lstm"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {"forget_bias": _FORGET}


class BasicLSTMCell(LSTMCell):
    """The same as ``LSTMCell``, ``tf.nn.rnn_cell.BasicLSTMCell``."""


class LayerNormBasicLSTMCell(LSTMCell):
    """LSTM with layer normalisation, ``LayerNormBasicLSTMCell`` of TensorFlow 1."""

    kind = "layernorm_lstm"


class WeightDropLayerNormBasicLSTMCell(LayerNormBasicLSTMCell):
    """LSTM with layer normalisation, weight drop and recurrent dropout; see ``parts.rnn.weight_drop``."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**LayerNormBasicLSTMCell.get_optional_params(), **weight_drop_params()}

    @classmethod
    def layer(cls, params: Mapping[str, Any], input_size: int, initializer: Any = None,
              regularizer: Any = None) -> Direction:
        return WeightDropDirection(input_size, params["num_units"], cls.kind, initializer, regularizer,
                                   params["forget_bias"], **weight_drop_rates(params))


class GRUCell(CoreCell):
    """Gated recurrent unit whose reset gate is applied before the product, ``tf.nn.rnn_cell.GRUCell``."""

    kind = "classic_gru"
    gate_bias = 1.0


class CudnnCompatibleLSTMCell(CoreCell):
    """LSTM whose biases are initially 0, ``CudnnCompatibleLSTMCell`` of TensorFlow 1."""

    kind = "lstm"


class CudnnCompatibleGRUCell(CoreCell):
    """Gated recurrent unit whose reset gate is applied after the product, as in cuDNN."""

    kind = "gru"


_PLACES = {"nn.rnn_cell": (LSTMCell, BasicLSTMCell, GRUCell),
           "contrib.rnn": (LSTMCell, BasicLSTMCell, GRUCell, LayerNormBasicLSTMCell),
           "contrib.cudnn_rnn": (CudnnCompatibleLSTMCell, CudnnCompatibleGRUCell)}


def _names() -> dict[str, type[CoreCell]]:
    cells = {cell.__name__: cell for cells in _PLACES.values() for cell in cells}
    cells[WeightDropLayerNormBasicLSTMCell.__name__] = WeightDropLayerNormBasicLSTMCell
    return {**cells, **{f"tf.{place}.{cell.__name__}": cell for place, cells in _PLACES.items() for cell in cells}}


register("cell", _names, base=CoreCell)


def core_cell_params() -> dict[str, Any]:
    """Returns the required parameters ``core_cell`` and ``core_cell_params`` of recurrent encoders and decoders."""
    return {
        "core_cell": Param((type, str), doc="Cell: LSTMCell, BasicLSTMCell, GRUCell, LayerNormBasicLSTMCell, "
                           "WeightDropLayerNormBasicLSTMCell, CudnnCompatibleLSTMCell or CudnnCompatibleGRUCell, also "
                           "with the prefixes of TensorFlow 1, as in tf.nn.rnn_cell.LSTMCell.", names="cell"),
        "core_cell_params": Param(dict, doc="Arguments of the cell: num_units, and for LSTMs optionally forget_bias."),
    }


def checked_cell_params(params: Mapping[str, Any], path: str) -> tuple[dict[str, Any], list[str]]:
    """Checks ``core_cell_params`` against the cell's declarations.

    Args:
      params: the checked parameters of an encoder or decoder.
      path: their path in the config, for messages.

    Returns:
      The cell's parameters with defaults filled in, and the problems found, one sentence each.
    """
    required, optional = params["core_cell"].declared_params()
    return check_params(params["core_cell_params"], required, optional, f"{path}/core_cell_params")
