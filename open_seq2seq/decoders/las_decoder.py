"""The decoder of Listen, Attend and Spell, and joint CTC-attention decoding: two decoders on the same encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.params import FREE, REFUSE, Param, check_params
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder
from open_seq2seq.decoders.decoder import Decoder, check_loss_of_same_positions, limits_by_factor
from open_seq2seq.decoding.ctc.prefix_scores import CtcPrefixScorer
from open_seq2seq.decoding.sampling import sampling_params
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import add_bias, times_matrix
from open_seq2seq.parts.dropout import dropout, keep_mask, keep_scale
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.portable import in_shape, scan
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.attention import AdditiveAttention, Memory
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.utils.errors import ConfigError


class SpellerState(NamedTuple):
    """State that one step passes to the next.

    Attributes:
      cells: the states of each layer's cell, ``[batch, beam, hidden]`` FP32 each.
      attended: the previous step's output, ``[batch, beam, heads · hidden]`` in the compute dtype.
      coverage: for each head, the ``coverage`` of ``AdditiveAttention``, ``[batch, beam, source]`` FP32.
    """

    cells: list[list[tf.Tensor]]
    attended: tf.Tensor
    coverage: list[tf.Tensor]


class Speller(Module):
    """Recurrent layers, and attention heads whose query is the output of the last layer.

    The output of a head is a matrix times the concatenation of the last layer's output and the head's context. The
    concatenated outputs of all heads are the output of the network. Together with the next symbol, they are also the
    input of the next step (input feeding, Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.3).

    Args:
      input_size: number of channels of the embedded symbols.
      memory_size: number of channels of the source.
      hidden_size: number of units per layer, and number of channels of each head's output.
      num_layers: number of recurrent layers.
      cell_type: ``lstm`` or ``gru``.
      attention: the arguments ``kind``, ``units`` and ``use_coverage`` of ``AdditiveAttention``.
      num_heads: number of attention heads.
      initializer: initialiser of the weights.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, input_size: int, memory_size: int, hidden_size: int, num_layers: int, cell_type: str,
                 attention: dict[str, Any], num_heads: int = 1, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="speller")
        self._hidden_size = hidden_size
        self.output_size = num_heads * hidden_size
        self.layers = []
        size = input_size + self.output_size
        for _ in range(num_layers):
            self.layers.append(Direction(size, hidden_size, cell_type, initializer, regularizer))
            size = hidden_size
        self.heads = [AdditiveAttention(memory_size=memory_size, query_size=hidden_size, initializer=initializer,
                                        regularizer=regularizer, **attention) for _ in range(num_heads)]
        self.output_kernels = [self.weight([hidden_size + memory_size, hidden_size], initializer,
                                           regularizer=regularizer) for _ in range(num_heads)]

    def memories(self, source: tf.Tensor, lengths: tf.Tensor) -> list[Memory]:
        """Returns each head's keys and values of a source.

        Args:
          source: ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
        """
        return [head.memory(source, lengths) for head in self.heads]

    def initial_state(self, source: tf.Tensor, beam_size: int) -> SpellerState:
        """Returns a state of zeros for ``beam_size`` hypotheses per utterance.

        Args:
          source: ``[batch, source, memory_size]`` in the compute dtype.
          beam_size: number of hypotheses.
        """
        batch, time = tf.shape(source)[0], tf.shape(source)[1]
        cells = [[tf.zeros([batch, beam_size, self._hidden_size]) for _ in range(layer.cell.num_states)]
                 for layer in self.layers]
        coverage = [tf.zeros(tf.stack([batch, beam_size, time])) for _ in self.heads]
        return SpellerState(cells, tf.zeros([batch, beam_size, self.output_size], source.dtype), coverage)

    def prepare(self, dtype: tf.DType) -> list[tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]:
        """Returns (input matrix, bias, recurrent weights) of each layer for ``step``, in ``dtype``.

        Callers call this once for all steps.
        """
        return [(cast_weight(layer.kernel, dtype), tf.cast(layer.bias, dtype), layer.step_weights(dtype))
                for layer in self.layers]

    def step(self, embedded: tf.Tensor, state: SpellerState, memories: Sequence[Memory], prepared: Any,
             factors: Sequence[tf.Tensor] | None = None) -> tuple[SpellerState, list[tf.Tensor]]:
        """Advances every hypothesis by one symbol.

        Args:
          embedded: embedded symbols, ``[batch, beam, input_size]`` in the compute dtype.
          state: state after the previous step.
          memories: result of ``memories``.
          prepared: result of ``prepare``.
          factors: dropout factors for each layer's output, of the output's shape; None disables dropout.

        Returns:
          (new state, whose ``attended`` is the output of the network; for each head, its attention weights
          ``[batch, beam, source]`` FP32).
        """
        beams, cells = tf.shape(embedded)[:2], []
        # In beam search, the static number of channels is unknown.
        x = tf.concat([embedded, in_shape(state.attended, [None, None, self.output_size])], -1)
        for number, (layer, (kernel, bias, weights)) in enumerate(zip(self.layers, prepared, strict=True)):
            rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel) + bias
            before = tuple(tf.reshape(part, [-1, self._hidden_size]) for part in state.cells[number])
            after, _ = layer.cell.step(rows, before, weights)
            shape = tf.concat([beams, [self._hidden_size]], 0)
            cells.append([in_shape(tf.reshape(part, shape), old.shape)
                          for part, old in zip(after, state.cells[number], strict=True)])
            x = tf.cast(cells[-1][0], x.dtype)
            x = x if factors is None else x * factors[number]
        return self._attend(x, cells, state, memories)

    def _attend(self, x: tf.Tensor, cells: Any, state: SpellerState, memories: Sequence[Memory],
                ) -> tuple[SpellerState, list[tf.Tensor]]:
        outputs, coverage, weights = [], [], []
        for head, kernel, before, memory in zip(self.heads, self.output_kernels, state.coverage, memories, strict=True):
            context, weight, after = head(x, before, memory)
            outputs.append(times_matrix(tf.concat([x, context], -1), cast_weight(kernel, x.dtype)))
            coverage.append(in_shape(after, before.shape))
            weights.append(weight)
        return SpellerState(cells, in_shape(tf.concat(outputs, -1), state.attended.shape), coverage), weights

    def __call__(self, embedded: tf.Tensor, source: tf.Tensor, lengths: tf.Tensor, dropout_rate: float = 0.0,
                 training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs over given symbols (teacher forcing).

        Args:
          embedded: embedded symbols, ``[batch, time, input_size]`` in the compute dtype.
          source: ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
          dropout_rate: dropout rate after each recurrent layer.
          training: whether to apply dropout.

        Returns:
          (outputs ``[batch, time, output_size]``, attention weights ``[batch, time, heads, source]`` FP32).
        """
        batch, time = tf.shape(embedded)[0], tf.shape(embedded)[1]
        memories, prepared = self.memories(source, lengths), self.prepare(source.dtype)
        inputs = tf.transpose(embedded, [1, 0, 2])[:, :, tf.newaxis]
        dropped = training and dropout_rate > 0.0
        shape = tf.stack([time, batch, 1, self._hidden_size])
        factors = [tf.where(keep_mask(shape, dropout_rate), tf.cast(keep_scale(dropout_rate), source.dtype), 0.0)
                   for _ in self.layers] if dropped else []
        outputs = tf.TensorArray(source.dtype, time, element_shape=[None, 1, self.output_size])
        looks = tf.TensorArray(tf.float32, time, element_shape=[None, len(self.heads), None])

        def body(step: tf.Tensor, state: SpellerState, outputs: tf.TensorArray, looks: tf.TensorArray) -> Any:
            step_factors = [factor[step] for factor in factors] if dropped else None
            state, weights = self.step(inputs[step], state, memories, prepared, step_factors)
            return step + 1, state, outputs.write(step, state.attended), looks.write(step, tf.concat(weights, 1))

        start = (tf.constant(0), self.initial_state(source, 1), outputs, looks)
        _, _, outputs, looks = tf.while_loop(lambda step, *_: step < time, body, start, maximum_iterations=time)
        attended = tf.transpose(outputs.stack()[:, :, 0], [1, 0, 2])
        return attended, tf.transpose(looks.stack(), [1, 0, 2, 3])


MAX_POSITIONS = 1024
_NEVER = -1e9
# Misspelled values of attention_type, from configs for NVIDIA's OpenSeq2Seq, and their correct spellings.
_SPELLINGS = {"bahadanau": "bahdanau"}
_ATTENTION = {
    "attention_dim": Param(int, doc="Size of the space in which keys and queries are compared.", minimum=1),
    "attention_type": Param(["bahdanau", "bahadanau", "chorowski", "zhaopeng"], doc="Kind of attention."),
}
_ATTENTION_OPTIONAL = {
    "use_coverage": Param(bool, True, "Whether chorowski uses the sum of the attention weights of all previous steps "
                          "instead of the weights of the last step."),
    "num_heads": Param(int, 1, "Number of attention heads.", minimum=1, maximum=1000),
    "plot_attention": Param(bool, False, "Whether the decoder, given targets, also returns the attention weights, as "
                            "alignments [batch, time, heads, source]."),
}
_ATTENTION_CHANGES = {"": REFUSE, "plot_attention": FREE}


class ListenAttendSpellDecoder(AutoregressiveDecoder):
    """The speller (Chan et al. 2015, https://arxiv.org/abs/1508.01211): recurrent layers that attend to the encoder.

    Targets are ids ``[batch, time]`` that end with END_SYMBOL; the inputs are the targets shifted right, after
    GO_SYMBOL. The decoder returns ``outputs``: ids ``[batch, length]``, and lengths ``[batch]`` that do not count
    END_SYMBOL. With targets, it also returns ``logits`` ``[batch, time, vocabulary]`` in FP32 and, if the parameter
    ``plot_attention`` is True, ``alignments`` ``[batch, time, heads, source]``.
    """

    are_log_probs = True
    source_parts = ("memories",)
    beam_size_param = "beam_width"
    alpha_param = "length_penalty"

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "GO_SYMBOL": Param(int, doc="Id that starts a transcript; set from the data layer.", derived=True,
                               minimum=0),
            "END_SYMBOL": Param(int, doc="Id that ends a transcript; set from the data layer.", derived=True,
                                minimum=0),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="symbols", derived=True,
                                    minimum=1),
            "tgt_emb_size": Param(int, doc="Size of the embeddings of symbols.", minimum=1),
            "attention_params": Param(dict, doc="attention_dim, attention_type (bahdanau, chorowski, zhaopeng), and "
                                      "optionally use_coverage, num_heads, plot_attention.",
                                      on_change=_ATTENTION_CHANGES),
            "rnn_type": Param(["lstm", "gru"], doc="Cell type."),
            "hidden_dim": Param(int, doc="Number of units per recurrent layer.", minimum=1),
            "num_layers": Param(int, doc="Number of recurrent layers.", minimum=1, maximum=1000),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "dropout_keep_prob": Param(float, 1.0, "Keep probability of dropout after each recurrent layer and before "
                                       "the output layer.", above=0.0, maximum=1.0),
            "pos_embedding": Param(bool, False, "Whether to add learned positional embeddings to the encoder's "
                                   f"outputs and to embedded symbols; positions from {MAX_POSITIONS} on share the "
                                   "last embedding."),
            "beam_width": Param(int, 1, "Number of hypotheses kept per utterance; 1 is greedy search.",
                                minimum=1, maximum=10**4,
                                on_change=FREE),
            "length_penalty": Param(float, 0.0, "Exponent of the length penalty ((5 + length) / 6)^length_penalty.",
                                    minimum=0.0, on_change=FREE),
            "n_best": Param((int, type(None)), None, "Number of transcripts returned per utterance. With beam search: "
                            "at most beam_width, which is the default. With sampling: any number; the default is 1.",
                            minimum=1, maximum=10**4, on_change=FREE),
            **sampling_params(),
            "max_length_factor": Param(float, 1.0, "Maximum length of a transcript divided by the number of encoder "
                                       "outputs.",
                                       "symbols per frame",
                                       above=0.0, maximum=1000.0, on_change=FREE),
            "use_language_model": Param([False], False, "Accepted for old configs; has no effect.",
                                        on_change=FREE),
            "encoder_size": Param((int, type(None)), None, "Number of channels of the encoder's output; by default the "
                                  "encoder's output_size.", minimum=1),
            "batch_size": Param((int, type(None)), None, "Set by the model; has no effect.", "utterances",
                                derived=True, minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        attention, problems = check_params(params["attention_params"], _ATTENTION, _ATTENTION_OPTIONAL,
                                           f"{self.params_path}/attention_params")
        size, missing = self._encoder_size("encoder_size")
        if problems + missing:
            raise ConfigError(problems + missing)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        kind = _SPELLINGS.get(attention["attention_type"], attention["attention_type"])
        self._plots = attention["plot_attention"]
        self.speller = Speller(
            params["tgt_emb_size"], size, params["hidden_dim"], params["num_layers"], params["rnn_type"],
            {"kind": kind, "units": attention["attention_dim"], "use_coverage": attention["use_coverage"]},
            attention["num_heads"], initializer, regularizer)
        self.embedding = self.weight([params["tgt_vocab_size"], params["tgt_emb_size"]], initializer)
        if params["pos_embedding"]:
            self.source_positions = self.weight([MAX_POSITIONS, size], initializer)
            self.target_positions = self.weight([MAX_POSITIONS, params["tgt_emb_size"]], initializer)
        self.output_kernel = self.weight([self.speller.output_size, params["tgt_vocab_size"]], initializer,
                                         regularizer=regularizer)
        self.output_bias = self.weight([params["tgt_vocab_size"]], "zeros")

    def _source(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        source = tf.cast(encoder_output["outputs"], self.dtype_of("recurrence"))
        if not self.params["pos_embedding"]:
            return source
        return source + tf.cast(_positions(self.source_positions, tf.range(tf.shape(source)[1])), source.dtype)

    def _embed(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        embedded = tf.gather(tf.convert_to_tensor(self.embedding), ids)
        if self.params["pos_embedding"]:
            embedded += _positions(self.target_positions, positions)
        return tf.cast(embedded, self.dtype_of("recurrence"))

    def _logits(self, attended: tf.Tensor) -> tf.Tensor:
        rows = tf.matmul(tf.reshape(attended, [-1, self.speller.output_size]),
                         cast_weight(self.output_kernel, attended.dtype))
        rows = add_bias(tf.cast(rows, tf.float32), tf.convert_to_tensor(self.output_bias))
        return tf.reshape(rows, tf.concat([tf.shape(attended)[:-1], [self.params["tgt_vocab_size"]]], 0))

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        check_loss_of_same_positions(self.model, type(self).__name__)
        rate = 1.0 - self.params["dropout_keep_prob"]
        shifted = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self.params["GO_SYMBOL"])[:, :-1]
        embedded = self._embed(shifted, tf.range(tf.shape(ids)[1]))
        attended, alignments = self.speller(embedded, self._source(encoder_output), lengths_of(encoder_output), rate,
                                            self.training)
        logits = self._logits(dropout(attended, rate, self.training))
        result = {"logits": logits, "outputs": [tf.argmax(logits, -1, tf.int32), tf.maximum(lengths - 1, 0)]}
        return {**result, "alignments": alignments} if self._plots else result

    def limits(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        return limits_by_factor(lengths_of(encoder_output), self.params["max_length_factor"]) + 1

    def prepare(self, encoder_output: Mapping[str, Any]) -> dict[str, Any]:
        """Returns each head's keys and values, weights in the dtype of the source, and a bias excluding GO_SYMBOL."""
        source = self._source(encoder_output)
        return {
            "memories": self.speller.memories(source, lengths_of(encoder_output)),
            "weights": self.speller.prepare(source.dtype),
            "banned": tf.where(tf.range(self.params["tgt_vocab_size"]) == self.params["GO_SYMBOL"], _NEVER, 0.0),
        }

    def initial_cache(self, encoder_output: Mapping[str, Any], beam_size: int) -> SpellerState:
        return self.speller.initial_state(tf.cast(encoder_output["outputs"], self.dtype_of("recurrence")), beam_size)

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: SpellerState,
             prepared: dict[str, Any]) -> tuple[tf.Tensor, SpellerState]:
        state, _ = self.speller.step(self._embed(ids, step), cache, prepared["memories"], prepared["weights"])
        return tf.nn.log_softmax(self._logits(state.attended) + prepared["banned"]), state


def _positions(table: tf.Variable, positions: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.convert_to_tensor(table), tf.minimum(positions, MAX_POSITIONS - 1))


_CLASS = (type, str)


class JointCTCAttentionDecoder(Decoder):
    """An attention decoder and a CTC decoder, which are trained jointly and score the hypotheses of a search jointly.

    See Kim et al. 2016, https://arxiv.org/abs/1609.06773; the joint search follows Watanabe et al. 2017, algorithm 2.
    The CTC decoder has all symbols except GO_SYMBOL and END_SYMBOL, plus the blank. The result is that of the
    attention decoder, with the CTC decoder's result as ``ctc_output``. The model uses only the CTC decoder's result in
    evaluation and inference if ``ctc_decoder_params`` set ``use_language_model``, and in inference if they set
    ``infer_logits_to_pickle``.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "ctc_decoder": Param(_CLASS, doc="CTC decoder class.", names="decoder"),
            "attn_decoder": Param(_CLASS, doc="Attention decoder class.", names="decoder"),
            "attn_decoder_params": Param(dict, doc="Parameters of the attention decoder."),
            "ctc_decoder_params": Param(dict, doc="Parameters of the CTC decoder."),
            "beam_search_params": Param(dict, doc="Further parameters of the attention decoder, such as beam_width, "
                                        "length_penalty, n_best and sampling_temperature; and ctc_weight, the weight "
                                        "of CTC's log probabilities in the search, from 0 to 1, 0.3 by default.",
                                        on_change=FREE),
            "language_model_params": Param(dict, doc="Further parameters of the attention decoder: only "
                                           "use_language_model, which must be False.", on_change=FREE),
            "GO_SYMBOL": Param(int, doc="Id that starts a transcript; set from the data layer.", derived=True,
                               minimum=0),
            "END_SYMBOL": Param(int, doc="Id that ends a transcript; set from the data layer.", derived=True,
                                minimum=0),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="symbols", derived=True,
                                    minimum=3),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        search = dict(params["beam_search_params"])
        self.ctc_weight = search.pop("ctc_weight", 0.3)
        if not isinstance(self.ctc_weight, (int, float)) or not 0.0 <= self.ctc_weight <= 1.0:
            raise ConfigError([f"'{self.params_path}/beam_search_params/ctc_weight' must be a number from 0 to 1, "
                               f"got {self.ctc_weight!r}."])
        if (params["GO_SYMBOL"], params["END_SYMBOL"]) != (params["tgt_vocab_size"] - 2, params["tgt_vocab_size"] - 1):
            raise ConfigError([f"GO_SYMBOL and END_SYMBOL in '{self.params_path}' must be the last two ids, because "
                               "CTC "
                               "uses the ids before them: set autoregressive to True in data_layer_params."])
        symbols = {key: params[key] for key in ("GO_SYMBOL", "END_SYMBOL", "tgt_vocab_size")}

        def inner(name: str, more: dict[str, Any]) -> Decoder:
            cls = resolve_name(params[name], "decoder", f"{self.params_path}/{name}")
            return cls(self.params_of_inner(cls, {**params[f"{name}_params"], **more}), model, name, mode)

        self.attention: Any = inner("attn_decoder", {**search, **params["language_model_params"], **symbols})
        self.ctc = inner("ctc_decoder", {"tgt_vocab_size": params["tgt_vocab_size"] - 1})
        if mode != "train" and self.ctc_weight > 0.0 and not isinstance(self.attention, AutoregressiveDecoder):
            raise ConfigError([f"'{self.params_path}/attn_decoder' is {type(self.attention).__name__}, whose search "
                               "cannot include CTC: derive it from AutoregressiveDecoder, or set "
                               "beam_search_params/ctc_weight to 0.0."])

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Runs both decoders; see ``ListenAttendSpellDecoder`` and ``FullyConnectedCTCDecoder``."""
        encoded, targets = input_dict["encoder_output"], input_dict.get("target_tensors")
        ctc = self.ctc.decode({"encoder_output": encoded}, self.training)
        if targets is not None or self.ctc_weight == 0.0:
            return {**self.attention.decode(input_dict, self.training), "ctc_output": ctc}
        scorer = CtcPrefixScorer(ctc["logits"], lengths_of(ctc, "the CTC decoder"), self.params["END_SYMBOL"], scan)
        result = self.attention.search(encoded, scorer, float(self.ctc_weight), input_dict.get("ids"))
        return {**result, "ctc_output": ctc}
