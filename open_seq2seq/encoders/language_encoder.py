"""Base of the encoders of language models: logits of the next tokens, and generation of text."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.decoding.beam_search import SearchSettings
from open_seq2seq.decoding.sampling import Sampling, greedy_search, sample
from open_seq2seq.decoding.sampling_params import sampling_params, sampling_problems
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.output_layer import OutputLayer
from open_seq2seq.utils.errors import ConfigError

_NO_END = -1  # generated text continues after the ends of its lines


class LanguageEncoder(Encoder):
    """Base of encoders that predict each token from the tokens before it.

    Subclasses implement ``_hidden`` for whole sequences, and ``start`` and ``step`` for generation.

    Attributes:
      output_size: number of channels of the hidden states.
      output_layer: the layer that computes logits.
    """

    output_size: int
    output_layer: OutputLayer

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
            "weight_tied": Param(bool, False, "Whether the output layer uses the embedding table."),
            "fc_use_bias": Param(bool, True, "Whether the output layer has a bias."),
            "num_sampled": Param((int, type(None)), None, "With BasicSampledSequenceLoss: number of ids that stand for "
                                 "the vocabulary in training; by default, the whole vocabulary.", "tokens", minimum=1),
            **with_change(FREE, {
                "num_tokens_gen": Param(int, 200, "Number of tokens to generate after each prompt.", "tokens",
                                        minimum=1, maximum=10**6),
                **sampling_params(),
            }),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        problems = sampling_problems(self.params, self.params_path) + self._problems()
        if problems:
            raise ConfigError(problems)

    def _problems(self) -> list[str]:
        """Returns one sentence for each invalid combination of parameters."""
        return []

    def _hidden(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        """Returns the hidden states.

        Args:
          ids: ``[batch, time]`` int32.
          lengths: ``[batch]`` int32, in tokens.

        Returns:
          A dict with ``outputs`` ``[batch, time, output_size]`` in the compute dtype, and ``raw_outputs``, the same
          before the last dropout.
        """
        raise NotImplementedError("A language encoder must implement _hidden(ids, lengths).")

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes ids.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]``, int32.

        Returns:
          The result of ``_hidden`` with ``outputs_length`` ``[batch]``, ``logits`` ``[batch, time, vocab_size]`` FP32,
          ``projection`` (their factors), ``output_layer``, ``num_sampled`` and ``encoder_input`` (the ids).
        """
        ids, lengths = input_dict["source_tensors"][:2]
        found = self._hidden(ids, lengths)
        return {
            **found,
            "outputs_length": lengths,
            "encoder_input": ids,
            "logits": self.output_layer.logits(found["outputs"]),
            "projection": self.output_layer.projection(found["outputs"], self.training),
            "num_sampled": self.params["num_sampled"],
        }

    def start(self, ids: tf.Tensor, lengths: tf.Tensor) -> Any:
        """Reads prompts; returns the cache from which ``step`` continues.

        Args:
          ids: ``[batch, time]`` int32.
          lengths: ``[batch]`` int32, in tokens.

        Returns:
          Nested structure of tensors ``[batch, 1, …]``; dimensions after the second may grow from step to step.
        """
        raise NotImplementedError("A language encoder must implement start(ids, lengths).")

    def step(self, ids: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        """Reads one more token of each text.

        Args:
          ids: ``[batch, 1]`` int32.
          cache: result of ``start`` or of the previous step.

        Returns:
          (logits of the next token ``[batch, 1, vocab_size]`` FP32, the new cache).
        """
        raise NotImplementedError("A language encoder must implement step(ids, cache).")

    def generate(self, ids: tf.Tensor, lengths: tf.Tensor, examples: tf.Tensor) -> tf.Tensor:
        """Continues texts, by the likeliest token at each step or, with ``sampling_temperature``, by sampling.

        Args:
          ids: prompts of at least one token, ``[batch, time]`` int32.
          lengths: lengths of the prompts, ``[batch]`` int32.
          examples: numbers of the prompts ``[batch]``, on which samples depend.

        Returns:
          The tokens that follow each prompt, ``[batch, num_tokens_gen]`` int32.
        """
        last = tf.gather(ids, tf.maximum(lengths - 1, 0), batch_dims=1)[:, tf.newaxis]
        cache = {"own": self.start(ids, tf.maximum(lengths - 1, 0)), "last": last}

        def step(newest: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
            # The first step reads the last token of the prompt.
            logits, own = self.step(tf.where(tf.equal(number, 0), cache["last"], newest), cache["own"])
            return logits, {"own": own, "last": cache["last"]}

        settings = SearchSettings(self.params["vocab_size"], 0, _NO_END)
        limits = tf.fill(tf.shape(lengths), self.params["num_tokens_gen"])
        temperature = self.params["sampling_temperature"]
        if temperature is None:
            return greedy_search(step, cache, limits, settings).ids[:, 0]
        sampling = Sampling(temperature, self.params["sampling_top_k"], self.params["sampling_top_p"],
                            self.params["sampling_seed"])
        return sample(step, cache, limits, settings, sampling, examples).ids[:, 0]
