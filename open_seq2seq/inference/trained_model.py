"""A trained model as a Python object, whose methods translate, transcribe, classify, continue or score inputs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from open_seq2seq.config import user_code
from open_seq2seq.config.merge import merge_params
from open_seq2seq.data.data_layer import INPUTS
from open_seq2seq.data.windows import WindowedPlan
from open_seq2seq.models.builder import ModelSpec, build_model
from open_seq2seq.models.model import Model
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.runners.runner import Compiled, Runner
from open_seq2seq.training.loop.passes import InferencePass
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError, UserError

_MOST_VARIANTS = 16
"""Number of compiled variants that a model keeps."""


Recording = str | os.PathLike[str] | np.ndarray | tuple[np.ndarray, int]
"""Path of a recording, samples at the model's sampling rate, or a pair (samples, sampling rate in Hz).

Samples have the shape ``[samples]`` or ``[samples, channels]``.
"""


class TrainedModel:
    """A trained model whose methods accept any number of inputs, and can be called from any thread.

    Inputs are sorted by length and divided into batches of the config's batch size; the results are in the order of the
    inputs. The result of an input does not depend on the other inputs, except that random samples depend on the input's
    index in the list. Calls from several threads are computed one after the other, because each of them uses all
    processors or the whole GPU.

    Args:
      model: a model that was built for ``interactive_infer`` and whose weights have been restored.
      spec: the description that the model was built from, if methods may build it again with other values.
      checkpoint: path of its checkpoint.

    Attributes:
      model: the model, with its parameters and data layer.
    """

    def __init__(self, model: Model, spec: ModelSpec | None = None, checkpoint: str = "") -> None:
        self.model = model
        self._spec, self._checkpoint = spec, checkpoint
        self._pass = InferencePass(model, Runner())
        self._score_batch: Any = None  # a compiled function
        self._variants: dict[str, TrainedModel] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        of = f" of {self._checkpoint}" if self._checkpoint else ""
        can_score = self.model.can_score or self.model.verb == "generate"
        verbs = [verb for verb in (self.model.verb, "infer", "score" if can_score else None) if verb]
        return f"<{type(self).__name__}: {type(self.model).__name__}{of}; {', '.join(verbs)}>"

    def infer(self, inputs: Sequence[Any], first: int = 0, generation: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns the full result of each input, in order.

        For translation, a result is a list of pairs (score, text), best first, where the score is a log probability
        that may be normalized by length. For speech recognition, a result is an object with the attributes ``text`` and
        ``n_best`` (the best hypotheses; None without beam search).

        Args:
          inputs: sentences for translation, recordings for speech recognition (see ``transcribe``), and otherwise
            what the data layer's ``make_interactive_batch`` accepts.
          first: index of the first input; random samples depend on the index of their input.
          generation: for language models, other values of some parameters; see ``LanguageEncoder.generating``.

        Raises:
          DataError: ``inputs`` is not a list, or an element cannot be used.
          ConfigError: a value of ``generation`` is not allowed, or cannot be changed.
        """
        _check_listed(inputs)
        if not len(inputs):
            return []
        parts = [self.model.divided(given) for given in inputs]
        encoder: Any = getattr(self.model, "encoder", None)
        with self._lock, encoder.generating(generation) if generation else contextlib.nullcontext():
            results = self._inferred([part for group in parts for part in group], first)
        ends = np.cumsum([len(group) for group in parts]).tolist()
        return [self.model.joined(given, results[end - len(group):end])
                for given, group, end in zip(inputs, parts, ends, strict=True)]

    def _inferred(self, inputs: Sequence[Any], first: int) -> list[Any]:
        """Returns the result of each input, none of which has to be divided."""
        layer = self.model.data_layer

        def batch_of(examples: np.ndarray) -> dict[str, Any]:
            own = [inputs[example] for example in examples]
            return {**layer.make_interactive_batch(own), "ids": np.asarray(examples, np.int64) + first, INPUTS: own}

        with self._lock:
            return self._in_batches(np.asarray(layer.interactive_lengths(inputs)), batch_of, self._pass.predict_each,
                                    first)

    def infer_file(self, path: str) -> list[Any]:
        """Returns the full result of each line of a UTF-8 text file, in order.

        Raises:
          DataError: the file is missing or not UTF-8, or a line cannot be used.
        """
        return self.infer(list(read_lines(path)))

    @overload
    def translate(self, sentences: str, n_best: None = None) -> str: ...

    @overload
    def translate(self, sentences: str, n_best: int) -> list[str]: ...

    @overload
    def translate(self, sentences: list[str] | tuple[str, ...], n_best: None = None) -> list[str]: ...

    @overload
    def translate(self, sentences: list[str] | tuple[str, ...], n_best: int) -> list[list[str]]: ...

    def translate(self, sentences: str | list[str] | tuple[str, ...], n_best: int | None = None) -> Any:
        """Returns the best translation of a sentence, or of each sentence in a list; empty sentences stay empty.

        Args:
          sentences: a sentence, or a list of sentences.
          n_best: if given, a list of this many translations is returned for each sentence, best first. An empty
            sentence has only one.

        Raises:
          UserError: the model does not translate, or ``n_best`` is larger than its beam.
          DataError: a sentence is not a string.
        """
        self._check_verb("translate")
        if n_best is None:
            return self._answers(sentences)
        model = self.variant({"decoder_params": {"n_best": n_best}})
        texts = [[hypothesis.text for hypothesis in result] for result in model.infer(_listed(sentences))]
        return texts[0] if _is_single(sentences) else texts

    @overload
    def transcribe(self, recordings: Recording, format: str | None = None) -> str: ...

    @overload
    def transcribe(self, recordings: list[Recording], format: str | None = None) -> list[str]: ...

    def transcribe(self, recordings: Recording | list[Recording], format: str | None = None) -> str | list[str]:
        """Returns the transcript of a recording, or of each recording in a list.

        With CTC, recordings longer than the config's ``window_seconds`` are read in overlapping windows, so that a
        recording of hours needs no more memory than one of minutes.

        Args:
          recordings: a recording, or a list of recordings. A recording is a path, an array ``[samples]`` or
            ``[samples, channels]`` at the model's sampling rate, or a pair (array, sampling rate in Hz).
          format: ``srt``, ``vtt`` or ``json`` for the content of such a file instead of the text alone.

        Raises:
          UserError: the model does not transcribe, or gives no times for this format.
          DataError: a recording cannot be used.
        """
        self._check_verb("transcribe")
        listed = recordings if isinstance(recordings, list) else [recordings]
        if format is None:
            return self._answers(listed, single=not isinstance(recordings, list))
        model: Any = self.model
        contents = [model.formatted(result, format, os.fspath(given) if isinstance(given, (str, os.PathLike)) else None)
                    for given, result in zip(listed, self.infer(listed), strict=True)]
        return contents if isinstance(recordings, list) else contents[0]

    @overload
    def classify(self, inputs: str | os.PathLike[str]) -> str: ...

    @overload
    def classify(self, inputs: list[Any] | tuple[Any, ...]) -> list[str]: ...

    def classify(self, inputs: Any) -> str | list[str]:
        """Returns the name of the most probable class of a text or an image, or of each one in a list.

        Args:
          inputs: a text or, for images, the path of a file; or a list of these. An empty text has the class "".

        Raises:
          UserError: the model does not classify.
          DataError: an input cannot be used.
        """
        self._check_verb("classify")
        model: Any = self.model
        labels = [model.label_of(result) for result in self.infer(_listed(inputs))]
        return labels[0] if _is_single(inputs) else labels

    @overload
    def generate(self, prompts: str) -> str: ...

    @overload
    def generate(self, prompts: list[str] | tuple[str, ...]) -> list[str]: ...

    def generate(self, prompts: str | list[str] | tuple[str, ...]) -> str | list[str]:
        """Returns a prompt with the text that a language model continues it by, or a list of these for a list.

        Raises:
          UserError: the model is not a language model.
          DataError: a prompt is not a string.
        """
        self._check_verb("generate")
        return self.variant({"infer_task": "generate"})._answers(prompts)

    @overload
    def synthesize(self, texts: str, speed: float | None = None,
                   speaker: str | None = None) -> tuple[np.ndarray, int]: ...

    @overload
    def synthesize(self, texts: list[Any], speed: float | None = None,
                   speaker: str | None = None) -> list[tuple[np.ndarray, int]]: ...

    def synthesize(self, texts: Any, speed: float | None = None, speaker: str | None = None) -> Any:
        """Returns the sound of a text, as a pair (samples ``[samples]`` from -1 to 1, sampling rate in Hz).

        The sentences of a text are spoken one by one, and joined with pauses.

        Args:
          texts: a text, or a list of texts, for which a list of pairs is returned. For a model with style recordings,
            an element is a pair (text, path of the style recording).
          speed: 2 for speech that is twice as fast; None for that of the config.
          speaker: name of the speaker, of a model of several; None for that of the config, or that a text names.

        Raises:
          UserError: the model is not a speech synthesiser, or predicts no durations, so that its speed cannot be set.
          ConfigError: the speed is not allowed.
          DataError: a text is not a string, or a style recording cannot be used, or there is no such speaker.
        """
        self._check_verb("synthesize")
        given, layer = _listed(texts), self.model.data_layer
        if speaker is not None:
            if not hasattr(layer, "by_speaker"):
                raise UserError(f"This {type(self.model).__name__} does not speak texts: leave out speaker.")
            _check_listed(given)
            given = [layer.by_speaker(text, speaker) for text in given]
        decoder: Any = getattr(self.model, "decoder", None)
        if speed is not None and not hasattr(decoder, "at_speed"):
            raise UserError(f"{type(decoder).__name__} predicts no durations, so its speed cannot be set: leave out "
                            "speed, or train a model that predicts them.")
        with self._lock, contextlib.nullcontext() if speed is None else decoder.at_speed(speed):
            sounds = [(result.samples, result.rate) for result in self.infer(given)]
        return sounds[0] if _is_single(texts) else sounds

    def score(self, inputs: Sequence[Any], targets: Sequence[Any] | None = None) -> list[Any]:
        """Returns the score of a given target for each input, in order; or of each line under a language model.

        For translation, a score is a ``TargetScore`` with the attributes ``log_prob`` (natural logarithm of the
        translation's probability, EOS included), ``tokens`` (number of tokens, EOS included) and ``perplexity`` (per
        token). For a language model, it is a pair (log_prob, tokens).

        Args:
          inputs: source sentences; or, for a language model, lines of text.
          targets: a translation of each source sentence; None for a language model.

        Raises:
          UserError: the model cannot score.
          DataError: a sentence cannot be used, or the numbers of inputs and targets differ.
        """
        if targets is None:
            self._check_verb("generate", "score lines without targets")
            return self.variant({"infer_task": "score"}).infer(inputs)
        return self._target_scores(inputs, targets)

    def _target_scores(self, inputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        _check_listed(inputs)
        _check_listed(targets)
        if len(inputs) != len(targets):
            raise DataError(f"There are {len(inputs)} inputs and {len(targets)} targets: give one target for each "
                            "input.")
        if not len(inputs):
            return []
        layer = self.model.data_layer

        def batch_of(examples: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
            return examples, layer.make_scoring_batch([inputs[example] for example in examples],
                                                      [targets[example] for example in examples])

        def results(batches: Iterator[Any]) -> Iterator[list[tuple[int, Any]]]:
            for examples, batch in batches:
                outputs = [np.asarray(output) for output in self._score_batch([batch])[0]]
                yield list(zip(examples.tolist(), self.model.target_scores(outputs), strict=True))

        with self._lock:
            if self._score_batch is None:
                self._score_batch = _scoring_function(self.model)
            # For batching, the length of a target is estimated as if it were an input.
            return self._in_batches(np.maximum(layer.interactive_lengths(inputs), layer.interactive_lengths(targets)),
                                    batch_of, results)

    def _in_batches(self, lengths: np.ndarray, batch_of: Callable[[np.ndarray], Any],
                    results_of: Callable[[Iterator[Any]], Iterator[list[tuple[int, Any]]]],
                    first: int = 0) -> list[Any]:
        """Divides examples into batches, and returns their results in order.

        Args:
          lengths: the length of each example.
          batch_of: returns a batch of the examples with the given indices.
          results_of: yields (index of the example + ``first``, result) for the examples of each of these batches.
          first: see ``infer``.
        """
        layer, cut = self.model.data_layer, list[int]()
        results: list[Any] = [None] * len(lengths)

        def batches() -> Iterator[Any]:
            for examples in _batches(layer, lengths):
                batch = batch_of(examples)
                cut.extend((examples[getattr(layer, "newest_cut", [])] + first).tolist())
                yield batch

        for pairs in results_of(batches()):
            for number, result in pairs:
                results[number - first] = result
        if cut:  # on standard error, because answers may go to standard output
            print(f"*** Longer than max_length, so only a part was read: {len(cut):,} of {len(lengths):,} inputs, the "
                  f"first is number {min(cut) + 1:,}", file=sys.stderr, flush=True)
        return results

    def variant(self, values: Mapping[str, Any]) -> TrainedModel:
        """Returns this model with other values of some parameters, and the same weights."""
        if self._spec is None or _has(self.model.params, values):
            return self
        with self._lock, user_code.loading:
            key = repr(values)
            variant = self._variants.pop(key, None)
            if variant is None:
                spec = dataclasses.replace(self._spec, params=merge_params(self._spec.params, values)[0])
                model = build_model(spec, variables_of=self.model)
                model.ensemble = self.model.ensemble
                loaded = self.model.needed_models(self.model.params)
                for name, logdir in model.needed_models(model.params).items():
                    if loaded.get(name) != logdir:
                        raise UserError(f"'{name}' cannot be changed in a loaded model: give {name}={logdir!r} when "
                                        "the model is loaded.")
                    model.use(name, getattr(self.model, name))
                variant = TrainedModel(model)
            self._variants[key] = variant  # in the order in which they were used last
            if len(self._variants) > _MOST_VARIANTS:
                del self._variants[next(iter(self._variants))]
            return variant

    def _answers(self, inputs: Any, single: bool | None = None) -> Any:
        answers = [self.model.answer(result) for result in self.infer(_listed(inputs))]
        return answers[0] if _is_single(inputs) or single else answers

    def _check_verb(self, verb: str, what: str = "") -> None:
        model = self.model
        if model.verb != verb:
            other = f"infer or {model.verb}" if model.verb else "infer"
            raise UserError(f"{type(model).__name__} does not {what or verb}: call {other}.")


def _scoring_function(model: Model) -> Compiled:
    """Returns the compiled function that computes the scores of the targets in a batch from ``make_scoring_batch``.

    Raises:
      UserError: the model cannot score targets.
    """
    if not model.can_score:
        raise UserError(f"This {type(model).__name__} cannot score given targets: use a text-to-text model with an "
                        "autoregressive decoder.")

    def score(batch: Any) -> list[tf.Tensor]:
        with forward_pass():
            return model.score(batch)

    compiled: Compiled = Runner().compile(score, [model.data_layer.scoring_signature])
    return compiled


def _has(params: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Returns whether nested parameters have all of these values."""
    return all(_has(params.get(name) or {}, value) if isinstance(value, Mapping) else params.get(name) == value
               for name, value in values.items())


def _is_single(inputs: Any) -> bool:
    return isinstance(inputs, (str, os.PathLike))


def _listed(inputs: Any) -> Any:
    return [inputs] if _is_single(inputs) else inputs


def _batches(layer: Any, lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the indices of the examples in each batch, for examples of these lengths."""
    costs = np.ones_like(lengths) if layer.counts_examples else lengths
    plan = WindowedPlan(lengths, batch_size=layer.batch_budget, costs=costs)
    for window in map(plan.window, range(len(plan))):
        yield from map(window.batch, range(len(window)))


def _check_listed(inputs: Any) -> None:
    """Raises DataError unless ``inputs`` has a length; a string would be taken for a list of characters."""
    if isinstance(inputs, (str, bytes)) or not hasattr(inputs, "__len__"):
        raise DataError(f"Inputs and targets must be lists, but got a value of type {type(inputs).__name__}: put a "
                        "single input or target into a list.")
