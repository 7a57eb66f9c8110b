"""The decoder of Listen, Attend and Spell: teacher forcing and beam search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param, check_params
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.decoding.beam_search import BeamResult, beam_search
from open_seq2seq.decoding.ctc.prefix_scores import CtcPrefixScorer
from open_seq2seq.parts.dense import add_bias
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.speller import Speller, SpellerState
from open_seq2seq.utils.errors import ConfigError

MAX_POSITIONS = 1024
_NEVER = -1e9
# As configs for the TensorFlow 1 toolkit spell it.
_SPELLINGS = {"bahadanau": "bahdanau"}
_ATTENTION = {
    "attention_dim": Param(int, doc="Size of the space in which source and query are compared."),
    "attention_type": Param(["bahdanau", "bahadanau", "chorowski", "zhaopeng"], doc="Kind of attention."),
}
_ATTENTION_OPTIONAL = {
    "use_coverage": Param(bool, True, "Whether chorowski sees where all steps looked, instead of the last one."),
    "num_heads": Param(int, 1, "How many attend."),
    "plot_attention": Param(bool, False, "Whether the decoder also returns alignments [batch, time, heads, source]."),
}


class ListenAttendSpellDecoder(Decoder):
    """The speller (Chan et al. 2015, https://arxiv.org/abs/1508.01211): recurrent layers that attend to the encoder.

    Targets end with END_SYMBOL; inputs begin with GO_SYMBOL.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "GO_SYMBOL": Param(int, doc="Id that begins a transcript; set from the data layer.", derived=True),
            "END_SYMBOL": Param(int, doc="Id that ends a transcript; set from the data layer.", derived=True),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="symbols", derived=True),
            "tgt_emb_size": Param(int, doc="Channels of an embedded symbol."),
            "attention_params": Param(dict, doc="attention_dim, attention_type (bahdanau, chorowski, zhaopeng), and "
                                      "optionally use_coverage, num_heads, plot_attention."),
            "rnn_type": Param(["lstm", "gru"], doc="Cell."),
            "hidden_dim": Param(int, doc="Units of each recurrent layer."),
            "num_layers": Param(int, doc="Recurrent layers."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "dropout_keep_prob": Param(float, 1.0, "Share of activations that dropout keeps, after each recurrent "
                                       "layer and before the output layer."),
            "pos_embedding": Param(bool, False, "Whether learned embeddings of positions are added to the encoder's "
                                   f"outputs and to embedded symbols; positions from {MAX_POSITIONS} on share one."),
            "beam_width": Param(int, 1, "Hypotheses kept for each utterance; 1 is greedy."),
            "length_penalty": Param(float, 0.0, "Exponent of the length penalty ((5 + length) / 6)^a."),
            "max_length_factor": Param(float, 1.0, "Longest transcript, by the encoder's outputs.", "symbols a frame"),
            "use_language_model": Param([False], False, "Accepted for old configs, where it had no effect."),
            "encoder_size": Param((int, type(None)), None, "Channels of the encoder's output; the encoder tells them "
                                  "by default."),
            "batch_size": Param((int, type(None)), None, "Set by the model; has no effect.", "utterances",
                                derived=True),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        attention, problems = check_params(params["attention_params"], _ATTENTION, _ATTENTION_OPTIONAL,
                                           f"{self.params_path}/attention_params")
        size: Any = params["encoder_size"] or getattr(getattr(model, "encoder", None), "output_size", None)
        problems = problems or self._problems(attention, size)
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

    def _problems(self, attention: Mapping[str, Any], size: Any) -> list[str]:
        params, path = self.params, self.params_path
        numbers = {**{name: params[name] for name in ("tgt_emb_size", "hidden_dim", "num_layers", "beam_width")},
                   **{f"attention_params/{name}": attention[name] for name in ("attention_dim", "num_heads")}}
        problems = [f"'{path}/{name}' is {value} but has to be at least 1." for name, value in numbers.items()
                    if value < 1]
        if size is None:
            problems.append(f"'{path}/encoder_size' is missing: the encoder does not tell its output_size.")
        if not 0.0 < params["dropout_keep_prob"] <= 1.0:
            problems.append(f"'{path}/dropout_keep_prob' is {params['dropout_keep_prob']} but has to be above 0 and at "
                            "most 1.")
        if params["max_length_factor"] <= 0.0:
            problems.append(f"'{path}/max_length_factor' is {params['max_length_factor']} but has to be above 0.")
        return problems

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Decodes by teacher forcing when there are targets, else by beam search.

        Args:
          input_dict: ``encoder_output``: ``outputs`` ``[batch, source, channels]`` and ``src_length`` ``[batch]``;
            ``target_tensors``: ids ``[batch, time]`` that end with END_SYMBOL, and lengths ``[batch]``.

        Returns:
          ``outputs``: ids ``[batch, length]`` and lengths ``[batch]`` without END_SYMBOL. With targets also ``logits``
          ``[batch, time, vocabulary]`` in FP32, and on request ``alignments`` ``[batch, time, heads, source]``.
          Without: ``logits`` None, ``beam_ids`` ``[batch, beam, length]``, ``beam_scores`` and ``beam_lengths``
          ``[batch, beam]``.
        """
        if input_dict.get("target_tensors") is None:
            return self.search(input_dict["encoder_output"])
        return self._teacher_force(input_dict["encoder_output"], *input_dict["target_tensors"][:2])

    def _source(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        source = tf.cast(encoder_output["outputs"], self.compute_dtype)
        if not self.params["pos_embedding"]:
            return source
        return source + tf.cast(_positions(self.source_positions, tf.range(tf.shape(source)[1])), source.dtype)

    def _embed(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        found = tf.gather(tf.convert_to_tensor(self.embedding), ids)
        if self.params["pos_embedding"]:
            found += _positions(self.target_positions, positions)
        return tf.cast(found, self.compute_dtype)

    def _logits(self, attended: tf.Tensor) -> tf.Tensor:
        rows = tf.matmul(tf.reshape(attended, [-1, self.speller.output_size]),
                         cast_weight(self.output_kernel, attended.dtype))
        rows = add_bias(tf.cast(rows, tf.float32), tf.convert_to_tensor(self.output_bias))
        return tf.reshape(rows, tf.concat([tf.shape(attended)[:-1], [self.params["tgt_vocab_size"]]], 0))

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        rate = 1.0 - self.params["dropout_keep_prob"]
        shifted = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self.params["GO_SYMBOL"])[:, :-1]
        embedded = self._embed(shifted, tf.range(tf.shape(ids)[1]))
        attended, alignments = self.speller(embedded, self._source(encoder_output), encoder_output["src_length"], rate,
                                            self.training)
        logits = self._logits(dropout(attended, rate, self.training))
        result = {"logits": logits, "outputs": [tf.argmax(logits, -1, tf.int32), tf.maximum(lengths - 1, 0)]}
        return {**result, "alignments": alignments} if self._plots else result

    def search(self, encoder_output: Mapping[str, Any], scorer: CtcPrefixScorer | None = None,
               weight: float = 0.0) -> dict[str, Any]:
        """Searches for the best transcripts.

        Args:
          encoder_output: see ``_decode``.
          scorer: CTC's, whose log probabilities count with ``weight`` and the decoder's with 1 - ``weight``.
          weight: from 0 to 1.
        """
        beam, lengths = self.params["beam_width"], encoder_output["src_length"]
        source = self._source(encoder_output)
        memories, prepared = self.speller.memories(source, lengths), self.speller.prepare(source.dtype)
        banned = tf.where(tf.range(self.params["tgt_vocab_size"]) == self.params["GO_SYMBOL"], _NEVER, 0.0)

        def step_fn(ids: tf.Tensor, step: tf.Tensor, cache: tuple[SpellerState, Any]) -> tuple[tf.Tensor, Any]:
            state, prefixes = cache
            state, _ = self.speller.step(self._embed(ids, step), state, memories, prepared)
            scores = tf.nn.log_softmax(self._logits(state.attended) + banned)
            if scorer is None:
                return scores, (state, prefixes)
            prefixes = _follow(scorer, prefixes, ids, step)
            return (1.0 - weight) * scores + weight * scorer.gains(prefixes), (state, prefixes)

        limits = tf.cast(tf.math.ceil(tf.cast(lengths, tf.float32) * self.params["max_length_factor"]), tf.int32)
        cache = (self.speller.initial_state(source, beam), () if scorer is None else scorer.initial_state(beam))
        result = beam_search(
            step_fn, cache, batch_size=tf.shape(lengths)[0], beam_size=beam, vocab_size=self.params["tgt_vocab_size"],
            alpha=self.params["length_penalty"], max_lengths=limits + 1, start_id=self.params["GO_SYMBOL"],
            eos_id=self.params["END_SYMBOL"], n_best=beam, are_log_probs=True)
        return self._results(result)

    def _results(self, result: BeamResult) -> dict[str, Any]:
        best = result.ids[:, 0]
        held = tf.sequence_mask(result.lengths[:, 0], tf.shape(best)[1]) & (best != self.params["END_SYMBOL"])
        return {"logits": None, "outputs": [best, tf.math.count_nonzero(held, axis=1, dtype=tf.int32)],
                "beam_ids": result.ids, "beam_scores": result.scores, "beam_lengths": result.lengths}


def _positions(table: tf.Variable, positions: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.convert_to_tensor(table), tf.minimum(positions, MAX_POSITIONS - 1))


def _follow(scorer: CtcPrefixScorer, prefixes: Any, ids: tf.Tensor, step: tf.Tensor) -> Any:
    """Returns the prefixes with the newest symbols; at the first step these begin them, and CTC has no such symbol."""
    grown = tf.cond(step > 0, lambda: tuple(scorer.follow(prefixes, ids)), lambda: tuple(prefixes))
    return type(prefixes)(*(tf.ensure_shape(new, old.shape) for new, old in zip(grown, prefixes, strict=True)))
