"""Augmentation of training audio: speed, noise, masks, drawn anew for each example in each epoch.

Random numbers depend only on (seed, example, epoch), so they do not change in a resumed run, or with the number of
processes or the order of work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.config.params import Param, check_params
from open_seq2seq.data.audio.audio_files import resampled
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError

PARAMS = {
    "speed_perturbation_ratio": Param((float, list, type(None)), None, "Number r: the length is multiplied by a factor "
                                      "between 1 - r and 1 + r, and the pitch falls with it; list: by one of these."),
    "noise_level_min": Param((int, type(None)), None, "Least level of white noise, of a peak of 1.", "dB",
                             minimum=-1000, maximum=100),
    "noise_level_max": Param((int, type(None)), None, "Level that noise stays below.", "dB",
                             minimum=-1000, maximum=100),
    "n_freq_mask": Param(int, 0, "Bands of features set to zero (SpecAugment).", minimum=0, maximum=1000),
    "width_freq_mask": Param(int, 10, "Widest band.", "features", minimum=0),
    "n_time_mask": Param(int, 0, "Spans of time set to zero (SpecAugment).", minimum=0, maximum=1000),
    "width_time_mask": Param(int, 50, "Longest span.", "frames", minimum=0, maximum=10**6),
}
_OLD_NAME = "time_stretch_ratio"
# One stream of random numbers for each purpose, so that the purposes are independent.
_SPEED, _NOISE, _DITHER, _MASKS = range(4)


class Draw:
    """The random numbers of one example in one epoch."""

    def __init__(self, seed: int, example: int, epoch: int) -> None:
        self._entropy = (seed & (2 ** 64 - 1), epoch, example)

    def stream(self, purpose: int) -> np.random.Generator:
        """Returns the generator for one purpose."""
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([*self._entropy, purpose])))


@dataclass(frozen=True)
class Augmentation:
    """The augmentation of training audio.

    Attributes:
      speed_range: least and largest factor of the length, or None.
      speeds: factors to choose from, or ().
      noise_levels: least and largest level of noise in dB, the latter excluded, or None.
      freq_masks: number of masked bands, and the largest width.
      time_masks: number of masked spans, and the largest length.
      dither: amplitude of weak noise that is always added.
    """

    speed_range: tuple[float, float] | None = None
    speeds: tuple[float, ...] = ()
    noise_levels: tuple[int, int] | None = None
    freq_masks: tuple[int, int] = (0, 0)
    time_masks: tuple[int, int] = (0, 0)
    dither: float = 0.0

    @property
    def changes_length(self) -> bool:
        """Whether speed is perturbed."""
        return bool(self.speeds or self.speed_range)

    @property
    def changes_audio(self) -> bool:
        """Whether audio is changed before features are computed from it."""
        return self.changes_length or self.noise_levels is not None or self.dither > 0

    @property
    def num_masks(self) -> int:
        """Number of masks of an example."""
        return self.freq_masks[0] + self.time_masks[0]

    @property
    def longest(self) -> float:
        """The largest factor of the length."""
        return max([1.0, *self.speeds, *(self.speed_range or ())])

    @property
    def shortest(self) -> float:
        """The smallest factor of the length."""
        return min([*self.speeds, *(self.speed_range or ())], default=1.0)

    def perturb_speed(self, audio: np.ndarray, draw: Draw) -> np.ndarray:
        """Returns audio ``[samples]``, made longer or shorter by resampling."""
        if not self.changes_length:
            return audio
        random = draw.stream(_SPEED)
        factor = random.choice(self.speeds) if self.speeds else random.uniform(*self.speed_range)  # type: ignore[misc]
        return resampled(audio, 1.0, float(factor), int(stretched_length(len(audio), float(factor))))

    def add_noise(self, audio: np.ndarray, draw: Draw) -> np.ndarray:
        """Returns audio ``[samples]`` with a peak of 1 plus noise and dither."""
        if self.noise_levels is not None:
            random = draw.stream(_NOISE)
            level = 10.0 ** (int(random.integers(*self.noise_levels)) / 20.0)
            audio = audio + np.float32(level) * random.standard_normal(len(audio), np.float32)
        if self.dither:
            audio = audio + np.float32(self.dither) * draw.stream(_DITHER).standard_normal(len(audio), np.float32)
        return audio

    def masks(self, frames: int, features: int, draw: Draw) -> np.ndarray:
        """Returns rectangles ``[masks, 4]`` (int32): first and last frame, first and last feature, last excluded."""
        random = draw.stream(_MASKS)
        rectangles = []
        for _ in range(self.freq_masks[0]):
            begin, end = _span(random, self.freq_masks[1], features)
            rectangles.append((0, frames, begin, end))
        for _ in range(self.time_masks[0]):
            begin, end = _span(random, self.time_masks[1], frames)
            rectangles.append((begin, end, 0, features))
        return np.asarray(rectangles, np.int32).reshape(-1, 4)


def stretched_length(samples: Any, factor: float) -> Any:
    """Returns the number of samples, an integer or an array, after a multiplication of the length by ``factor``."""
    return np.maximum(1, np.ceil(np.asarray(samples) * factor - 1e-6).astype(np.int64))


def apply_masks(features: np.ndarray, masks: np.ndarray) -> None:
    """Sets the rectangles ``[masks, 4]`` of features ``[frames, num_features]`` to zero, in place."""
    for first, last, low, high in masks:
        features[first:last, low:high] = 0


def make_augmentation(params: Mapping[str, Any] | None, num_features: int, dither: float, path: str) -> Augmentation:
    """Makes the augmentation that a config describes.

    Args:
      params: the parameter ``augmentation``, or None.
      num_features: columns of the features.
      dither: amplitude of weak noise.

    Raises:
      ConfigError: unknown names, or values that do not fit.
    """
    given = dict(params or {})
    if _OLD_NAME in given and "speed_perturbation_ratio" not in given:
        deco_print(f"'{path}/{_OLD_NAME}' is the old name of 'speed_perturbation_ratio' and is taken as that.")
        given["speed_perturbation_ratio"] = given.pop(_OLD_NAME)
    values, problems = check_params(given, {}, PARAMS, path)
    problems = problems or _problems(values, num_features, path)
    if problems:
        raise ConfigError(problems)
    ratio = values["speed_perturbation_ratio"]
    speeds = tuple(float(factor) for factor in ratio) if isinstance(ratio, list) else ()
    noise = values["noise_level_min"], values["noise_level_max"]
    return Augmentation(
        speed_range=(1 - ratio, 1 + ratio) if isinstance(ratio, float) and ratio else None, speeds=speeds,
        noise_levels=None if noise[0] is None else noise,
        freq_masks=(values["n_freq_mask"], values["width_freq_mask"]),
        time_masks=(values["n_time_mask"], values["width_time_mask"]), dither=dither)


def _problems(values: Mapping[str, Any], num_features: int, path: str) -> list[str]:
    found = []
    ratio, name = values["speed_perturbation_ratio"], f"'{path}/speed_perturbation_ratio'"
    if isinstance(ratio, list) and not (ratio and all(isinstance(r, (int, float)) and 0.1 <= r <= 10 for r in ratio)):
        found.append(f"{name} is {ratio} but a list has to hold factors of the length, from 0.1 to 10.")
    if isinstance(ratio, float) and not 0 <= ratio < 0.9:
        found.append(f"{name} is {ratio} but a number has to be at least 0 and below 0.9.")
    low, high = values["noise_level_min"], values["noise_level_max"]
    if (low is None) != (high is None):
        found.append(f"'{path}/noise_level_min' and 'noise_level_max' belong together: give both.")
    elif low is not None and low >= high:
        found.append(f"'{path}/noise_level_min' is {low} but has to be below noise_level_max, {high}.")
    if values["n_freq_mask"] and values["width_freq_mask"] > num_features:
        found.append(f"'{path}/width_freq_mask' is {values['width_freq_mask']} but there are only {num_features} "
                     "features.")
    return found


def _span(random: np.random.Generator, widest: int, places: int) -> tuple[int, int]:
    width = int(random.integers(min(widest, places) + 1))
    begin = int(random.integers(places - width + 1))
    return begin, begin + width
