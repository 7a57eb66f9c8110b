"""The durations of symbols: seconds in aligned lists, numbers of frames in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_TOLERANCE = 4  # frames by which seconds and recordings may differ, since aligners round and leave out partial windows


def frames_of(seconds: Sequence[float], frames: int, frame_seconds: float, start: float = 0.0) -> np.ndarray:
    """Returns how many frames belong to each symbol: those whose centre is in it.

    The ends of symbols are rounded, not the durations, so errors do not accumulate. The last symbol ends with the last
    frame.

    Args:
      seconds: durations of the symbols ``[text]``, at least one.
      frames: number of frames; frame f is centred ``f * frame_seconds`` after ``start``.
      frame_seconds: seconds from one frame to the next.
      start: seconds that were cut off at the beginning of the recording.

    Returns:
      int32 ``[text]``, whose sum is ``frames``.
    """
    ends = (np.cumsum(np.asarray(seconds, np.float64)) - start) / frame_seconds
    # Without rounding, an end at the centre of a frame could come before or after it.
    bounds = np.clip(np.ceil(np.round(ends, 6)), 0, frames)
    bounds[-1] = frames
    return np.diff(bounds, prepend=0).astype(np.int32)


def mismatch(seconds: Sequence[float], recorded: float, frame_seconds: float) -> str | None:
    """Returns what is wrong, as the predicate of a sentence, if durations are not those of a recording.

    Args:
      seconds: durations of the symbols ``[text]``.
      recorded: seconds of the recording.
      frame_seconds: seconds from one frame to the next.
    """
    total = float(np.sum(seconds))
    if abs(total - recorded) <= _TOLERANCE * frame_seconds:
        return None
    return f"is {recorded:.3f} seconds long, but the durations of its symbols add up to {total:.3f} seconds"
