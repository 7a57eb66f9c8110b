"""The base of decoders that predict one symbol after the other, with the search for the best sequences."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.decoding.beam_search import BeamResult, SearchSettings, StepFunction, beam_search
from open_seq2seq.decoding.sampling import Sampling, greedy_search, sample
from open_seq2seq.utils.errors import ConfigError

_SAMPLING = ("sampling_top_k", "sampling_top_p")


class PrefixScorer(Protocol):
    """Scores hypotheses beside the decoder, like ``decoding.ctc.prefix_scores.CtcPrefixScorer``."""

    def initial_state(self, beam_size: int) -> Any:
        """Returns the state of empty hypotheses: a named tuple of tensors ``[batch, beam, …]``."""

    def gains(self, state: Any) -> tf.Tensor:
        """Returns the log probability of each next id ``[batch, beam, vocabulary]``, none above 0."""

    def follow(self, state: Any, symbols: tf.Tensor) -> Any:
        """Returns the state after each hypothesis is extended by an id ``[batch, beam]``."""


def sampling_params() -> dict[str, Any]:
    """Returns the parameters of sampling, which all autoregressive decoders have."""
    return with_change(FREE, {
        "sampling_temperature": Param(
            (float, type(None)), None, "Evaluation and inference draw n_best hypotheses from the model's distribution "
            "instead of searching for the best; logits are divided by this number first, so that 1.0 leaves the "
            "model's own probabilities. None is off.", above=0.0),
        "sampling_top_k": Param((int, type(None)), None, "With sampling_temperature: only so many of the likeliest ids "
                                "are drawn.", "ids", minimum=1),
        "sampling_top_p": Param((float, type(None)), None, "With sampling_temperature: only the likeliest ids are "
                                "drawn whose probabilities together reach this share. Faster with sampling_top_k too.",
                                above=0.0, maximum=1.0),
        "sampling_seed": Param(int, 0, "What samples follow from, beside the example's number."),
    })


def search_params() -> dict[str, Any]:
    """Returns the parameters of the search, sampling included, as ``AutoregressiveDecoder`` names them."""
    return with_change(FREE, {
        "beam_size": Param(int, 1, "Hypotheses kept for each example; 1 is greedy.", minimum=1, maximum=10**4),
        "alpha": Param(float, 0.0, "Exponent of the length penalty ((5 + length) / 6)^alpha.", minimum=0.0),
        "n_best": Param(int, 1, "How many hypotheses of an example are returned: at most beam_size, or any number of "
                        "samples.", minimum=1, maximum=10**4),
        **sampling_params(),
    })


class AutoregressiveDecoder(Decoder):
    """Base of decoders that predict one symbol after the other.

    Subclasses implement ``_teacher_force`` for training, and four hooks for the search: ``prepare``, ``initial_cache``,
    ``step`` and ``limits``. Greedy search, beam search and sampling are chosen by parameters.

    Attributes:
      are_log_probs: whether ``step`` returns log probabilities, which count as they are, instead of logits.
      beam_size_param: name of the parameter that sets how many hypotheses are kept.
      alpha_param: name of the parameter that is the exponent of the length penalty.
    """

    are_log_probs: ClassVar[bool] = False
    beam_size_param: ClassVar[str] = "beam_size"
    alpha_param: ClassVar[str] = "alpha"

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
        if params["sampling_temperature"] is not None:
            return []
        problems = [f"'{path}/{name}' is {params[name]}, but nothing is drawn: give sampling_temperature too, 1.0 for "
                    "the model's own probabilities." for name in _SAMPLING if params[name] is not None]
        beam = params[self.beam_size_param]
        if params["n_best"] is not None and not 1 <= params["n_best"] <= beam:
            problems.append(f"'{path}/n_best' is {params['n_best']} but has to be from 1 to {self.beam_size_param}, "
                            f"{beam}.")
        return problems

    @property
    def start_id(self) -> int:
        """The id that the first step gets."""
        return self.params["GO_SYMBOL"]

    @property
    def end_id(self) -> int:
        """The id that ends a hypothesis."""
        return self.params["END_SYMBOL"]

    @property
    def vocabulary_size(self) -> int:
        """Number of ids that ``step`` scores."""
        return self.params["tgt_vocab_size"]

    def prepare(self, encoder_output: Mapping[str, Any]) -> Any:
        """Returns what all steps and hypotheses share, such as keys of the source and cast weights.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
        """
        return None

    def initial_cache(self, encoder_output: Mapping[str, Any], beam_size: int) -> Any:
        """Returns the state at the first step: a nest of tensors ``[batch, beam, …]``, whose later dimensions may grow.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          beam_size: hypotheses of each example.
        """
        return ()

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any) -> tuple[tf.Tensor, Any]:
        """Advances every hypothesis by a symbol.

        Args:
          ids: the newest ids ``[batch, beam]`` int32; ``start_id`` at the first step.
          step: how many ids there were before them, an int32 scalar.
          cache: nest of tensors ``[batch, beam, …]``: from ``initial_cache``, or from the step before, reordered so
            that each hypothesis has that of the one it extends.
          prepared: from ``prepare``.

        Returns:
          (logits of the next id ``[batch, beam, vocabulary_size]``, or log probabilities as ``are_log_probs`` says; the
          cache).
        """
        raise NotImplementedError("An autoregressive decoder implements step(ids, step, cache, prepared).")

    def limits(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        """Returns the maximal length of each example's hypotheses, the end id included: ``[batch]`` int32."""
        raise NotImplementedError("An autoregressive decoder implements limits(encoder_output).")

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        """Returns a decoder's output (``logits``, ``outputs``) for given targets.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          ids: ``[batch, time]`` int32; the decoder shifts them to get its inputs.
          lengths: ``[batch]`` int32.
        """
        raise NotImplementedError("An autoregressive decoder implements _teacher_force(encoder_output, ids, lengths).")

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Decodes by teacher forcing when there are targets, else by the search that the parameters choose.

        Args:
          input_dict: see ``parts.keys.DecoderInput``.

        Returns:
          With targets what ``_teacher_force`` returns, else what ``search`` does.
        """
        if input_dict.get("target_tensors") is None:
            return self.search(input_dict["encoder_output"], ids=input_dict.get("ids"))
        return self._teacher_force(input_dict["encoder_output"], *input_dict["target_tensors"][:2])

    def search(self, encoder_output: Mapping[str, Any], scorer: PrefixScorer | None = None, weight: float = 0.0,
               ids: tf.Tensor | None = None) -> dict[str, Any]:
        """Searches for the best hypotheses, or draws some.

        Args:
          encoder_output: see ``parts.keys.EncoderOutput``.
          scorer: scores the same hypotheses; its log probabilities have ``weight``, the decoder's 1 - ``weight``.
          weight: from 0 to 1.
          ids: number of each example ``[batch]``, from which samples follow; by default its row in the batch.

        Returns:
          ``logits`` None; ``outputs``; ``beam_ids`` ``[batch, n_best, length]``, ``beam_scores`` and ``beam_lengths``
          ``[batch, n_best]``.
        """
        limits, prepared = self.limits(encoder_output), self.prepare(encoder_output)
        sampling, settings = self._sampling(), self._settings(self.are_log_probs or scorer is not None)
        hypotheses = settings.beam_size if sampling is None else settings.n_best
        cache = self.initial_cache(encoder_output, hypotheses)
        step_fn: StepFunction = functools.partial(self._step, prepared=prepared)
        if scorer is not None:
            step_fn = functools.partial(self._scored_step, prepared=prepared, scorer=scorer, weight=weight)
            cache = (cache, scorer.initial_state(hypotheses))
        if sampling is not None:
            examples = tf.range(tf.shape(limits)[0]) if ids is None else ids
            result = sample(step_fn, cache, limits, settings, sampling, examples)
        else:
            run = greedy_search if settings.beam_size == 1 else beam_search
            result = run(step_fn, cache, limits, settings)
        return {"logits": None, "outputs": self._outputs(result), "beam_ids": result.ids,
                "beam_scores": result.scores, "beam_lengths": result.lengths}

    def _outputs(self, result: BeamResult) -> list[tf.Tensor]:
        """Returns the best ids of each example ``[batch, length]``, and how many come before the end ``[batch]``."""
        best = result.ids[:, 0]
        held = tf.sequence_mask(result.lengths[:, 0], tf.shape(best)[1]) & (best != self.end_id)
        return [best, tf.math.count_nonzero(held, axis=1, dtype=tf.int32)]

    def _step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any) -> tuple[tf.Tensor, Any]:
        return self.step(ids, step, cache, prepared)

    def _scored_step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any, scorer: PrefixScorer,
                     weight: float) -> tuple[tf.Tensor, Any]:
        own, prefixes = cache
        scores, own = self.step(ids, step, own, prepared)
        if not self.are_log_probs:
            scores = tf.nn.log_softmax(tf.cast(scores, tf.float32))
        prefixes = _follow(scorer, prefixes, ids, step)
        return (1.0 - weight) * scores + weight * scorer.gains(prefixes), (own, prefixes)

    def _sampling(self) -> Sampling | None:
        params = self.params
        if params["sampling_temperature"] is None:
            return None
        return Sampling(params["sampling_temperature"], params["sampling_top_k"], params["sampling_top_p"],
                        params["sampling_seed"])

    def _settings(self, are_log_probs: bool) -> SearchSettings:
        params = self.params
        beam = params[self.beam_size_param] if params["sampling_temperature"] is None else 1
        return SearchSettings(self.vocabulary_size, self.start_id, self.end_id, params[self.alpha_param], beam,
                              beam if params["n_best"] is None else params["n_best"], are_log_probs)


def _follow(scorer: PrefixScorer, prefixes: Any, ids: tf.Tensor, step: tf.Tensor) -> Any:
    """Returns the prefixes extended by the newest ids, except at the first step, whose id only starts a hypothesis."""
    grown = tf.cond(step > 0, lambda: tuple(scorer.follow(prefixes, ids)), lambda: tuple(prefixes))
    return type(prefixes)(*(tf.ensure_shape(new, old.shape) for new, old in zip(grown, prefixes, strict=True)))
