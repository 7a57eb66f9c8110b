"""The decoder of Listen, Attend and Spell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param, check_params
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.decoding.sampling_params import sampling_params
from open_seq2seq.parts.dense import add_bias
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.speller import Speller, SpellerState
from open_seq2seq.utils.errors import ConfigError

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
        size: Any = params["encoder_size"] or getattr(getattr(model, "encoder", None), "output_size", None)
        if size is None:
            problems.append(f"'{self.params_path}/encoder_size' is missing: set it, because the encoder has no "
                            "output_size.")
        if problems:
            raise ConfigError(problems)
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
        rate = 1.0 - self.params["dropout_keep_prob"]
        shifted = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self.params["GO_SYMBOL"])[:, :-1]
        embedded = self._embed(shifted, tf.range(tf.shape(ids)[1]))
        attended, alignments = self.speller(embedded, self._source(encoder_output), lengths_of(encoder_output), rate,
                                            self.training)
        logits = self._logits(dropout(attended, rate, self.training))
        result = {"logits": logits, "outputs": [tf.argmax(logits, -1, tf.int32), tf.maximum(lengths - 1, 0)]}
        return {**result, "alignments": alignments} if self._plots else result

    def limits(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        lengths = tf.cast(lengths_of(encoder_output), tf.float32)
        return tf.cast(tf.math.ceil(lengths * self.params["max_length_factor"]), tf.int32) + 1

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
