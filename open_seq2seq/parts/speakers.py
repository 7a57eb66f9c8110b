"""Several speakers in one model of speech synthesis: their names, and an embedding of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.parts.component import Module
from open_seq2seq.utils.errors import ConfigError, DataError

_SHOWN = 20  # maximum number of names in a message
_NOT_IN_NAMES = "|[]\n"  # separators of lists and of ``[speaker NAME]`` in texts


class Speakers:
    """The names of the speakers of a model, numbered from 0.

    Args:
      names: the names; none for a model of one voice without a name.
      path: path of the parameter with the names, for messages.

    Raises:
      ConfigError: a name is no text, is empty, occurs twice, or has a character that separates names.
    """

    def __init__(self, names: Sequence[Any], path: str) -> None:
        problems = [f"'{path}' has the name {name!r:.60}, but names of speakers must be texts without the characters | "
                    "[ ] and without spaces around them." for name in names
                    if not isinstance(name, str) or not name or name != name.strip() or set(name) & {*_NOT_IN_NAMES}]
        problems += [f"'{path}' has the name {name!r} twice." for number, name in enumerate(names)
                     if name in names[:number]]
        if problems:
            raise ConfigError(problems)
        self.names: list[str] = list(names)

    @property
    def are_several(self) -> bool:
        """Whether there are at least two, so that the model has to tell them apart."""
        return len(self.names) > 1

    def number(self, name: str) -> int:
        """Returns the number of a speaker.

        Raises:
          DataError: no speaker has this name.
        """
        if problem := self.problem(name):
            raise DataError(problem)
        return self.names.index(name)

    def problem(self, name: str) -> str | None:
        """Returns a sentence that says which names are known, if this one is not."""
        if name in self.names:
            return None
        if not self.names:
            return f"The speaker {name!r:.60} is named, but the model has one voice without a name: leave it out."
        return f"There is no speaker {name!r:.60}: the model has {self.listed}."

    @property
    def listed(self) -> str:
        """The first names, for messages."""
        more = len(self.names) - _SHOWN
        return ", ".join(self.names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def speaker_params() -> dict[str, Any]:
    """Returns the parameters of encoders that tell speakers apart."""
    return {"num_speakers": Param(int, 1, "Number of speakers; set from the data layer.", "speakers", derived=True,
                                  minimum=1)}


class SpeakerEmbedding(Module):
    """An embedding of each speaker, which is added to the output of an encoder at each symbol.

    Args:
      count: number of speakers.
      size: number of channels of the output.
      initializer: initialiser of the embeddings.
      regularizer: regulariser of the embeddings.
    """

    def __init__(self, count: int, size: int, initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="speakers")
        self.table = self.weight([count, size], initializer, regularizer=regularizer)

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, speakers: tf.Tensor) -> tf.Tensor:
        """Returns the sum ``[batch, text, size]`` in the dtype of ``x``; padding is not changed.

        Args:
          x: output of the encoder ``[batch, text, size]``.
          lengths: numbers of symbols ``[batch]``.
          speakers: numbers of the speakers ``[batch]``.
        """
        added = tf.cast(tf.gather(tf.convert_to_tensor(self.table), speakers), x.dtype)[:, tf.newaxis]
        mask = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, tf.newaxis]
        return x + tf.where(mask, added, tf.zeros([], x.dtype))


def make_speaker_embedding(count: int, size: int, initializer: Any, regularizer: Any) -> SpeakerEmbedding | None:
    """Returns the embeddings of ``count`` speakers; None for one, who need not be told apart from others."""
    return SpeakerEmbedding(count, size, initializer, regularizer) if count > 1 else None
