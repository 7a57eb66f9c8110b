"""Base of the encoders of language models: logits of the next tokens, and generation of text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param, check_params, with_change
from open_seq2seq.decoding.beam_search import SearchSettings, StepFunction, growing_shape
from open_seq2seq.decoding.sampling import Sampling, greedy_search, sample, sampling_params, sampling_problems
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.adaptive_softmax import AdaptiveOutputLayer, checked_adaptive
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.output_layer import OutputLayer, needs_logits
from open_seq2seq.parts.pooling import pooled
from open_seq2seq.parts.portable import least_score
from open_seq2seq.utils.errors import ConfigError

_READ_AT_ONCE = 256  # maximum number of tokens of a prompt per call of ``read``; limits the memory of attention
_NO_END = -1  # an end id that no token has, so that generation continues after the end of a line
_GENERATION = ("num_tokens_gen", "sampling_temperature", "sampling_top_p")  # what ``generating`` changes


class LanguageEncoder(Encoder):
    """Base of encoders that predict each token from the tokens before it.

    Subclasses implement ``_hidden`` for whole sequences, and ``initial_cache`` and ``step`` for generation. They may
    override ``read``, which reads prompts, to do so faster than token by token.

    Attributes:
      output_size: number of channels of the hidden states.
      output_layer: the layer that computes logits; None if the decoder does.
    """

    output_size: int
    output_layer: Any

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                minimum=2),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "carry_state": Param(bool, False, "Whether the state is carried over from chunk to chunk; set from the "
                                 "data layer.", derived=True),
            "end_token": Param(int, 0, "The id that ends every line; set from the data layer.", derived=True,
                               minimum=0),
            "batch_size": Param(int, 1, "Set by the model; has no effect.", "examples", derived=True, minimum=1),
            "seed_tokens": Param(object, None, "Accepted for old configs; has no effect: set "
                                 "data_layer_params/seed_tokens instead.",
                                 on_change=FREE),
            "head": Param(["tokens", "classes", "none", "loss"], "tokens", "What the encoder computes logits of. "
                          "tokens: the next tokens; classes: the classes of whole texts; none: nothing, because the "
                          "decoder computes the logits; loss: nothing either, but the model may compute the loss of "
                          "the next tokens. Set by the model.", derived=True),
            "num_classes": Param((int, type(None)), None, "Number of classes; set from the data layer.", "classes",
                                 derived=True, minimum=2),
            "weight_tied": Param(bool, False, "Whether the kernel of the output layer is the embedding table. The last "
                                 "recurrent layer of LMEncoder then has emb_size output channels."),
            "fc_use_bias": Param(bool, True, "Whether the output layer has a bias."),
            "num_sampled": Param((int, type(None)), None, "With BasicSampledSequenceLoss: number of sampled ids with "
                                 "which training compares each label, instead of the whole vocabulary; None for the "
                                 "whole vocabulary.", "tokens",
                                 minimum=1),
            "adaptive_softmax": Param((dict, type(None)), None, "Settings of the adaptive softmax, which speeds up "
                                      "training with large vocabularies: cutoffs (the first ids of the clusters, such "
                                      "as [2000, 10000]) and factor (by which the number of channels is divided from "
                                      "cluster to cluster; 4 by default). None disables it.",
                                      on_change=REFUSE),
            **with_change(FREE, {
                "num_tokens_gen": Param(int, 200, "Number of tokens to generate after each prompt.", "tokens",
                                        minimum=1, maximum=10**6),
                **sampling_params(),
            }),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        problems = sampling_problems(self.params, self.params_path) + self._adaptive_problems() + self._problems()
        if problems:
            raise ConfigError(problems)
        # Compiled functions read these variables, which are no weights, so that they serve all values.
        names = () if mode in ("train", "eval") else _GENERATION
        self._generation = SimpleNamespace(variables={
            name: tf.Variable(value, trainable=False, dtype=tf.int64 if name == _GENERATION[0] else tf.float32)
            for name in names if (value := self.params[name]) is not None})

    @contextlib.contextmanager
    def generating(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Context manager within which inference generates with other values of its parameters.

        Functions are not compiled again, and results are those of a config with these values.

        Args:
          values: ``num_tokens_gen``, ``sampling_temperature`` and ``sampling_top_p``, or some of them. The last two can
            only be changed if the config sets them.

        Raises:
          ConfigError: a value is not allowed, or cannot be changed.
        """
        variables = self._generation.variables
        checked, problems = check_params(values, {}, {name: self.get_optional_params()[name] for name in _GENERATION},
                                         self.params_path)
        problems += [f"'{self.params_path}/{name}' is not set, so that it cannot be changed: set it in the config."
                     for name in values if name in _GENERATION and name not in variables]
        if problems:
            raise ConfigError(problems)
        for name in values:
            variables[name].assign(checked[name])
        try:
            yield
        finally:
            for name in values:
                variables[name].assign(self.params[name])

    def _value(self, name: str) -> Any:
        """Returns the value of a parameter of generation, as a scalar if compiled functions serve all values."""
        variable = None if current_pass().portable else self._generation.variables.get(name)
        return self.params[name] if variable is None else variable.read_value()

    def _adaptive_problems(self) -> list[str]:
        params, path = self.params, self.params_path
        self._adaptive: dict[str, Any] | None = None
        if params["adaptive_softmax"] is None or params["head"] not in ("tokens", "loss"):
            return []
        self._adaptive, problems = checked_adaptive(params["adaptive_softmax"], f"{path}/adaptive_softmax",
                                                    params["vocab_size"], params["weight_tied"])
        if params["num_sampled"] is not None:
            problems.append(f"'{path}/adaptive_softmax' and '{path}/num_sampled' are two ways to train with a large "
                            "vocabulary: leave one out.")
        return problems

    def _problems(self) -> list[str]:
        """Returns one sentence for each invalid combination of parameters."""
        return []

    def _hidden(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        """Returns the hidden states.

        Args:
          ids: ``[batch, time]`` int32.
          lengths: ``[batch]`` int32, in tokens.

        Returns:
          A dict with ``outputs`` ``[batch, time, output_size]`` in the compute dtype; ``raw_outputs``, the same before
          the last dropout; and ``state``, the final states ``[batch, size]`` FP32 of each recurrent layer, or None.
        """
        raise NotImplementedError("A language encoder must implement _hidden(ids, lengths).")

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes ids.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]`` in tokens, both
            int32.

        Returns:
          The dict that ``_hidden`` returns, with additional keys that depend on the parameter ``head``. Always:
          ``outputs_length`` ``[batch]`` and ``encoder_input`` (the ids). With ``tokens``: ``logits``
          ``[batch, time, vocab_size]`` FP32, ``projection`` (see ``OutputProjection``) and ``num_sampled``. With
          ``classes``: ``logits`` ``[batch, num_classes]`` FP32. With ``loss``: ``projection``.
        """
        ids, lengths = input_dict["source_tensors"][:2]
        found = {**self._hidden(ids, lengths), "outputs_length": lengths, "encoder_input": ids}
        if self.params["head"] == "none":
            return found
        if self.params["head"] == "classes":
            return {**found, "logits": self.output_layer.logits(self._summary(found))}
        found["projection"] = self.output_layer.projection(found["outputs"], self.training)
        if self.params["head"] == "loss":
            return found
        logits = self.output_layer.logits(found["outputs"]) if needs_logits(self) else None
        return {**found, "logits": logits, "num_sampled": self.params["num_sampled"]}

    def _make_output_layer(self, table: tf.Variable, initializer: Any, regularizer: Any) -> Any:
        """Returns the layer that computes the logits of tokens or classes, or None if the decoder computes them."""
        params = self.params
        if params["head"] == "none":
            return None
        if params["head"] == "classes":
            return OutputLayer(self._summary_size, params["num_classes"], None, params["fc_use_bias"], initializer,
                               regularizer)
        tied = table if params["weight_tied"] else None
        if self._adaptive is not None:
            return AdaptiveOutputLayer(self.output_size, params["vocab_size"], self._adaptive, tied,
                                       params["fc_use_bias"], initializer, regularizer)
        return OutputLayer(self.output_size, params["vocab_size"], tied, params["fc_use_bias"], initializer,
                           regularizer)

    @property
    def _summary_size(self) -> int:
        """Number of channels of ``_summary``."""
        return self.output_size

    def _summary(self, found: dict[str, Any]) -> tf.Tensor:
        """Returns the vectors from which the classes are computed: by default, the output at each text's last token.

        Args:
          found: the result of ``_hidden``, with ``outputs_length``.

        Returns:
          ``[batch, channels]`` in the compute dtype.
        """
        return tf.cast(pooled(found["outputs"], found["outputs_length"], ["last"]), self.compute_dtype)

    def prepare(self) -> Any:
        """Returns values that are the same for all steps of ``generate``, such as weights cast to the compute dtype."""
        return None

    def initial_cache(self, batch: tf.Tensor) -> Any:
        """Returns the cache before the first token.

        Args:
          batch: number of texts, an int32 scalar.

        Returns:
          Nested structure of tensors ``[batch, 1, …]``; dimensions after the second may grow from step to step.
        """
        raise NotImplementedError("A language encoder must implement initial_cache(batch).")

    def step(self, ids: tf.Tensor, number: tf.Tensor, cache: Any, prepared: Any) -> tuple[tf.Tensor, Any]:
        """Reads one more token of each text.

        Args:
          ids: ``[batch, 1]`` int32.
          number: int32 scalar, number of tokens of each text that were read before.
          cache: result of ``initial_cache`` or of the previous step.
          prepared: result of ``prepare``.

        Returns:
          (logits of the next token ``[batch, 1, vocab_size]`` FP32, the new cache).
        """
        raise NotImplementedError("A language encoder must implement step(ids, number, cache, prepared).")

    def read(self, ids: tf.Tensor, number: tf.Tensor, cache: Any, prepared: Any) -> Any:
        """Reads several more tokens of each text without returning logits.

        By default, this calls ``step`` for each token.

        Args:
          ids: ``[batch, time]`` int32.
          number: int32 scalar, number of tokens of each text that were read before.
          cache: result of ``initial_cache`` or of the previous ``read``.
          prepared: result of ``prepare``.

        Returns:
          The new cache.
        """
        def body(offset: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
            return offset + 1, self.step(ids[:, offset, tf.newaxis], number + offset, cache, prepared)[1]

        return _read_until(body, tf.shape(ids)[1], cache)

    def generate(self, ids: tf.Tensor, lengths: tf.Tensor, examples: tf.Tensor) -> tf.Tensor:
        """Continues texts with the likeliest token at each step or, with ``sampling_temperature``, with sampled ones.

        If the shortest prompt of the batch has n tokens, ``read`` reads the first n - 1 tokens of all prompts. The
        remaining tokens are read one by one with ``step``, so that each text is continued from the end of its own
        prompt. Apart from rounding, results do not depend on the other prompts of the batch.

        Args:
          ids: prompts of at least one token, ``[batch, time]`` int32.
          lengths: lengths of the prompts in tokens, ``[batch]`` int32.
          examples: indices of the prompts in the data set ``[batch]``, from which the random numbers of sampling are
            computed.

        Returns:
          The tokens that follow each prompt, ``[batch, num_tokens_gen]`` int32.
        """
        prepared, last = self.prepare(), tf.shape(ids)[1] - 1
        # Index of the first token that ``step`` reads. A replica without examples gets a batch of 0 rows, for which
        # reduce_min would return the largest int32.
        first = tf.where(tf.shape(ids)[0] > 0, tf.reduce_min(lengths) - 1, 0)

        def read(number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
            end = tf.minimum(number + _READ_AT_ONCE, first)
            return end, self.read(ids[:, number:end], number, cache, prepared)

        def step(newest: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
            number += first
            given = tf.gather(ids, tf.minimum(number, last), axis=1)[:, tf.newaxis]
            return self.step(tf.where(number < lengths[:, tf.newaxis], given, newest), number, cache, prepared)

        cache = _read_until(read, first, self.initial_cache(tf.shape(ids)[0]))
        left, count = lengths - first, tf.cast(self._value("num_tokens_gen"), tf.int32)
        found = self._search(step, cache, left - 1 + count, first, examples)
        # Step left - 1 reads the last token of the prompt and finds the first new token.
        return tf.gather(found, left[:, tf.newaxis] - 1 + tf.range(count), batch_dims=1)

    def _search(self, step: StepFunction, cache: Any, limits: tf.Tensor, first: tf.Tensor,
                examples: tf.Tensor) -> tf.Tensor:
        """Returns the id that each step of the search chooses, ``[batch, time]`` int32.

        Args:
          step: function of (newest ids ``[batch, 1]``, index of the step, cache); see ``beam_search``.
          cache: cache after the first ``first`` tokens.
          limits: number of steps for each text, ``[batch]`` int32; later ids of a text are 0.
          first: int32 scalar, number of tokens of each text that were read before.
          examples: indices of the prompts in the data set ``[batch]``.
        """
        params = self.params
        settings = SearchSettings(params["vocab_size"], 0, _NO_END, least=least_score())
        if params["sampling_temperature"] is None:
            return greedy_search(step, cache, limits, settings).ids[:, 0]
        temperature, top_p = map(self._value, ("sampling_temperature", "sampling_top_p"))
        sampling = Sampling(temperature, params["sampling_top_k"], top_p, params["sampling_seed"])
        return sample(step, cache, limits, settings, sampling, examples, first).ids[:, 0]


def _read_until(body: Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]], count: tf.Tensor, cache: Any) -> Any:
    """Calls ``body`` until ``count`` tokens have been read, and returns the final cache.

    Args:
      body: function from (number of tokens read so far, cache) to the same after more tokens.
      count: number of tokens to read.
      cache: cache before the first token.
    """
    shapes = tf.nest.map_structure(growing_shape, cache)
    return tf.while_loop(lambda number, _: number < count, body, (tf.constant(0), cache),
                         shape_invariants=(tf.TensorShape([]), shapes))[1]
