"""Recurrent encoders of text: unidirectional, bidirectional, and that of GNMT."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.rnn.core_cells import (
    CoreCell,
    CudnnCompatibleGRUCell,
    CudnnCompatibleLSTMCell,
    checked_cell_params,
    core_cell_params,
    old_layer_params,
)
from open_seq2seq.parts.rnn.layers import (
    ResidualLayer,
    permute_steps,
    reversing_order,
    run_layers,
    run_with_states,
    zero_padding,
)
from open_seq2seq.utils.errors import ConfigError

States = list[list[tf.Tensor]]


class RNNEncoderWithEmbedding(Encoder):
    """Base of the recurrent encoders of text: an embedding and one or more stacks of recurrent layers.

    Attributes:
      output_size: number of channels of the outputs.
      returns_state: whether the output contains the final states; set to True by a decoder that starts from them (see
        ``decoders.rnn_decoder.StateBridge``).
    """

    output_size: int
    returns_state = False

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "src_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
            "src_emb_size": Param(int, doc="Size of the embeddings.", minimum=1),
            **core_cell_params(),
            "encoder_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
            "encoder_use_skip_connections": Param(
                bool, doc="Whether layers add their input to their output, if both have the same number of channels."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "encoder_dp_input_keep_prob": Param(float, 1.0, "Keep probability of dropout before each layer.",
                                                above=0.0, maximum=1.0),
            "encoder_dp_output_keep_prob": Param(float, 1.0, "Keep probability of dropout after each layer.",
                                                 above=0.0, maximum=1.0),
            "embedding_scale": Param(float, 1.0, "Factor of the embeddings that the first layer reads. "
                                     "With a value above 1, they matter from the start of training, and are learned "
                                     "faster.", above=0.0, on_change=REFUSE),
            **old_layer_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        self._cell, self._cell_params, problems = self._checked_cell()
        problems = problems + self._problems()
        if problems:
            raise ConfigError(problems)
        self._initializer, self._regularizer = self.make_initializer(), self.make_regularizer()
        self.embedding = self.weight([self.params["src_vocab_size"], self.params["src_emb_size"]], self._initializer)
        self._build()

    def _checked_cell(self) -> tuple[type[CoreCell], dict[str, Any], list[str]]:
        """Returns the cell, its checked parameters, and the problems found in them."""
        return self.params["core_cell"], *checked_cell_params(self.params, self.params_path)

    def _problems(self) -> list[str]:
        return []

    def _build(self) -> None:
        """Creates the layers and sets ``output_size``."""
        raise NotImplementedError("A recurrent encoder must implement _build().")

    @property
    def state_sizes(self) -> list[list[int]]:
        """Sizes of the final states of each layer, one for each state."""
        raise NotImplementedError("A recurrent encoder must implement state_sizes.")

    def _run(self, x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, States]:
        """Returns the outputs ``[time, batch, output_size]`` for embeddings ``[time, batch, src_emb_size]``.

        They are followed by the final states ``[batch, size]`` FP32 of each layer or, without ``returns_state``, [].
        """
        raise NotImplementedError("A recurrent encoder must implement _run(x, lengths).")

    def _run_layers(self, layers: list[ResidualLayer], x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, States]:
        """Returns for some of the layers what ``_run`` returns for all."""
        if self.returns_state:
            return run_with_states(layers, x, lengths, self.training)
        return run_layers(layers, x, lengths, self.training), []

    def _layers(self, input_size: int, count: int, skips: bool) -> list[ResidualLayer]:
        """Returns a stack of layers.

        Args:
          input_size: number of input channels of the first layer.
          count: number of layers.
          skips: whether layers whose input and output have the same size have residual connections.
        """
        params, layers = self.params, []
        for _ in range(count):
            direction = self._cell.layer(self._cell_params, input_size, self._initializer, self._regularizer)
            layers.append(ResidualLayer(
                direction, skips and input_size == direction.output_size,
                1.0 - params.get("encoder_dp_input_keep_prob", 1.0), 1.0 - params["encoder_dp_output_keep_prob"]))
            input_size = direction.output_size
        return layers

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes ids.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]``, int32.

        Returns:
          A dict with ``outputs`` ``[batch, time, output_size]`` in the compute dtype, zero at padding;
          ``outputs_length`` and ``src_lengths`` ``[batch]``; ``encoder_input`` (the ids); ``embedding_table``
          ``[src_vocab_size, src_emb_size]`` FP32; and ``state``: None or, with ``returns_state``, the states of each
          layer after the last token of each sentence, ``[batch, size]`` FP32.
        """
        ids, lengths = input_dict["source_tensors"][:2]
        steps = tf.transpose(ids)  # [time, batch], so that each step is contiguous in memory
        table = tf.convert_to_tensor(self.embedding)
        embedded = tf.cast(self.params["embedding_scale"] * tf.gather(table, steps), self.dtype_of("recurrence"))
        x, states = self._run(embedded, lengths)
        x = tf.transpose(zero_padding(x, lengths), [1, 0, 2])
        return {
            "outputs": tf.cast(x, self.compute_dtype),
            "outputs_length": lengths,
            "src_lengths": lengths,
            "encoder_input": ids,
            "embedding_table": table,
            "state": states or None,
        }


