"""Base class of autoregressive decoders, with greedy search, beam search and sampling."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.decoders.decoder import Decoder, limits_by_factor
from open_seq2seq.decoding.beam_search import CTRANSLATE2, WU, BeamResult, SearchSettings, StepFunction, beam_search
from open_seq2seq.decoding.diverse_search import diverse_beam_search
from open_seq2seq.decoding.sampling import Sampling, greedy_search, sample, sampling_params, sampling_problems
from open_seq2seq.parts.attention_record import mean_attention, recording_attention
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.portable import in_shape, least_score
from open_seq2seq.utils.errors import ConfigError


class Member(NamedTuple):
    """A decoder of an ensemble.

    Attributes:
      decoder: an ``AutoregressiveDecoder``.
      encoder_output: the output of its model's encoder for the batch; see ``parts.keys.EncoderOutput``.
    """

    decoder: Any
    encoder_output: Mapping[str, Any]


def mean_log_probs(members: Sequence[Member], start_id: int, hypotheses: int) -> tuple[StepFunction, Any]:
    """Returns the step function of an ensemble, and its initial cache, a tuple with one cache for each decoder.

    The step function returns the mean of the decoders' log probabilities, so the log probability of a hypothesis is
    the mean of those that the models give to it. The mean is not normalised: the probabilities of all ids sum to less
    than 1 where the models differ.

    Args:
      members: the decoders, which score the same ids.
      start_id: the id that the search feeds to the first step; each decoder gets its own instead.
      hypotheses: number of hypotheses per example.
    """
    prepared = [member.decoder.prepare(member.encoder_output) for member in members]
    first = tuple(member.decoder.initial_cache(member.encoder_output, hypotheses) for member in members)

    def step(ids: tf.Tensor, number: tf.Tensor, caches: Any) -> tuple[tf.Tensor, Any]:
        """Returns the mean log probabilities ``[rows, ids]`` of the next id, FP32, and the new caches."""
        log_probs, grown = [], []
        for (decoder, _), constants, cache in zip(members, prepared, caches, strict=True):
            previous = ids if decoder.start_id == start_id else tf.where(number > 0, ids, decoder.start_id)
            scores, new = decoder.step(previous, number, cache, constants)
            scores = tf.cast(scores, tf.float32)
            log_probs.append(scores if decoder.are_log_probs else tf.nn.log_softmax(scores))
            grown.append(new)
        return tf.add_n(log_probs) / len(log_probs), tuple(grown)

    return step, first


def beam_params() -> dict[str, Any]:
    """Returns the parameters of beam search that are suitable for any autoregressive decoder."""
    return with_change(FREE, {
        "beam_rules": Param([WU, CTRANSLATE2], WU, "How beam search scores hypotheses and when it stops. wu: log "
                            "probability divided by ((5 + length) / 6)^a, where a is the exponent of the length "
                            "penalty; the search stops when no hypothesis can enter the result any more. ctranslate2: "
                            "log probability divided by length^a, and the stopping rule of CTranslate2."),
        "beam_groups": Param(int, 1, "Number of groups of diverse beam search; must divide the beam size. 1 is "
                             "ordinary beam search.", minimum=1, maximum=10**4),
        "diversity_penalty": Param(float, 0.5, "With beam_groups above 1: number subtracted from an id's log "
                                   "probability for each hypothesis of an earlier group that continues with this id.",
                                   minimum=0.0),
    })


def coverage_params() -> dict[str, Any]:
    """Returns the parameter of the coverage penalty, for decoders whose layers record their attention to the source."""
    return with_change(FREE, {
        "coverage_penalty": Param(float, 0.0, "Weight of the coverage penalty (Wu et al. 2016): this number times the "
                                  "sum over source positions of log(min(attention received, 1)) is added to the score "
                                  "of a hypothesis. The attention is the mean over layers and heads. 0 disables it.",
                                  minimum=0.0),
    })


def required_translation_params() -> dict[str, Any]:
    """Returns the parameters of a search that configs of ``TranslationDecoder`` must give."""
    return with_change(FREE, {
        "beam_size": Param(int, doc="Number of hypotheses kept per sentence.", minimum=1, maximum=10**4),
        "alpha": Param(float, doc="Exponent of the length penalty, ((5 + length) / 6)^alpha by default (see "
                       "beam_rules).", minimum=0.0),
        "extra_decode_length": Param(int, doc="Number of tokens by which a translation may be longer than its source.",
                                     unit="tokens", minimum=0, maximum=10**6),
    })


def optional_translation_params() -> dict[str, Any]:
    """Returns the other parameters of the search and of sampling of a ``TranslationDecoder``."""
    return with_change(FREE, {
        "n_best": Param(int, 1, "Number of translations returned per sentence: at most beam_size in a search, any "
                        "number in sampling.", minimum=1, maximum=10**4),
        "max_length_factor": Param((float, type(None)), None, "Maximum length of a translation divided by the length "
                                   "of its source; None disables this limit. The limit set by extra_decode_length "
                                   "also applies.", "tokens per token", above=0.0, maximum=1000.0),
        **beam_params(),
        **coverage_params(),
        **sampling_params(),
    })


def beam_problems(params: Mapping[str, Any], path: str, beam_size_param: str) -> list[str]:
    """Returns one sentence for each invalid combination of the parameters of beam search.

    Args:
      params: the decoder's parameters.
      path: path of the parameters in the config.
      beam_size_param: name of the parameter that sets the beam size.
    """
    beam, groups = params[beam_size_param], params.get("beam_groups", 1)
    set_params = {"beam_groups": groups > 1, "coverage_penalty": params.get("coverage_penalty", 0.0) > 0.0}
    if params["sampling_temperature"] is not None:
        return [f"'{path}/{name}' is {params[name]}, but sampling does not use it: leave out {name} or "
                "sampling_temperature." for name, is_set in set_params.items() if is_set]
    if groups > 1 and beam % groups:
        return [f"'{path}/beam_groups' is {groups}, but must divide {beam_size_param} ({beam})."]
    if groups > 1 and set_params["coverage_penalty"]:
        return [f"'{path}/coverage_penalty' cannot be combined with beam_groups: leave out one of them."]
    if beam == 1 and set_params["coverage_penalty"]:
        return [f"'{path}/coverage_penalty' is {params['coverage_penalty']}, but {beam_size_param} is 1, and greedy "
                f"search does not compare hypotheses: raise {beam_size_param}, or leave out coverage_penalty."]
    return []


class Prefix(NamedTuple):
    """The ids with which the hypotheses of each sentence begin.

    Attributes:
      ids: ``[batch, longest]`` int32.
      lengths: number of ids in each prefix, ``[batch]`` int32; 0 where nothing is forced.
    """

    ids: tf.Tensor
    lengths: tf.Tensor


def with_prefix(step_fn: StepFunction, prefix: Prefix, are_log_probs: bool) -> StepFunction:
    """Returns a step function that allows only the next id of the prefix until the prefix ends.

    All other ids get the log probability ``least_score()``. The ids of the prefix keep the log probabilities that the
    model gives them, so the scores are those of whole hypotheses, including the prefix.

    Args:
      step_fn: see ``beam_search``.
      prefix: the forced ids.
      are_log_probs: whether ``step_fn`` returns log probabilities; the returned function always does.
    """
    ids = tf.pad(prefix.ids, [[0, 0], [0, 1]])  # adds a column to read after the longest prefix

    def step(last: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        scores, cache = step_fn(last, number, cache)
        scores = tf.cast(scores, tf.float32)
        log_probs = scores if are_log_probs else tf.nn.log_softmax(scores)
        forced = ids[:, tf.minimum(number, tf.shape(ids)[1] - 1)]
        is_free = (number >= prefix.lengths)[:, tf.newaxis]
        allowed = is_free | tf.equal(tf.range(tf.shape(scores)[2]), forced[:, tf.newaxis])
        return tf.where(allowed[:, tf.newaxis], log_probs, least_score()), cache

    return step


def with_coverage(step_fn: StepFunction, cache: Any, lengths: tf.Tensor, hypotheses: int,
                  width: tf.Tensor) -> tuple[StepFunction, Any]:
    """Returns a step function that also sums the attention over the steps, and the initial cache of this function.

    The cache is a pair: the decoder's cache, and the attention that each source position has received so far,
    ``[batch, hypotheses, source]`` FP32. At padding, the attention starts at 1, so that padding adds no penalty.

    Args:
      step_fn: the decoder's step function.
      cache: the decoder's initial cache.
      lengths: lengths of the sources, ``[batch]``.
      hypotheses: number of hypotheses per sentence.
      width: padded length of the sources, an int32 scalar.
    """
    def step(ids: tf.Tensor, number: tf.Tensor, cache: Any, **source: Any) -> tuple[tf.Tensor, Any]:
        inner, coverage = cache
        with recording_attention() as record:
            scores, inner = step_fn(ids, number, inner, **source)
        return scores, (inner, in_shape(coverage + mean_attention(record), coverage.shape))

    padding = tf.cast(~tf.sequence_mask(lengths, width), tf.float32)
    return step, (cache, tf.tile(padding[:, tf.newaxis], [1, hypotheses, 1]))


def check_heads(record: list[tf.Tensor], layer: int | None, heads: list[int] | None) -> None:
    """Raises ConfigError if no attention was recorded, or if a selected layer or head does not exist.

    Args:
      record: the attention weights of each layer, ``[batch, heads, time or beam, source]``.
      layer: index of the selected layer, which may be negative; None for all layers.
      heads: indices of the selected heads; None for all heads.
    """
    if not record:
        raise ConfigError(["The decoder has no attention to the source: leave out save_alignments and "
                           "replace_unknowns."])
    count = len(record)
    if layer is not None and not -count <= layer < count:
        raise ConfigError([f"'alignment_layer' is {layer}, but the decoder has {count} layers that attend to the "
                           f"source: choose an index from {-count} to {count - 1}."])
    num_heads = min(weights.shape[1] for weights in (record if layer is None else [record[layer]]))
    if heads is not None and not (heads and all(type(head) is int and 0 <= head < num_heads for head in heads)):
        raise ConfigError([f"'alignment_heads' is {heads}, but there are {num_heads} heads: choose indices from 0 to "
                           f"{num_heads - 1}."])


class PrefixScorer(Protocol):
    """Protocol of a second scorer of hypotheses, such as ``decoding.ctc.prefix_scores.CtcPrefixScorer``."""

    def initial_state(self, beam_size: int) -> Any:
        """Returns the state for empty hypotheses, a named tuple of tensors ``[batch, beam, …]``."""

    def gains(self, state: Any) -> tf.Tensor:
        """Returns the log probabilities of the next ids, ``[batch, beam, vocabulary]``, at most 0."""

    def follow(self, state: Any, symbols: tf.Tensor) -> Any:
        """Returns the state after the hypotheses are extended by the ids ``symbols`` ``[batch, beam]``."""


def search_params() -> dict[str, Any]:
    """Returns the parameters of search and sampling, under ``AutoregressiveDecoder``'s default names."""
    return with_change(FREE, {
        "beam_size": Param(int, 1, "Number of hypotheses kept per example; 1 is greedy search.",
                           minimum=1, maximum=10**4),
        "alpha": Param(float, 0.0, "Exponent of the length penalty, ((5 + length) / 6)^alpha by default (see "
                       "beam_rules).", minimum=0.0),
        "n_best": Param(int, 1, "Number of hypotheses returned per example. A search returns at most beam_size; "
                        "sampling, any number.", minimum=1, maximum=10**4),
        **beam_params(),
        **sampling_params(),
    })


