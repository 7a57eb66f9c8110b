"""What ends the speech of decoders that predict frame by frame: stop tokens, a maximum length, and guards."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param

DURATIONS = "predicted durations"
ENDINGS = ("stop token", "maximum length", "attention at the end", "repeated frames", DURATIONS)
"""What can end the speech of a text; results of decoders have indices of this tuple.

A stop token ends it at the first frame whose logit is above 0.
"""
_LAST_SYMBOLS = 2
_EQUAL = 0.05  # mean absolute difference below which frames are repeated


def ending_params() -> dict[str, Param]:
    """Returns the specs of the parameters that end speech whose end the model does not predict; see ``Guards``."""
    return {
        "max_frames_per_symbol": Param(float, 10.0, "Maximum length of a spectrogram divided by the number of symbols.",
                                       "frames per symbol", above=0.0, maximum=10**6, on_change=FREE),
        "most_end_frames": Param((int, type(None)), None, "In inference, the attention may be at the last two symbols "
                                 "for this number of frames before the speech is ended. None: no limit.", "frames",
                                 minimum=1, on_change=FREE),
        "most_repeated_frames": Param((int, type(None)), None, "In inference, speech is ended before this number of "
                                      "consecutive frames that hardly differ. None: no limit.", "frames", minimum=1,
                                      on_change=FREE),
    }


class Guards(NamedTuple):
    """Where each text ends, as far as it is known.

    Attributes:
      ends: number of frames of each text ``[batch]``; at first, the maximum.
      endings: what ends it, as an index of ``ENDINGS`` ``[batch]``.
      at_end: number of frames for which the attention has been at the last symbols ``[batch]``.
      repeated: number of frames that have been nearly equal to the frame before ``[batch]``.
    """

    ends: tf.Tensor
    endings: tf.Tensor
    at_end: tf.Tensor
    repeated: tf.Tensor

    @classmethod
    def before_speech(cls, limits: tf.Tensor) -> Guards:
        """Returns the state before the first frame, with the maximum number of frames of each text ``[batch]``."""
        zeros = tf.zeros_like(limits)
        return cls(limits, tf.ones_like(limits), zeros, zeros)

    def after(self, first: tf.Tensor, stops: tf.Tensor, peaks: tf.Tensor, symbols: tf.Tensor, before: tf.Tensor,
              frames: tf.Tensor, most_at_end: int | None, most_repeated: int | None) -> Guards:
        """Returns the state after a step.

        Args:
          first: number of the first frame of the step.
          stops: logits of the stop tokens of its frames ``[batch, frames]``.
          peaks: position of the largest attention weight ``[batch]``.
          symbols: lengths of the texts without symbols of padding ``[batch]``.
          before: the last frame of the step before ``[batch, features]``.
          frames: the frames of the step ``[batch, frames, features]``.
          most_at_end: number of frames after which attention to the last two symbols ends the text; None: any.
          most_repeated: number of repeated frames that ends the text, and that is cut off; None: any.
        """
        per_step = tf.shape(stops)[1]
        positions = first + tf.range(1, per_step + 1)
        stopped = tf.reduce_min(tf.where(stops > 0.0, positions, tf.int32.max), 1)
        ends, endings = _earlier(self.ends, self.endings, stopped, 0)
        at_end = tf.where(peaks >= symbols - _LAST_SYMBOLS, self.at_end + per_step, 0)
        earlier = tf.concat([before[:, tf.newaxis], frames[:, :-1]], 1)
        equal = tf.reduce_all(tf.reduce_mean(tf.abs(frames - earlier), -1) < _EQUAL, 1)
        repeated = tf.where(equal, self.repeated + per_step, 0)
        # A text that has ended is not cut afterwards, whatever it is batched with.
        lasts = self.ends > first
        if most_at_end is not None:
            is_over = lasts & (at_end >= most_at_end)
            ends, endings = _earlier(ends, endings, tf.where(is_over, first + per_step, tf.int32.max), 2)
        if most_repeated is not None:
            start = tf.maximum(first + per_step - repeated, 1)
            is_over = lasts & (repeated >= most_repeated)
            ends, endings = _earlier(ends, endings, tf.where(is_over, start, tf.int32.max), 3)
        return Guards(ends, endings, at_end, repeated)


def _earlier(ends: tf.Tensor, endings: tf.Tensor, others: tf.Tensor, ending: int) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.minimum(ends, others), tf.where(others < ends, ending, endings)
