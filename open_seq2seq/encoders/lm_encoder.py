"""The recurrent encoder of language models, with the regularisation of AWD-LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, without_effect
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.parts.carried_state import CarriedState
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import dropout, keep_mask, keep_mask_of, keep_scale, locked_dropout, mask_out
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.rnn.core_cells import (
    CUDNN_LAYERS,
    BasicLSTMCell,
    CoreCell,
    CudnnCompatibleLSTMCell,
    LayerNormBasicLSTMCell,
    LSTMCell,
    WeightDropLayerNormBasicLSTMCell,
    checked_cell_params,
    core_cell_params,
    old_layer_params,
    weight_drop_params,
    weight_drop_rates,
)
from open_seq2seq.parts.rnn.layers import Direction, last_values
from open_seq2seq.parts.rnn.weight_drop import WeightDropDirection
from open_seq2seq.parts.transformer.embedding import scaled_rows

States = list[list[tf.Tensor]]


class LayerDropout(NamedTuple):
    """Dropout rates of one layer.

    Attributes:
      before: dropout rate of the layer's input.
      after: dropout rate of the layer's output.
    """

    before: float
    after: float


class CarriedStack(Module):
    """Recurrent layers with dropout around them, and states that may be carried over from batch to batch.

    Args:
      layers: the layers.
      rates: dropout rates of each layer.
      residual: whether layers whose input and output have the same size add the input to the output.
      locked: whether a dropout mask is the same at all steps (variational dropout).
      carry: whether states are carried over.
    """

    def __init__(self, layers: Sequence[Direction], rates: Sequence[LayerDropout], residual: bool = False,
                 locked: bool = False, carry: bool = False) -> None:
        super().__init__(name="carried_stack")
        self.layers, self._rates, self._residual = list(layers), tuple(rates), residual
        self._dropout: Callable[[tf.Tensor, float, bool], tf.Tensor] = locked_dropout if locked else dropout
        self.states: list[list[CarriedState]] = [
            [self.carried_state([size]) for size in layer.state_sizes] if carry else []
            for layer in self.layers]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False,
                 states: States | None = None) -> tuple[tf.Tensor, tf.Tensor, States]:
        """Runs the layers over time.

        The layers start from ``states``, if given. Otherwise, with ``carry``, they start from the carried states and
        write their final states for the next batch; without ``carry``, they start from zeros.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps; outputs after an example's end are arbitrary.
          training: whether to apply dropout.
          states: states of each layer before the first step, ``[batch, size]`` FP32, or None.

        Returns:
          (outputs ``[time, batch, output]``; the same outputs before the last dropout; for each layer, its final states
          ``[batch, size]`` FP32, the output first).
        """
        found: States = []
        raw = x
        for number, (layer, rates) in enumerate(zip(self.layers, self._rates, strict=True)):
            first = self._first(number, tf.shape(x)[1]) if states is None else states[number]
            x = self._dropout(x, rates.before, training)
            histories = layer(x, lengths, first, training)
            found.append([last_values(history, state, lengths)
                          for history, state in zip(histories, first, strict=True)])
            raw = self._joined(x, histories[0])
            x = self._dropout(raw, rates.after, training)
            for state, value in zip(self.states[number] if states is None else [], found[-1], strict=False):
                state.write(value)
        return x, raw, found

    def _first(self, number: int, batch: tf.Tensor) -> list[tf.Tensor]:
        return [state.read() for state in self.states[number]] or self.layers[number].initial_states(batch)

    def _joined(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return x + y if self._residual and x.shape[-1] == y.shape[-1] else y

    def prepare(self, dtype: tf.DType) -> list[list[tf.Tensor]]:
        """Returns the recurrent weights of each layer in ``dtype`` for ``step``; generation calls this once."""
        return [layer.step_weights(dtype) for layer in self.layers]

    def step(self, x: tf.Tensor, states: States, weights: Sequence[Sequence[tf.Tensor]]) -> tuple[tf.Tensor, States]:
        """Computes one step without dropout.

        Args:
          x: ``[batch, input]`` in the compute dtype.
          states: states of each layer, as returned by ``__call__``.
          weights: the result of ``prepare``.

        Returns:
          (output ``[batch, output]``, the new states).
        """
        found: States = []
        for layer, before, used in zip(self.layers, states, weights, strict=True):
            new, _ = layer.step_cell().step(layer.project(x), tuple(before), used)
            found.append(list(new))
            x = self._joined(x, tf.cast(new[0], x.dtype))
        return x, found


# Cells that WeightDropDirection supports.
_PLAIN = (BasicLSTMCell, LSTMCell, LayerNormBasicLSTMCell, CudnnCompatibleLSTMCell)


class LMEncoder(LanguageEncoder):
    """Stack of recurrent layers that predicts each token from those before it.

    With ``WeightDropLayerNormBasicLSTMCell``, weight drop, variational dropout, dropout of the embeddings and tied
    weights, this is AWD-LSTM (Merity et al. 2018, https://arxiv.org/abs/1708.02182).
    """

    _cell: type[CoreCell]
    _cell_params: dict[str, Any]

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **LanguageEncoder.get_required_params(),
            "emb_size": Param(int, doc="Size of the embeddings.", minimum=1),
            "encoder_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        cell = core_cell_params()
        return {
            **LanguageEncoder.get_optional_params(),
            "core_cell": Param((type, str, type(None)), None, cell["core_cell"].doc + " Not used with use_cudnn_rnn.",
                               names="cell"),
            "core_cell_params": Param(dict, {}, cell["core_cell_params"].doc),
            "encoder_use_skip_connections": Param(bool, False, "Whether layers add their input to their output, if "
                                                  "both have the same number of channels."),
            "use_cudnn_rnn": Param(bool, False, "Whether the layers have the cells of cudnn_rnn_type, with emb_size "
                                   "units each, instead of core_cell."),
            "cudnn_rnn_type": Param((str, type, type(None)), None, "With use_cudnn_rnn: CudnnLSTM or CudnnGRU."),
            **_dropout_params(),
            **weight_drop_params(),
            "awd_initializer": Param(bool, False, "Whether to initialise as in AWD-LSTM, uniformly: the layers from "
                                     "-1/√units to 1/√units and, unless initializer is set, the embeddings and the "
                                     "output layer from -0.1 to 0.1.", on_change=FREE),
            "use_cell_state": Param(bool, False, "For classification: whether the classes are also computed from the "
                                    "cell state of the last layer, which must be an LSTM."),
            "dropout_seed": Param(int, 1822, "Accepted for old configs; has no effect, because all random numbers "
                                  "depend on random_seed.", on_change=FREE),
            **without_effect("fc_dim", "rnn_type", "sampling_prob", "schedule_learning", "weight_variational"),
            **old_layer_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        default = tf.keras.initializers.RandomUniform(-0.1, 0.1) if params["awd_initializer"] else None
        initializer, regularizer = self.make_initializer(default), self.make_regularizer()
        self.embedding = self.weight([params["vocab_size"], params["emb_size"]], initializer, regularizer=regularizer)
        layers = self._layers(initializer, regularizer)
        self.stack = CarriedStack(layers, self._rates(), params["encoder_use_skip_connections"],
                                  params["variational_recurrent"], params["carry_state"])
        self.output_size = layers[-1].output_size
        self.output_layer = self._make_output_layer(self.embedding, initializer, regularizer)

    def _problems(self) -> list[str]:
        params, path = self.params, self.params_path
        if params["use_cudnn_rnn"]:
            named = params["cudnn_rnn_type"]
            name = getattr(named, "__name__", str(named)).rpartition(".")[2]
            if name not in CUDNN_LAYERS:
                return [f"'{path}/cudnn_rnn_type' must be CudnnLSTM or CudnnGRU with use_cudnn_rnn, got {named!r}."]
            self._cell, self._cell_params = CUDNN_LAYERS[name], {"num_units": params["emb_size"]}
        elif params["core_cell"] is None:
            return [f"'{path}/core_cell' is missing: name a cell, such as LSTMCell, or set use_cudnn_rnn."]
        else:
            self._cell = params["core_cell"]
            self._cell_params, problems = checked_cell_params(params, path)
            if problems:
                return problems
        problems = []
        if params["use_cell_state"] and "lstm" not in self._cell.kind:
            problems.append(f"'{path}/use_cell_state' is True, but only LSTMs have a cell state: set it to False.")
        dropped = [name for name in weight_drop_params() if params[name] < 1.0]
        if dropped and not self._drops_weights:
            problems.append(f"'{path}/{dropped[0]}' is {params[dropped[0]]}, but weight drop and recurrent dropout "
                            f"need an LSTM without projection, groups and zoneout: remove '{dropped[0]}', or choose "
                            "another cell.")
        return problems

    @property
    def _drops_weights(self) -> bool:
        """Whether weight drop and recurrent dropout can be applied to layers of this cell."""
        plain = not self._cell_params.get("num_proj") and not self._cell_params.get("zoneout_prob")
        return self._cell is WeightDropLayerNormBasicLSTMCell or (self._cell in _PLAIN and plain)

    def _layers(self, initializer: Any, regularizer: Any) -> list[Direction]:
        params, layers, size = self.params, [], self.params["emb_size"]
        for number in range(params["encoder_layers"]):
            of_layer = self._cell_params
            if number == params["encoder_layers"] - 1 and params["weight_tied"]:
                of_layer = self._cell.with_output_size(of_layer, params["emb_size"])
            units = of_layer["num_units"]
            own = tf.keras.initializers.RandomUniform(-units ** -0.5, units ** -0.5)
            layers.append(self._layer(of_layer, size, own if params["awd_initializer"] else initializer, regularizer))
            size = layers[-1].output_size
        return layers

    def _layer(self, of_layer: dict[str, Any], size: int, initializer: Any, regularizer: Any) -> Direction:
        kept = {name: self.params[name] * of_layer.get(name, 1.0) for name in weight_drop_params()}
        if self._cell is WeightDropLayerNormBasicLSTMCell:
            return self._cell.layer({**of_layer, **kept}, size, initializer, regularizer)
        if min(kept.values()) == 1.0:
            return self._cell.layer(of_layer, size, initializer, regularizer)
        bias = of_layer.get("forget_bias", self._cell.gate_bias)
        return WeightDropDirection(size, of_layer["num_units"], self._cell.kind, initializer, regularizer,
                                   gate_bias=bias, **weight_drop_rates(kept))

    def _rates(self) -> list[LayerDropout]:
        params = self.params
        others = LayerDropout(1.0 - params["encoder_dp_input_keep_prob"], 1.0 - params["encoder_dp_output_keep_prob"])
        last = LayerDropout(1.0 - params["encoder_last_input_keep_prob"],
                            1.0 - params["encoder_last_output_keep_prob"])
        return [others] * (params["encoder_layers"] - 1) + [last]

    @property
    def _summary_size(self) -> int:
        inner = self.stack.layers[-1].state_sizes[-1]
        return self.output_size + (inner if self.params["use_cell_state"] else 0)

    def _summary(self, found: dict[str, Any]) -> tf.Tensor:
        last = super()._summary(found)
        if not self.params["use_cell_state"]:
            return last
        return tf.concat([last, tf.cast(found["state"][-1][1], self.compute_dtype)], 1)

    def _embedded(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings ``[…, emb_size]`` of ids ``[…]`` in the dtype of the recurrent layers.

        In training, dropout is applied to the embedding table.
        """
        table, flat = tf.convert_to_tensor(self.embedding), tf.reshape(ids, [-1])
        rate = 1.0 - self.params["encoder_emb_keep_prob"]
        factors = tf.ones([1, 1])
        if self.training and rate:
            if self.params["embedding_dropout"] == "words":
                kept = tf.cast(keep_mask([self.embedding.shape[0]], rate), tf.float32) * keep_scale(rate)
                factors = tf.gather(kept, flat)[:, tf.newaxis]
            else:
                table = mask_out(table * keep_scale(rate), keep_mask_of(table, rate))
        rows = scaled_rows(table, flat, factors)
        rows = tf.reshape(rows, tf.concat([tf.shape(ids), [self.params["emb_size"]]], 0))
        return tf.cast(rows, self.dtype_of("recurrence"))

    def _hidden(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        steps = tf.transpose(ids)  # [time, batch], so that each step is contiguous in memory
        outputs, raw, states = self.stack(self._embedded(steps), lengths, self.training)
        by_row = [tf.cast(tf.transpose(x, [1, 0, 2]), self.compute_dtype) for x in (outputs, raw)]
        return {"outputs": by_row[0], "raw_outputs": by_row[1], "state": states}

    def prepare(self) -> Any:
        return {"stack": self.stack.prepare(self.dtype_of("recurrence")),
                "output": self.output_layer.prepare(self.compute_dtype)}

    def initial_cache(self, batch: tf.Tensor) -> States:
        return _cache([layer.initial_states(batch) for layer in self.stack.layers])

    def step(self, ids: tf.Tensor, number: tf.Tensor, cache: States, prepared: Any) -> tuple[tf.Tensor, States]:
        output, states = self.stack.step(self._embedded(ids[:, 0]), self._states(cache), prepared["stack"])
        logits = self.output_layer.logits(tf.cast(output, self.compute_dtype), prepared["output"])
        return logits[:, tf.newaxis], _cache(states)

    def read(self, ids: tf.Tensor, number: tf.Tensor, cache: States, prepared: Any) -> States:
        steps = tf.transpose(ids)
        lengths = tf.fill(tf.shape(ids)[:1], tf.shape(ids)[1])
        return _cache(self.stack(self._embedded(steps), lengths, states=self._states(cache))[2])

    def _states(self, cache: States) -> States:
        """Returns the states ``[batch, size]`` in a cache, with static shapes, which the loop of generation loses."""
        return [[in_shape(value[:, 0], [None, columns])
                 for value, columns in zip(of_layer, layer.state_sizes, strict=True)]
                for layer, of_layer in zip(self.stack.layers, cache, strict=True)]


def _cache(states: States) -> States:
    return [[value[:, tf.newaxis] for value in of_layer] for of_layer in states]


def _dropout_params() -> dict[str, Any]:
    def keep(doc: str) -> Param:
        return Param(float, 1.0, doc, above=0.0, maximum=1.0)

    return {
        "encoder_dp_input_keep_prob": keep("Keep probability of dropout before each layer but the last."),
        "encoder_dp_output_keep_prob": keep("Keep probability of dropout after each layer but the last."),
        "encoder_last_input_keep_prob": keep("Keep probability of dropout before the last layer."),
        "encoder_last_output_keep_prob": keep("Keep probability of dropout after the last layer."),
        "encoder_emb_keep_prob": keep("Keep probability of dropout of the embedding table; see embedding_dropout."),
        "embedding_dropout": Param(["elements", "words"], "elements", "What dropout of the embedding table drops: its "
                                   "elements, as in NVIDIA's OpenSeq2Seq, or whole rows, as in AWD-LSTM."),
        "variational_recurrent": Param(bool, False, "Whether the dropout masks around the layers are the same at all "
                                       "steps."),
    }
