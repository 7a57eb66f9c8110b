"""Trained models as Python objects, loaded from a log directory; see ``open_seq2seq.load``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from open_seq2seq.cli import load_interactive
from open_seq2seq.inference.interactive import InteractiveModel
from open_seq2seq.models.model import Model
from open_seq2seq.utils.errors import UserError

Recording = str | os.PathLike[str] | np.ndarray | tuple[np.ndarray, int]
"""Path of a recording, samples at the model's sampling rate, or a pair (samples, sampling rate in Hz).

Samples have the shape ``[samples]`` or ``[samples, channels]``.
"""


class TrainedModel:
    """A trained model whose methods accept any number of inputs, and can be called from any thread.

    Inputs are sorted by length and divided into batches of the config's batch size; the results are in the order of the
    inputs. The result of an input does not depend on the other inputs, except that random samples depend on the input's
    index in the list.

    Args:
      interactive: the loaded model.
    """

    def __init__(self, interactive: InteractiveModel) -> None:
        self._interactive = interactive

    @property
    def model(self) -> Model:
        """The model, with its parameters and data layer."""
        return self._interactive.model

    def infer(self, inputs: Sequence[Any]) -> list[Any]:
        """Returns the full result of each input, in order.

        For translation, a result is a list of pairs (score, text), best first, where the score is a log probability
        that may be normalized by length. For speech recognition, a result is an object with the attributes ``text`` and
        ``n_best`` (the best hypotheses; None without beam search).

        Args:
          inputs: sentences for translation, recordings for speech recognition (see ``transcribe``), and otherwise
            what the data layer's ``make_interactive_batch`` accepts.

        Raises:
          DataError: an input cannot be used.
        """
        return self._interactive.infer(inputs)

    @overload
    def translate(self, sentences: str) -> str: ...

    @overload
    def translate(self, sentences: list[str] | tuple[str, ...]) -> list[str]: ...

    def translate(self, sentences: str | list[str] | tuple[str, ...]) -> str | list[str]:
        """Returns the best translation of a sentence, or of each sentence in a list; empty sentences stay empty.

        Raises:
          UserError: the model does not translate.
          DataError: a sentence is not a string.
        """
        if isinstance(sentences, str):
            return self._answers("translate", [sentences])[0]
        return self._answers("translate", sentences)

    @overload
    def transcribe(self, recordings: Recording) -> str: ...

    @overload
    def transcribe(self, recordings: list[Recording]) -> list[str]: ...

    def transcribe(self, recordings: Recording | list[Recording]) -> str | list[str]:
        """Returns the transcript of a recording, or of each recording in a list.

        Args:
          recordings: a recording, or a list of recordings. A recording is a path, an array ``[samples]`` or
            ``[samples, channels]`` at the model's sampling rate, or a pair (array, sampling rate in Hz).

        Raises:
          UserError: the model does not transcribe.
          DataError: a recording cannot be used.
        """
        if isinstance(recordings, list):
            return self._answers("transcribe", recordings)
        return self._answers("transcribe", [recordings])[0]

    @overload
    def classify(self, inputs: str) -> str: ...

    @overload
    def classify(self, inputs: list[Any] | tuple[Any, ...]) -> list[str]: ...

    def classify(self, inputs: Any) -> str | list[str]:
        """Returns the name of the most probable class of a text or an image, or of each one in a list.

        Args:
          inputs: a text or, for images, the path of a file; or a list of these.

        Raises:
          UserError: the model does not classify.
          DataError: an input cannot be used.
        """
        several = isinstance(inputs, (list, tuple))
        self._check_verb("classify")
        model: Any = self.model
        labels = [model.label_of(result) for result in self.infer(inputs if several else [inputs])]
        return labels if several else labels[0]

    def score(self, inputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        """Returns the score of a given target for each input, in order.

        For translation, a score is a ``TargetScore`` with the attributes ``log_prob`` (natural logarithm of the
        translation's probability, EOS included), ``tokens`` (number of tokens, EOS included) and ``perplexity`` (per
        token).

        Args:
          inputs: source sentences.
          targets: a translation of each source sentence.

        Raises:
          UserError: the model cannot score targets.
          DataError: a sentence cannot be used, or the numbers of inputs and targets differ.
        """
        return self._interactive.score(inputs, targets)

    def _answers(self, verb: str, inputs: Sequence[Any]) -> list[str]:
        self._check_verb(verb)
        return [self.model.answer(result) for result in self.infer(inputs)]

    def _check_verb(self, verb: str) -> None:
        model = self.model
        if model.verb != verb:
            other = f"infer or {model.verb}" if model.verb else "infer"
            raise UserError(f"{type(model).__name__} does not {verb}: call {other}.")


def load(logdir: str | os.PathLike[str], *arguments: str, trust_code: bool = False) -> TrainedModel:
    """Loads a trained model; see ``open_seq2seq.load`` for the arguments and the errors."""
    trusted = ["--trust_code"] if trust_code else []
    return TrainedModel(load_interactive([f"--logdir={os.fspath(logdir)}", *trusted, *arguments]))
