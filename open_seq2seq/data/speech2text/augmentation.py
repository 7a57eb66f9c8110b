"""Augmentation of training audio with random speed, noise and masks, drawn anew for each example and epoch.

Random numbers depend only on (seed, example, epoch). They stay the same when a run is resumed, and for any number of
processes and order of examples.
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
    "speed_perturbation_ratio": Param((float, list, type(None)), None, "Number r: the length is multiplied by a random "
                                      "factor from 1 - r to 1 + r; lengthening lowers the pitch. List: the "
                                      "factor is drawn from its values. None or 0 keeps the length."),
    "noise_level_min": Param((int, type(None)), None, "Smallest RMS level of the white noise; 0 dB is an RMS of 1, for "
                             "audio with a peak of 1. No noise is added if this and noise_level_max are None.", "dB",
                             minimum=-1000, maximum=100),
    "noise_level_max": Param((int, type(None)), None, "Upper bound of the noise level, exclusive.", "dB",
                             minimum=-1000, maximum=100),
    "n_freq_mask": Param(int, 0, "Number of frequency masks: bands of features set to zero (SpecAugment).", minimum=0,
                         maximum=1000),
    "width_freq_mask": Param(int, 10, "Maximum width of a frequency mask.", "features", minimum=0),
    "n_time_mask": Param(int, 0, "Number of time masks: spans of frames set to zero (SpecAugment).", minimum=0,
                         maximum=1000),
    "width_time_mask": Param(int, 50, "Maximum length of a time mask.", "frames", minimum=0, maximum=10**6),
}
_OLD_NAME = "time_stretch_ratio"
# Each purpose has its own stream of random numbers, so that the draws are independent.
_SPEED, _NOISE, _DITHER, _MASKS, _CHOICE = range(5)


class Draw:
    """The random numbers of one example in one epoch."""

    def __init__(self, seed: int, example: int, epoch: int) -> None:
        self._entropy = (seed & (2 ** 64 - 1), epoch, example)

    def stream(self, purpose: int) -> np.random.Generator:
        """Returns the random generator for one purpose, such as ``_NOISE``."""
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([*self._entropy, purpose])))

    def choice(self, number: int) -> int:
        """Returns a random number from 0 to below ``number``, for an example of which there are several variants."""
        return int(self.stream(_CHOICE).integers(number))


@dataclass(frozen=True)
class Augmentation:
    """The augmentation of training audio.

    Attributes:
      speed_range: smallest and largest factor by which the length is multiplied, or None.
      speeds: factors to draw from instead of ``speed_range``, or ().
      noise_levels: (minimum, maximum) of the noise level in dB, the maximum exclusive, or None.
      freq_masks: number of frequency masks, and their maximum width.
      time_masks: number of time masks, and their maximum length.
      dither: standard deviation of the white noise that is added to all training audio; 0 for none.
    """

    speed_range: tuple[float, float] | None = None
    speeds: tuple[float, ...] = ()
    noise_levels: tuple[int, int] | None = None
    freq_masks: tuple[int, int] = (0, 0)
    time_masks: tuple[int, int] = (0, 0)
    dither: float = 0.0

    @property
    def changes_length(self) -> bool:
        """Whether the speed is perturbed, which changes the length."""
        return bool(self.speeds or self.speed_range)

    @property
    def changes_audio(self) -> bool:
        """Whether the audio itself is changed, before features are computed."""
        return self.changes_length or self.noise_levels is not None or self.dither > 0

    @property
    def num_masks(self) -> int:
        """Number of masks for each example."""
        return self.freq_masks[0] + self.time_masks[0]

    @property
    def longest(self) -> float:
        """The largest factor by which the length is multiplied, at least 1."""
        return max([1.0, *self.speeds, *(self.speed_range or ())])

    @property
    def shortest(self) -> float:
        """The smallest factor by which the length is multiplied."""
        return min([*self.speeds, *(self.speed_range or ())], default=1.0)

    def length_factor(self, draw: Draw) -> float:
        """Returns the random factor by which the length is multiplied; 1 if the speed is not perturbed."""
        random = draw.stream(_SPEED)
        if self.speeds:
            return float(random.choice(self.speeds))
        return float(random.uniform(*self.speed_range)) if self.speed_range else 1.0

    def perturb_speed(self, audio: np.ndarray, draw: Draw) -> np.ndarray:
        """Returns audio ``[samples]`` stretched or compressed by a random factor through resampling."""
        if not self.changes_length:
            return audio
        factor = self.length_factor(draw)
        return resampled(audio, 1.0, factor, int(stretched_length(len(audio), factor)))

    def add_noise(self, audio: np.ndarray, draw: Draw) -> np.ndarray:
        """Adds noise and dither to audio ``[samples]``, whose peak is assumed to be 1."""
        if self.noise_levels is not None:
            random = draw.stream(_NOISE)
            level = 10.0 ** (int(random.integers(*self.noise_levels)) / 20.0)
            audio = audio + np.float32(level) * random.standard_normal(len(audio), np.float32)
        if self.dither:
            audio = audio + np.float32(self.dither) * draw.stream(_DITHER).standard_normal(len(audio), np.float32)
        return audio

    def masks(self, frames: int, features: int, draw: Draw) -> np.ndarray:
        """Returns random rectangles to mask, int32 ``[masks, 4]``.

        Each rectangle is (first frame, last frame + 1, first feature, last feature + 1).

        Args:
          frames: number of frames of the example.
          features: number of features per frame.
          draw: the random numbers of the example.
        """
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
    """Returns the number of samples, an integer or an array, after the length is multiplied by ``factor``."""
    return np.maximum(1, np.ceil(np.asarray(samples) * factor - 1e-6).astype(np.int64))


def apply_masks(features: np.ndarray, masks: np.ndarray) -> None:
    """Sets the rectangles ``masks`` ``[masks, 4]`` of features ``[frames, num_features]`` to zero, in place."""
    for first, last, low, high in masks:
        features[first:last, low:high] = 0


def make_augmentation(params: Mapping[str, Any] | None, num_features: int, dither: float, path: str) -> Augmentation:
    """Returns the augmentation that a config describes.

    Args:
      params: the value of the parameter ``augmentation``, or None.
      num_features: number of features per frame.
      dither: see ``Augmentation``.
      path: path of the parameter in the config, for messages.

    Raises:
      ConfigError: unknown parameters or invalid values.
    """
    given = dict(params or {})
    if _OLD_NAME in given and "speed_perturbation_ratio" not in given:
        deco_print(f"'{path}/{_OLD_NAME}' is the old name of 'speed_perturbation_ratio': its value is used; rename it.")
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
    problems = []
    ratio, name = values["speed_perturbation_ratio"], f"'{path}/speed_perturbation_ratio'"
    if isinstance(ratio, list) and not (ratio and all(isinstance(r, (int, float)) and 0.1 <= r <= 10 for r in ratio)):
        problems.append(f"{name} must be a list of factors from 0.1 to 10, got {ratio}.")
    if isinstance(ratio, float) and not 0 <= ratio < 0.9:
        problems.append(f"{name} must be at least 0 and below 0.9, got {ratio}.")
    low, high = values["noise_level_min"], values["noise_level_max"]
    if (low is None) != (high is None):
        problems.append(f"Only one of '{path}/noise_level_min' and 'noise_level_max' is set: set both or neither.")
    elif low is not None and low >= high:
        problems.append(f"'{path}/noise_level_min' is {low}, but must be below noise_level_max, which is {high}.")
    if values["n_freq_mask"] and values["width_freq_mask"] > num_features:
        problems.append(f"'{path}/width_freq_mask' is {values['width_freq_mask']}, but there are only {num_features} "
                     "features: lower width_freq_mask.")
    return problems


def _span(random: np.random.Generator, widest: int, places: int) -> tuple[int, int]:
    width = int(random.integers(min(widest, places) + 1))
    begin = int(random.integers(places - width + 1))
    return begin, begin + width