class AutoregressiveDecoder(Decoder):
    """Base of decoders that predict one symbol at a time.

    Subclasses implement ``_teacher_force`` for training. For the search, they implement ``step`` and ``limits`` and, if
    needed, ``prepare`` and ``initial_cache``. The parameters select greedy search, beam search or sampling.

    Attributes:
      are_log_probs: whether ``step`` returns log probabilities instead of logits.
      source_parts: names of the values in the dict that ``prepare`` returns that differ from example to example, nests
        of tensors ``[batch, …]``. If there are any, the search gives ``step`` only the rows of the examples that are
        not done. With none, all rows are decoded until the last one is done.
      beam_size_param: name of the parameter that sets the number of hypotheses kept per example.
      alpha_param: name of the parameter that sets the exponent of the length penalty.
      reads_start: whether targets begin with the start id and position t predicts target t + 1; otherwise, target t.
    """

    are_log_probs: ClassVar[bool] = False
    source_parts: ClassVar[tuple[str, ...]] = ()
    beam_size_param: ClassVar[str] = "beam_size"
    alpha_param: ClassVar[str] = "alpha"
    reads_start = False

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="ids", derived=True,
                                    minimum=2),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**Decoder.get_optional_params(), **search_params()}

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        problems = self._search_problems()
        if problems:
            raise ConfigError(problems)

    def _search_problems(self) -> list[str]:
        params, path = self.params, self.params_path
        problems = beam_problems(params, path, self.beam_size_param)
        if params["sampling_temperature"] is not None:
            return problems
        problems += sampling_problems(params, path)
        beam = params[self.beam_size_param]
        if params["n_best"] is not None and not 1 <= params["n_best"] <= beam:
            problems.append(f"'{path}/n_best' must be from 1 to {self.beam_size_param} ({beam}), got "
                            f"{params['n_best']}.")
        return problems

    @property
    def start_id(self) -> int:
        """The id that is the input of the first step."""
        return self.params["GO_SYMBOL"]

    @property
    def end_id(self) -> int:
        """The id that ends a hypothesis."""
        return self.params["END_SYMBOL"]

    @property
    def vocabulary_size(self) -> int:
        """The number of ids that ``step`` scores."""
        return self.params["tgt_vocab_size"]

    def prepare(self, encoder_output: Mapping[str, Any]) -> Any:
        """Returns values that are computed once per search, because they are the same for all steps and hypotheses.

        Examples are the keys of the attention, and weights cast to the compute dtype.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
        """
        return None

    def initial_cache(self, encoder_output: Mapping[str, Any], beam_size: int) -> Any:
        """Returns the cache for the first step, by default an empty one.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          beam_size: number of hypotheses per example.

        Returns:
          Nested structure of tensors ``[batch, beam, …]``; dimensions after the second may grow from step to step.
        """
        return ()

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any) -> tuple[tf.Tensor, Any]:
        """Advances every hypothesis by one symbol.

        Args:
          ids: the newest ids, ``[batch, beam]`` int32; ``start_id`` at the first step.
          step: int32 scalar, index of this step, counted from 0.
          cache: nested structure of tensors ``[batch, beam, …]``, from ``initial_cache`` or from the previous step. The
            search reorders it after each step, so that each hypothesis has the entries of the one that it extends.
          prepared: result of ``prepare``.

        Returns:
          (logits of the next id, or log probabilities if ``are_log_probs``, ``[batch, beam, vocabulary_size]``; the new
          cache).
        """
        raise NotImplementedError("An autoregressive decoder must implement step(ids, step, cache, prepared).")

    def limits(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        """Returns the maximum length of each example's hypotheses, including the end id, ``[batch]`` int32."""
        raise NotImplementedError("An autoregressive decoder must implement limits(encoder_output).")

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        """Returns the decoder's output (``logits``, ``outputs``) for given targets.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          ids: target ids ``[batch, time]`` int32, from which the decoder makes its inputs.
          lengths: lengths of the targets, ``[batch]`` int32.
        """
        raise NotImplementedError(
            "An autoregressive decoder must implement _teacher_force(encoder_output, ids, lengths).")

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Decodes with teacher forcing if there are targets, otherwise with the search that the parameters select.

        Args:
          input_dict: see ``parts.keys.DecoderInput``.

        Returns:
          The result of ``_teacher_force`` or of ``search``.
        """
        if input_dict.get("target_tensors") is None:
            return self.search(input_dict["encoder_output"], ids=input_dict.get("ids"),
                               prefix=input_dict.get("prefix_tensors"), others=input_dict.get("others") or ())
        return self._teacher_force(input_dict["encoder_output"], *input_dict["target_tensors"][:2])

    def search(self, encoder_output: Mapping[str, Any], scorer: PrefixScorer | None = None, weight: float = 0.0,
               ids: tf.Tensor | None = None, prefix: Sequence[tf.Tensor] | None = None,
               others: Sequence[Member] = ()) -> dict[str, Any]:
        """Searches for the best hypotheses or, with ``sampling_temperature``, samples hypotheses.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          scorer: second scorer of the hypotheses, or None.
          weight: weight of the scorer's log probabilities, from 0 to 1; the decoder's have the weight 1 - ``weight``.
          ids: indices of the examples in the data set ``[batch]``, from which the random numbers of sampling are
            computed; by default the row indices.
          prefix: the ids ``[batch, time]`` with which hypotheses begin, and the number of ids in each prefix
            ``[batch]``; None for no prefix.
          others: the other decoders of an ensemble, which score the same ids; not with a scorer. The settings and the
            limits of the search are those of this decoder.

        Returns:
          A dict with ``logits`` (None), ``outputs`` (the best hypotheses, see ``_outputs``), ``beam_ids``
          ``[batch, n_best, length]``, and ``beam_scores`` and ``beam_lengths`` ``[batch, n_best]``; see ``BeamResult``.
        """
        limits, sampling = self.limits(encoder_output), self._sampling()
        are_log_probs = self.are_log_probs or scorer is not None or bool(others)
        settings = self._settings(are_log_probs or prefix is not None)
        hypotheses = settings.beam_size if sampling is None else settings.n_best
        source = None
        if others:
            step_fn, cache = mean_log_probs([Member(self, encoder_output), *others], self.start_id, hypotheses)
        elif scorer is not None or prefix is not None or settings.groups > 1 or not self._knows_rows():
            step_fn, cache = self._alone(encoder_output, hypotheses, scorer, weight)
        else:
            step_fn, cache, source = self._by_rows(encoder_output, hypotheses)
        if prefix is not None:
            step_fn = with_prefix(step_fn, Prefix(*prefix), are_log_probs)
        if sampling is not None:
            examples = tf.range(tf.shape(limits)[0]) if ids is None else ids
            result = sample(step_fn, cache, limits, settings, sampling, examples, source=source)
        else:
            result = self._best(step_fn, cache, limits, settings, encoder_output, source)
        return {"logits": None, "outputs": self._outputs(result), "beam_ids": result.ids,
                "beam_scores": result.scores, "beam_lengths": result.lengths}

    def _alone(self, encoder_output: Mapping[str, Any], hypotheses: int, scorer: PrefixScorer | None,
               weight: float) -> tuple[StepFunction, Any]:
        """Returns the step function of this decoder, with a scorer or without one, and its initial cache."""
        prepared, cache = self.prepare(encoder_output), self.initial_cache(encoder_output, hypotheses)
        if scorer is None:
            return functools.partial(self._step, prepared=prepared), cache
        return (functools.partial(self._scored_step, prepared=prepared, scorer=scorer, weight=weight),
                (cache, scorer.initial_state(hypotheses)))

    def _knows_rows(self) -> bool:
        """Returns whether the search may take examples that are done out of the batch.

        It may if ``source_parts`` is for this class, which may override methods of its base class.
        """
        if current_pass().portable:  # loops within loops are more than some runtimes can hold
            return False
        owner = next(cls for cls in type(self).__mro__ if "source_parts" in vars(cls))
        return bool(self.source_parts) and all(getattr(type(self), name) is getattr(owner, name)
                                               for name in ("prepare", "initial_cache", "step"))

    def _by_rows(self, encoder_output: Mapping[str, Any], hypotheses: int) -> tuple[StepFunction, Any, dict[str, Any]]:
        """Returns the step function of this decoder, its initial cache, and the step function's ``source``.

        The source is what ``source_parts`` names, of which the search keeps only the rows that are not done.
        """
        prepared, cache = self.prepare(encoder_output), self.initial_cache(encoder_output, hypotheses)
        source = {name: prepared.pop(name) for name in self.source_parts}

        def step(ids: tf.Tensor, number: tf.Tensor, cache: Any, source: dict[str, Any]) -> tuple[tf.Tensor, Any]:
            return self.step(ids, number, cache, {**prepared, **source})

        return step, cache, source

    def _best(self, step_fn: StepFunction, cache: Any, limits: tf.Tensor, settings: SearchSettings,
              encoder_output: Mapping[str, Any], source: Any) -> BeamResult:
        """Runs greedy search, diverse beam search or beam search, as the settings select."""
        if settings.beam_size == 1:
            return greedy_search(step_fn, cache, limits, settings, source)
        if settings.groups > 1:
            return diverse_beam_search(step_fn, cache, limits, settings)
        if not settings.coverage:
            return beam_search(step_fn, cache, limits, settings, source=source)
        step_fn, cache = with_coverage(step_fn, cache, lengths_of(encoder_output), settings.beam_size,
                                       tf.shape(encoder_output["outputs"])[1])
        return beam_search(step_fn, cache, limits, settings, coverage_of=lambda both: both[1], source=source)

    def score_targets(self, encoder_output: Mapping[str, Any],
                      targets: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the log probabilities of given targets.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          targets: ids ``[batch, time]`` and lengths ``[batch]``, from the data layer. If they begin with the start id,
            this id is scored only by decoders that predict it.

        Returns:
          (log probability of each target, ``[batch]`` FP32; number of ids that were scored, ``[batch]`` int32).
        """
        ids, lengths = targets[:2]
        logits = self._teacher_force(encoder_output, ids, lengths)["logits"]
        if self.reads_start:
            logits, ids, lengths = logits[:, :-1], ids[:, 1:], lengths - 1
        log_probs = tf.nn.log_softmax(tf.cast(logits[..., :self.vocabulary_size], tf.float32))
        mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
        return tf.reduce_sum(tf.where(mask, tf.gather(log_probs, ids, batch_dims=2), 0.0), 1), lengths

    def attention_of(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor,
                     layer: int | None = None, heads: list[int] | None = None) -> tf.Tensor:
        """Returns the attention to the source with which each id of given hypotheses is predicted.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          ids: hypotheses ``[batch, time]`` from ``search``.
          lengths: their lengths ``[batch]``, including the end id.
          layer: index of the layer, where negative indices count from the last layer; None for the mean of all layers.
          heads: indices of the heads, whose mean is returned; None for all heads.

        Returns:
          ``[batch, time, source]`` FP32; arbitrary beyond the lengths.

        Raises:
          ConfigError: there is no attention, or no such layer or head.
        """
        if self.reads_start:
            ids, lengths = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self.start_id), lengths + 1
        with recording_attention() as record:
            self._teacher_force(encoder_output, ids, lengths)
        check_heads(record, layer, heads)
        attention = mean_attention(record, layer, heads)
        return attention[:, :-1] if self.reads_start else attention

    def _outputs(self, result: BeamResult) -> list[tf.Tensor]:
        """Returns each example's best hypothesis ``[batch, length]``, and its length without the end id ``[batch]``."""
        best = result.ids[:, 0]
        mask = tf.sequence_mask(result.lengths[:, 0], tf.shape(best)[1]) & (best != self.end_id)
        return [best, tf.math.count_nonzero(mask, axis=1, dtype=tf.int32)]

    def _step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any) -> tuple[tf.Tensor, Any]:
        return self.step(ids, step, cache, prepared)

    def _scored_step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any, scorer: PrefixScorer,
                     weight: float) -> tuple[tf.Tensor, Any]:
        decoder_cache, prefixes = cache
        scores, decoder_cache = self.step(ids, step, decoder_cache, prepared)
        if not self.are_log_probs:
            scores = tf.nn.log_softmax(tf.cast(scores, tf.float32))
        prefixes = _follow(scorer, prefixes, ids, step)
        return (1.0 - weight) * scores + weight * scorer.gains(prefixes), (decoder_cache, prefixes)

    def _sampling(self) -> Sampling | None:
        params = self.params
        if params["sampling_temperature"] is None:
            return None
        return Sampling(params["sampling_temperature"], params["sampling_top_k"], params["sampling_top_p"],
                        params["sampling_seed"])

    def _settings(self, are_log_probs: bool) -> SearchSettings:
        params = self.params
        beam = params[self.beam_size_param] if params["sampling_temperature"] is None else 1
        return SearchSettings(
            self.vocabulary_size, self.start_id, self.end_id, params[self.alpha_param], beam,
            beam if params["n_best"] is None else params["n_best"], are_log_probs, params.get("beam_rules", WU),
            params.get("beam_groups", 1), params.get("diversity_penalty", 0.0), params.get("coverage_penalty", 0.0),
            least_score())


class TranslationDecoder(AutoregressiveDecoder):
    """Base of decoders whose translations end with EOS_ID, and may be a number of tokens longer than their sources."""

    @property
    def end_id(self) -> int:
        return self.params["EOS_ID"]

    def limits(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        # Each sentence has its own limit, so that results do not depend on the longest sentence in the batch.
        lengths, factor = lengths_of(encoder_output), self.params["max_length_factor"]
        limits = lengths + self.params["extra_decode_length"]
        return limits if factor is None else tf.minimum(limits, limits_by_factor(lengths, factor))


def _follow(scorer: PrefixScorer, prefixes: Any, ids: tf.Tensor, step: tf.Tensor) -> Any:
    """Extends the prefixes by the newest ids, except at the first step, where the newest ids are start ids."""
    # Without a condition, whose result has no static rank in some runtimes, and in which the scorer's loop would wait
    # forever for a thread if TensorFlow has only one.
    grown = (tf.where(step > 0, *pair) for pair in zip(scorer.follow(prefixes, ids), prefixes, strict=True))
    return type(prefixes)(*(in_shape(new, old.shape) for new, old in zip(grown, prefixes, strict=True)))
