"""The recurrent encoder of language models, with the regularisation of AWD-LSTM."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.parts.dropout import keep_mask, keep_scale, mask_out
from open_seq2seq.parts.output_layer import OutputLayer
from open_seq2seq.parts.rnn.carried import CarriedStack, LayerDropout, States
from open_seq2seq.parts.rnn.core_cells import (
    CoreCell,
    checked_cell_params,
    core_cell_params,
    old_layer_params,
    weight_drop_params,
    weight_drop_rates,
)
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.parts.rnn.weight_drop import WeightDropDirection
from open_seq2seq.parts.transformer.embedding import scaled_rows

_CUDNN = {"CudnnLSTM": "lstm", "CudnnGRU": "gru"}
_PREFIX = "tf.contrib.cudnn_rnn."


class LMEncoder(LanguageEncoder):
    """Stack of recurrent layers that predicts each token from those before it.

    With ``WeightDropLayerNormBasicLSTMCell``, weight drop, variational dropout, dropout of the embeddings and tied
    weights, this is AWD-LSTM (Merity et al. 2018, https://arxiv.org/abs/1708.02182).
    """

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
            "encoder_use_skip_connections": Param(bool, False, "Whether layers whose input has as many channels as "
                                                  "their output add it to the output."),
            "use_cudnn_rnn": Param(bool, False, "Whether the layers are those of cuDNN, with emb_size units each, "
                                   "instead of core_cell."),
            "cudnn_rnn_type": Param((str, type(None)), None, "With use_cudnn_rnn: CudnnLSTM or CudnnGRU."),
            **_dropout_params(),
            **weight_drop_params(),
            "awd_initializer": Param(bool, False, "Whether to initialise the embeddings from -0.1 to 0.1 and the "
                                     "layers from -1/√units to 1/√units, as in AWD-LSTM.", on_change=FREE),
            "dropout_seed": Param(int, 1822, "Accepted for old configs; has no effect, because all random numbers "
                                  "depend on random_seed.", on_change=FREE),
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
        self.output_size = layers[-1].hidden_size
        self.output_layer = OutputLayer(
            self.output_size, params["vocab_size"], self.embedding if params["weight_tied"] else None,
            params["fc_use_bias"], initializer, regularizer)

    def _problems(self) -> list[str]:
        params, path = self.params, self.params_path
        if params["use_cudnn_rnn"]:
            self._cell_params: dict[str, Any] = {"num_units": params["emb_size"]}
            kind = str(params["cudnn_rnn_type"]).removeprefix(_PREFIX)
            self._kind, self._gate_bias = _CUDNN.get(kind, ""), None
            problems = [] if self._kind else [f"'{path}/cudnn_rnn_type' must be CudnnLSTM or CudnnGRU with "
                                              f"use_cudnn_rnn, got {params['cudnn_rnn_type']!r}."]
        elif params["core_cell"] is None:
            return [f"'{path}/core_cell' is missing: name a cell, such as LSTMCell, or set use_cudnn_rnn."]
        else:
            cell: type[CoreCell] = params["core_cell"]
            self._cell_params, problems = checked_cell_params(params, path)
            self._kind, self._gate_bias = cell.kind, self._cell_params.get("forget_bias", cell.gate_bias)
        dropped = [name for name in weight_drop_params() if self._keep_probs()[name] < 1.0]
        if "lstm" not in self._kind and dropped and not problems:
            problems.append(f"'{path}/{dropped[0]}' is {self._keep_probs()[dropped[0]]}, but only LSTMs have weight "
                            "drop and recurrent dropout: remove it, or choose an LSTM.")
        return problems

    def _keep_probs(self) -> dict[str, float]:
        """Returns the keep probabilities of ``weight_drop_params``: the encoder's own times those of the cell."""
        return {name: self.params[name] * self._cell_params.get(name, 1.0) for name in weight_drop_params()}

    def _layers(self, initializer: Any, regularizer: Any) -> list[Direction]:
        params, layers, size = self.params, [], self.params["emb_size"]
        for number in range(params["encoder_layers"]):
            last = number == params["encoder_layers"] - 1
            units = params["emb_size"] if last and params["weight_tied"] else self._cell_params["num_units"]
            own = tf.keras.initializers.RandomUniform(-units ** -0.5, units ** -0.5)
            layers.append(WeightDropDirection(
                size, units, self._kind, own if params["awd_initializer"] else initializer, regularizer,
                self._gate_bias, **weight_drop_rates(self._keep_probs())))
            size = units
        return layers

    def _rates(self) -> list[LayerDropout]:
        params = self.params
        others = LayerDropout(1.0 - params["encoder_dp_input_keep_prob"], 1.0 - params["encoder_dp_output_keep_prob"])
        last = LayerDropout(1.0 - params["encoder_last_input_keep_prob"],
                            1.0 - params["encoder_last_output_keep_prob"])
        return [others] * (params["encoder_layers"] - 1) + [last]

    def _embedded(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns embeddings ``[…, emb_size]`` of ids in the dtype of recurrent layers, with dropout of the table."""
        table, flat = tf.convert_to_tensor(self.embedding), tf.reshape(ids, [-1])
        rate = 1.0 - self.params["encoder_emb_keep_prob"]
        factors = tf.ones([1, 1])
        if self.training and rate:
            if self.params["embedding_dropout"] == "words":
                kept = tf.cast(keep_mask([self.embedding.shape[0]], rate), tf.float32) * keep_scale(rate)
                factors = tf.gather(kept, flat)[:, tf.newaxis]
            else:
                table = mask_out(table * keep_scale(rate), keep_mask(tf.shape(table), rate))
        rows = scaled_rows(table, flat, factors)
        rows = tf.reshape(rows, tf.concat([tf.shape(ids), [self.params["emb_size"]]], 0))
        return tf.cast(rows, self.dtype_of("recurrence"))

    def _hidden(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        steps = tf.transpose(ids)  # makes each step contiguous in memory
        outputs, raw, states = self.stack(self._embedded(steps), lengths, self.training)
        by_row = [tf.cast(tf.transpose(x, [1, 0, 2]), self.compute_dtype) for x in (outputs, raw)]
        return {"outputs": by_row[0], "raw_outputs": by_row[1], "state": states}

    def start(self, ids: tf.Tensor, lengths: tf.Tensor) -> States:
        steps = tf.transpose(ids)
        zeros = [layer.initial_states(tf.shape(ids)[0]) for layer in self.stack.layers]
        _, _, states = self.stack(self._embedded(steps), lengths, False, zeros)
        return [[value[:, tf.newaxis] for value in of_layer] for of_layer in states]

    def step(self, ids: tf.Tensor, cache: States) -> tuple[tf.Tensor, States]:
        # The loop of generation does not know the static shapes, because caches may grow.
        states = [[tf.ensure_shape(value[:, 0], [None, layer.hidden_size]) for value in of_layer]
                  for layer, of_layer in zip(self.stack.layers, cache, strict=True)]
        output, states = self.stack.step(self._embedded(ids[:, 0]), states)
        logits = self.output_layer.logits(tf.cast(output, self.compute_dtype))
        return logits[:, tf.newaxis], [[value[:, tf.newaxis] for value in of_layer] for of_layer in states]


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
                                   "elements, as in the published recipes, or whole rows, as in AWD-LSTM."),
        "variational_recurrent": Param(bool, False, "Whether the dropout masks around the layers are the same at all "
                                       "steps."),
    }
