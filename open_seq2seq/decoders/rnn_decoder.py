"""Recurrent decoders with attention for translation, including the decoder of GNMT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param, with_change
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder, beam_params, coverage_params
from open_seq2seq.decoders.decoder import (
    Decoder,
    check_loss,
    decoder_inputs,
    limits_by_factor,
    targets_begin_with_start,
)
from open_seq2seq.decoding.sampling import sampling_params
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.attention import GlobalAttention, MonotonicAttention
from open_seq2seq.parts.rnn.attentive import AttentiveStack, AttentiveState
from open_seq2seq.parts.rnn.cells import product
from open_seq2seq.parts.rnn.core_cells import checked_cell_params, core_cell_params, old_layer_params
from open_seq2seq.parts.rnn.layers import ResidualLayer
from open_seq2seq.utils.errors import ConfigError

Sizes = Sequence[Sequence[int]]


def encoder_state_sizes(model: Any, path: str) -> Sizes:
    """Makes a model's encoder return its final states, and returns the sizes of these states.

    Args:
      model: the model, whose encoder is already built.
      path: path of the parameter that requires the states, for messages.

    Returns:
      For each layer of the encoder, the number of columns of each of its states.

    Raises:
      ConfigError: the encoder has no states.
    """
    encoder: Any = getattr(model, "encoder", None)
    if not hasattr(encoder, "returns_state"):
        raise ConfigError([f"'{path}' needs the final states of a recurrent encoder, but {type(encoder).__name__} has "
                           "none: remove this parameter, or choose a recurrent encoder."])
    encoder.returns_state = True
    return encoder.state_sizes


class StateBridge(Module):
    """Copies the states of an encoder to a decoder, or maps them with a linear layer (``dense``).

    The last layer of the decoder gets the states of the encoder's last layer, and so on downwards. If the decoder
    has more layers, its lowest layers get the states of the encoder's first layer.

    Args:
      kind: ``copy`` or ``dense``.
      source: number of columns of each state of each layer of the encoder.
      target: number of columns of each state of each layer of the decoder.
      path: path of the parameter that gives ``kind``, for messages.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.

    Raises:
      ConfigError: states of different sizes are to be copied.
    """

    def __init__(self, kind: str, source: Sizes, target: Sizes, path: str, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="bridge")
        self._target = [list(sizes) for sizes in target]
        self._layers = [max(0, len(source) - len(target) + number) for number in range(len(target))]
        chosen = [list(source[number]) for number in self._layers]
        if kind == "copy" and chosen != self._target:
            raise ConfigError([f"'{path}' is copy, but the encoder's states have the sizes {chosen} and the decoder's "
                               f"{self._target}: make the sizes equal, or set this parameter to dense."])
        self.kernels = [] if kind == "copy" else [
            self.weight([sum(before), sum(after)], initializer, regularizer=regularizer)
            for before, after in zip(chosen, self._target, strict=True)]
        self.biases = [self.weight([kernel.shape[1]], "zeros") for kernel in self.kernels]

    def __call__(self, states: Sequence[Sequence[tf.Tensor]], dtype: tf.DType) -> list[list[tf.Tensor]]:
        """Returns the initial states of each layer of the decoder, ``[batch, size]`` FP32.

        Args:
          states: the final states of each layer of the encoder, ``[batch, size]`` FP32.
          dtype: dtype of the products.
        """
        chosen = [list(states[number]) for number in self._layers]
        if not self.kernels:
            return chosen
        return [tf.split(product(tf.concat(state, -1), cast_weight(kernel, dtype)) + bias, sizes, axis=-1)
                for state, kernel, bias, sizes in zip(chosen, self.kernels, self.biases, self._target, strict=True)]


_GNMT = ("gnmt", "gnmt_v2")


def _search_params() -> dict[str, Any]:
    return with_change(FREE, {
        "beam_width": Param(int, 1, "Number of hypotheses kept per sentence; 1 is greedy search.", minimum=1,
                            maximum=10**4),
        "length_penalty": Param(float, 0.0, "Exponent of the length penalty, ((5 + length) / 6)^length_penalty by "
                                "default (see beam_rules).", minimum=0.0),
        "n_best": Param(int, 1, "Number of translations returned per sentence: at most beam_width in a search, any "
                        "number in sampling.", minimum=1, maximum=10**4),
        "max_length_factor": Param(float, 2.0, "Maximum length of a translation divided by the length of its source.",
                                   "tokens per token", above=0.0, maximum=1000.0),
        **beam_params(),
        **coverage_params(),
        **sampling_params(),
    })


class RNNDecoderWithAttention(AutoregressiveDecoder):
    """Recurrent layers that attend to the source.

    The parameter ``attention_type`` selects the kind of attention. With ``bahdanau`` and ``luong``, the last layer's
    output is the query, and the logits are computed from the context alone. ``bahdanau_monotonic`` and
    ``luong_monotonic`` are the same, but the attention only moves forward in the source (see ``MonotonicAttention``).
    With ``gnmt`` and ``gnmt_v2`` (Wu et al. 2016, https://arxiv.org/abs/1609.08144), the first layer's output is the
    query of normalised ``bahdanau`` attention. The layers above read the output of the layer below and the context,
    in ``gnmt`` that of the previous step, in ``gnmt_v2`` that of the same step.

    With ``input_feeding``, the first layer also reads the context of the previous step. Training then computes the
    attention and the layers below it step by step. Without it, training runs each layer over the whole target.

    Targets are ids ``[batch, time]`` that end with END_SYMBOL. If they begin with GO_SYMBOL (``use_start_token`` of the
    data layer, on by default), the logits at position t predict the id at t + 1, otherwise the id at t. With targets,
    the decoder returns ``logits`` ``[batch, time, vocabulary]``, ``outputs`` (the most likely ids ``[batch, time]``),
    and ``alignments`` ``[batch, time, 1, source]``. Without targets, ``outputs`` are the best ids ``[batch, length]``.
    """

    source_parts = ("memory",)
    beam_size_param = "beam_width"
    alpha_param = "length_penalty"

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "GO_SYMBOL": Param(int, doc="Id that starts a sentence.", minimum=0, on_change=REFUSE),
            "END_SYMBOL": Param(int, doc="Id that ends a sentence.", minimum=0, on_change=REFUSE),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=2),
            "tgt_emb_size": Param(int, doc="Size of the embeddings.", minimum=1),
            "attention_layer_size": Param(int, doc="Size of the space in which keys and queries are compared; with "
                                          "luong, this must be the output size of the cell.", minimum=1),
            "attention_type": Param(["bahdanau", "luong", "gnmt", "gnmt_v2", "bahdanau_monotonic", "luong_monotonic"],
                                    doc="Kind of attention.", on_change=REFUSE),
            "core_cell": core_cell_params()["core_cell"],
            "decoder_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
            "decoder_use_skip_connections": Param(
                bool, doc="Whether layers add their input, without the context, to their output: from the second layer "
                "on, or in gnmt and gnmt_v2 from the third.", on_change=REFUSE),
            "batch_size": Param(int, doc="Set by the model; has no effect.", unit="sentences", derived=True,
                                minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "core_cell_params": Param(dict, {}, "Arguments of the cell, with num_units (required)."),
            "bahdanau_normalize": Param(bool, False, "Whether bahdanau attention is normalised: the score vector has a "
                                        "learned norm, and a bias is added inside the tanh. Attention in gnmt and "
                                        "gnmt_v2 always is.", on_change=REFUSE),
            "luong_scale": Param(bool, False, "Whether luong multiplies the scores by a learned number.",
                                 on_change=REFUSE),
            "score_scale_init": Param((float, type(None)), None, "With normalised bahdanau (so in gnmt and gnmt_v2) or "
                                      "luong_scale: initial value of the learned factor of the scores; by default, "
                                      "1 / √attention_layer_size with bahdanau and 1 with luong_scale. The default "
                                      "with bahdanau keeps attention almost uniform for about a thousand updates; for "
                                      "short training, 3.0 is better.", above=0.0,
                                      on_change=FREE),
            "embedding_scale": Param(float, 1.0, "Factor of the embeddings that the first layer reads. "
                                     "With a value above 1, they matter from the start of training, and are learned "
                                     "faster.", above=0.0, on_change=REFUSE),
            "sigmoid_noise": Param(float, 0.0, "With monotonic attention: standard deviation of noise that training "
                                   "adds to the scores, so that the model learns scores far from 0.", minimum=0.0),
            "score_bias_init": Param(float, 0.0, "With monotonic attention: initial value of the learned bias that is "
                                     "added to the scores.", on_change=FREE),
            "input_feeding": Param(bool, True, "Whether the first layer also reads the context of the previous step, "
                                   "as in NVIDIA's OpenSeq2Seq. If False, training runs each layer over the whole "
                                   "target instead of step by step; with gnmt_v2, the model is then that of NVIDIA's "
                                   "GNMT v2 in PyTorch.",
                                   on_change=REFUSE),
            "encoder_state": Param([None, "copy", "dense"], None, "Initial states of the layers: zeros (None), the "
                                   "final states of the encoder's layers (copy), or linear functions of them (dense).",
                                   on_change=REFUSE),
            "decoder_dp_input_keep_prob": Param(float, 1.0, "Keep probability of dropout before each layer.",
                                                above=0.0, maximum=1.0),
            "decoder_dp_output_keep_prob": Param(float, 1.0, "Keep probability of dropout after each layer.",
                                                 above=0.0, maximum=1.0),
            "weight_tied": Param(bool, False, "Whether the output projection is the table of the embeddings. With gnmt "
                                 "and gnmt_v2, the last layer then has tgt_emb_size output channels; with other kinds "
                                 "of attention, tgt_emb_size must be the number of channels of the encoder's output.",
                                 on_change=REFUSE),
            "share_source_embedding": Param(bool, False, "Whether to use the encoder's table of embeddings; source and "
                                            "target then need the same vocabulary.", on_change=REFUSE),
            "encoder_size": Param((int, type(None)), None, "Number of channels of the encoder's output; by default its "
                                  "output_size.", minimum=1),
            "PAD_SYMBOL": Param(int, 0, "Accepted for old configs; has no effect, because lengths mark padding.",
                                on_change=FREE),
            **old_layer_params(),
            **_search_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        self.reads_start = targets_begin_with_start(model)
        cell_params, problems = checked_cell_params(params, self.params_path)
        size, _ = self._encoder_size("encoder_size")
        problems = problems or self._problems(params["core_cell"].output_size(cell_params), size)
        if problems:
            raise ConfigError(problems)
        self._initializer, self._regularizer = self.make_initializer(), self.make_regularizer()
        self.stack = self._make_stack(cell_params, size)
        self.bridge = None if params["encoder_state"] is None else StateBridge(
            params["encoder_state"], encoder_state_sizes(model, f"{self.params_path}/encoder_state"),
            self.stack.state_sizes, f"{self.params_path}/encoder_state", self._initializer, self._regularizer)
        table = [params["tgt_vocab_size"], params["tgt_emb_size"]]
        if not params["share_source_embedding"]:
            self.embedding = self.weight(table, self._initializer)
        if not params["weight_tied"]:
            self.output_kernel = self.weight([self.stack.output_size, params["tgt_vocab_size"]], self._initializer,
                                             regularizer=self._regularizer)

    def _problems(self, units: int, memory_size: int | None) -> list[str]:
        """Returns one sentence for each invalid combination of parameters.

        Args:
          units: number of output channels of the cell.
          memory_size: number of channels of the encoder's output; None if unknown.
        """
        params, path = self.params, self.params_path
        kind, layers = params["attention_type"], params["decoder_layers"]
        problems = self._encoder_size("encoder_size")[1]
        ids = params["tgt_vocab_size"]
        problems += [f"'{path}/{name}' is {params[name]}, but must be below tgt_vocab_size, which is {ids}."
                     for name in ("GO_SYMBOL", "END_SYMBOL") if params[name] >= ids]
        if kind in _GNMT and layers < 2:
            problems.append(f"'{path}/decoder_layers' must be at least 2 with attention_type {kind}, got {layers}.")
        if kind.startswith("luong") and units != params["attention_layer_size"]:
            problems.append(f"'{path}/attention_layer_size' must be the cell's size ({units}) with attention_type "
                            f"{kind}, got {params['attention_layer_size']}.")
        allowed = ("bahdanau_normalize",) if kind in _GNMT else ()
        for name, wanted in (("bahdanau_normalize", "bahdanau"), ("luong_scale", "luong"),
                             ("sigmoid_noise", "monotonic"), ("score_bias_init", "monotonic")):
            if params[name] and wanted not in kind and name not in allowed:
                problems.append(f"'{path}/{name}' has no meaning with attention_type {kind}: leave it out, or set "
                                f"attention_type to {'bahdanau_' if wanted == 'monotonic' else ''}{wanted}.")
        if params["score_scale_init"] and not self._is_normalized():
            problems.append(f"'{path}/score_scale_init' has no effect with attention_type {kind}, whose scores have no "
                            "learned factor: leave it out, or set bahdanau_normalize or luong_scale.")
        if params["weight_tied"] and kind not in _GNMT and memory_size not in (None, params["tgt_emb_size"]):
            problems.append(f"'{path}/tgt_emb_size' must be {memory_size} with weight_tied, got "
                            f"{params['tgt_emb_size']}: with {kind} attention, the logits are computed from the "
                            "context, which has as many channels as the encoder's output.")
        return problems

    def _make_stack(self, cell_params: dict[str, Any], memory_size: int) -> AttentiveStack:
        params, layers, cell = self.params, [], self.params["core_cell"]
        units = cell.output_size(cell_params)
        is_gnmt = params["attention_type"] in _GNMT
        num_inner = 1 if is_gnmt else params["decoder_layers"]
        drops = (1.0 - params["decoder_dp_input_keep_prob"], 1.0 - params["decoder_dp_output_keep_prob"])
        size = params["tgt_emb_size"] + (memory_size if params["input_feeding"] else 0)
        for number in range(params["decoder_layers"]):
            last = number == params["decoder_layers"] - 1
            size += memory_size if number >= num_inner else 0
            layer_params = cell.with_output_size(cell_params, params["tgt_emb_size"]) \
                if last and is_gnmt and params["weight_tied"] else cell_params
            direction = cell.layer(layer_params, size, self._initializer, self._regularizer)
            skips = params["decoder_use_skip_connections"] and direction.output_size == units
            layers.append(ResidualLayer(direction, skips and number >= (2 if is_gnmt else 1), *drops))
            size = direction.output_size
        attention = self._make_attention(memory_size, layers[num_inner - 1].output_size)
        return AttentiveStack(layers, attention, num_inner, memory_size, params["input_feeding"],
                              params["attention_type"] == "gnmt")

    def _is_normalized(self) -> bool:
        """Returns whether the scores of the attention have a learned factor."""
        params = self.params
        return params["attention_type"] in _GNMT or params["bahdanau_normalize"] or params["luong_scale"]

    def _make_attention(self, memory_size: int, query_size: int) -> GlobalAttention:
        params, kind = self.params, self.params["attention_type"]
        arguments = {"kind": "luong" if kind.startswith("luong") else "bahdanau", "memory_size": memory_size,
                     "query_size": query_size, "units": params["attention_layer_size"],
                     "normalized": self._is_normalized(), "initializer": self._initializer,
                     "regularizer": self._regularizer,
                     "scale": params["score_scale_init"]}
        if not kind.endswith("monotonic"):
            return GlobalAttention(**arguments)
        return MonotonicAttention(params["sigmoid_noise"], params["score_bias_init"], **arguments)

    def _table(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        """Returns the table of the embeddings, ``[ids, tgt_emb_size]`` FP32.

        Raises:
          ConfigError: the decoder shares the encoder's table, but the encoder returns no table, or one whose shape is
            not ``[tgt_vocab_size, tgt_emb_size]``.
        """
        if not self.params["share_source_embedding"]:
            return tf.convert_to_tensor(self.embedding)
        table = encoder_output.get("embedding_table")
        wanted = [self.params["tgt_vocab_size"], self.params["tgt_emb_size"]]
        if table is None or list(table.shape) != wanted:
            actual = "none" if table is None else f"one of shape {list(table.shape)}"
            raise ConfigError([f"'{self.params_path}/share_source_embedding' needs a table of shape {wanted} from the "
                               f"encoder, which has {actual}: use an encoder with such a table (the same vocabulary "
                               "and embedding size for source and target), or set share_source_embedding to False."])
        return table

    def _embed(self, table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.params["embedding_scale"] * tf.gather(table, ids), self.dtype_of("recurrence"))

    def _projection(self, table: tf.Tensor) -> tf.Tensor:
        """Returns the matrix ``[output_size, vocabulary]`` of the logits in the compute dtype."""
        if self.params["weight_tied"]:
            return tf.cast(tf.transpose(table), self.compute_dtype)
        return cast_weight(self.output_kernel, self.compute_dtype)

    def _first_states(self, encoder_output: Mapping[str, Any]) -> list[list[tf.Tensor]] | None:
        """Returns the initial states of each layer's cell, ``[batch, size]`` FP32; None for zeros."""
        return None if self.bridge is None else self.bridge(encoder_output["state"], self.dtype_of("recurrence"))

    def _memory(self, encoder_output: Mapping[str, Any]) -> Any:
        source = tf.cast(encoder_output["outputs"], self.dtype_of("recurrence"))
        return self.stack.memory(source, lengths_of(encoder_output))

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        check_loss(self.model, self.reads_start, type(self).__name__)
        inputs = decoder_inputs(ids, self.params["GO_SYMBOL"], self.reads_start)
        table = self._table(encoder_output)
        x, weights = self.stack(self._embed(table, tf.transpose(inputs)), lengths, self._memory(encoder_output),
                                self.training, self._first_states(encoder_output))
        hidden = tf.cast(tf.transpose(x, [1, 0, 2]), self.compute_dtype)
        logits = times_matrix(hidden, self._projection(table))
        return {"logits": logits, "outputs": [tf.argmax(logits, -1, tf.int32)],
                "alignments": tf.transpose(weights, [1, 0, 2])[:, :, tf.newaxis]}

    def limits(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        # Each sentence has its own limit, so that results do not depend on the longest sentence in the batch.
        return limits_by_factor(lengths_of(encoder_output), self.params["max_length_factor"])

    def prepare(self, encoder_output: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the memory of the source, the table of the embeddings, and weights cast to the compute dtype."""
        table = self._table(encoder_output)
        return {"memory": self._memory(encoder_output), "table": table, "projection": self._projection(table),
                "layers": self.stack.prepare(self.dtype_of("recurrence"))}

    def initial_cache(self, encoder_output: Mapping[str, Any], beam_size: int) -> AttentiveState:
        source = tf.cast(encoder_output["outputs"], self.dtype_of("recurrence"))
        return self.stack.initial_state(source, beam_size, self._first_states(encoder_output))

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: AttentiveState,
             prepared: dict[str, Any]) -> tuple[tf.Tensor, AttentiveState]:
        output, state = self.stack.step(self._embed(prepared["table"], ids), cache, prepared["memory"],
                                        prepared["layers"])
        return times_matrix(tf.cast(output, self.compute_dtype), prepared["projection"]), state

    def _outputs(self, result: Any) -> list[tf.Tensor]:
        return [result.ids[:, 0]]


class BeamSearchRNNDecoderWithAttention(RNNDecoderWithAttention):
    """``RNNDecoderWithAttention`` under the name that configs for NVIDIA's OpenSeq2Seq use for beam search."""