class UnidirectionalRNNEncoderWithEmbedding(RNNEncoderWithEmbedding):
    """Stack of recurrent layers that read the source from its start to its end."""

    def _build(self) -> None:
        params = self.params
        self.layers = self._layers(params["src_emb_size"], params["encoder_layers"],
                                   params["encoder_use_skip_connections"])
        self.output_size = self.layers[-1].output_size

    @property
    def state_sizes(self) -> list[list[int]]:
        return [layer.direction.state_sizes for layer in self.layers]

    def _run(self, x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, States]:
        return self._run_layers(self.layers, x, lengths)


class BidirectionalRNNEncoderWithEmbedding(RNNEncoderWithEmbedding):
    """Two separate stacks, one for each direction, whose outputs are concatenated (Schuster and Paliwal 1997)."""

    def _build(self) -> None:
        params = self.params
        stack = (params["src_emb_size"], params["encoder_layers"], params["encoder_use_skip_connections"])
        self.forward, self.backward = self._layers(*stack), self._layers(*stack)
        self.output_size = self.forward[-1].output_size + self.backward[-1].output_size

    @property
    def state_sizes(self) -> list[list[int]]:
        return [[2 * size for size in layer.direction.state_sizes] for layer in self.forward]

    def _run(self, x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, States]:
        order = reversing_order(lengths, tf.shape(x)[0])
        forward, states = self._run_layers(self.forward, x, lengths)
        backward, others = self._run_layers(self.backward, permute_steps(x, order), lengths)
        joined = [[tf.concat(both, -1) for both in zip(one, other, strict=True)]
                  for one, other in zip(states, others, strict=True)]
        return tf.concat([forward, permute_steps(backward, order)], -1), joined


class GNMTLikeEncoderWithEmbedding(RNNEncoderWithEmbedding):
    """GNMT's encoder: one bidirectional layer, then unidirectional layers.

    See Wu et al. 2016, https://arxiv.org/abs/1609.08144.

    The bidirectional layer has ``num_units`` units in each direction and no dropout. The unidirectional layers above
    it have dropout and, from the second of them on, residual connections.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **RNNEncoderWithEmbedding.get_required_params(),
            "encoder_use_skip_connections": Param(bool, doc="Accepted for old configs; has no effect, because the "
                                                  "layers always have residual connections.", on_change=FREE),
        }

    def _problems(self) -> list[str]:
        layers = self.params["encoder_layers"]
        return [] if layers >= 2 else [
            f"'{self.params_path}/encoder_layers' must be at least 2, got {layers}: one bidirectional layer and one "
            "above it."]

    def _build(self) -> None:
        params = self.params
        self.bidirectional = self._cell.bidirectional_layer(
            self._cell_params, params["src_emb_size"], self._initializer, self._regularizer)
        self.layers = self._layers(self.bidirectional.output_size, params["encoder_layers"] - 1, True)
        self.output_size = self.layers[-1].output_size

    @property
    def state_sizes(self) -> list[list[int]]:
        first = [2 * size for size in self.bidirectional.forward.state_sizes]
        return [first, *(layer.direction.state_sizes for layer in self.layers)]

    def _run(self, x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, States]:
        if not self.returns_state:
            return self._run_layers(self.layers, self.bidirectional(x, lengths, self.training), lengths)
        x, first = self.bidirectional.with_final_states(x, lengths, self.training)
        x, others = self._run_layers(self.layers, x, lengths)
        return x, [first, *others]


class GNMTLikeEncoderWithEmbedding_cuDNN(GNMTLikeEncoderWithEmbedding):  # noqa: N801  # the name in old configs
    """``GNMTLikeEncoderWithEmbedding`` with the cells of cuDNN, and with different parameters.

    In contrast to NVIDIA's OpenSeq2Seq, outputs do not depend on padding.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        required = GNMTLikeEncoderWithEmbedding.get_required_params()
        return {
            **{name: required[name] for name in ("src_vocab_size", "src_emb_size", "encoder_layers")},
            "encoder_cell_units": Param(int, doc="Number of units in each layer and direction.", minimum=1,
                                        maximum=10**6),
            "encoder_cell_type": Param(["lstm", "gru"], doc="Kind of cell.", on_change=REFUSE),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        optional = GNMTLikeEncoderWithEmbedding.get_optional_params()
        return {name: spec for name, spec in optional.items()
                if name not in ("encoder_dp_input_keep_prob", *old_layer_params())}

    def _checked_cell(self) -> tuple[type[CoreCell], dict[str, Any], list[str]]:
        cell = CudnnCompatibleLSTMCell if self.params["encoder_cell_type"] == "lstm" else CudnnCompatibleGRUCell
        return cell, {"num_units": self.params["encoder_cell_units"]}, []
