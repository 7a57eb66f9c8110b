"""Base of the data layers of clips, and their parameters: recordings from lists, and their spectrograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.audio.audio_files import AudioError, is_clipped, is_silent, read_audio, resampled_length
from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings, loud_range, spectrogram
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.examination import OR_SKIP
from open_seq2seq.data.speech2text.recordings import AudioIndex, Problem, describe_problems
from open_seq2seq.data.text2speech.clips import Clip
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, DataError

RATES = {"LJ": 22050, "MAILABS": 16000}
"""Sampling rate in Hz of each data set."""
_POINTS = {"LJ": 1024, "MAILABS": 800}


def clip_params() -> dict[str, Any]:
    """Returns the optional parameters of all data layers of clips that do not concern spectrograms."""
    return {
        "dataset_location": Param(str, "", "Folder that contains the folder wavs of the recordings.", on_change=FREE),
        "duration_min": Param(int, 0, "Shorter clips are left out of training and evaluation.", "frames", minimum=0),
        "duration_max": Param((int, type(None)), 4000, "Longer clips are left out of training and evaluation; None "
                              "means no limit.", "frames", minimum=1),
        "on_bad_example": Param(["stop", "skip"], "stop", "What to do with a clip whose recording or text cannot be "
                                "used: stop the run, or leave the clip out."),
        "use_cache": Param(bool, False, "Whether to keep the spectrograms in memory after they have been computed.",
                           on_change=FREE),
        "map_parallel_calls": Param(int, 4, "Number of threads that read recordings and compute spectrograms.",
                                    "threads", minimum=1, maximum=1024, on_change=FREE),
        "prefetch_buffer_size": Param((int, type(None)), None, "Number of batches to make in advance; 8 if None or "
                                      "not positive.", "batches", maximum=10**4, on_change=FREE),
    }


def spectrogram_params() -> dict[str, Any]:
    """Returns the optional parameters of spectrograms."""
    numbers = (float, dict, type(None))
    return {
        "feature_normalize": Param(bool, False, "Whether to subtract feature_normalize_mean from features and divide "
                                   "them by feature_normalize_std.", on_change=REFUSE),
        "feature_normalize_mean": Param(float, 0.0, "Mean for feature_normalize.", on_change=REFUSE),
        "feature_normalize_std": Param(float, 1.0, "Standard deviation for feature_normalize.", above=0.0,
                                       on_change=REFUSE),
        "sample_freq": Param((int, type(None)), None, "Sampling rate; by default that of the data set.", "Hz",
                             minimum=1000, maximum=10**6, on_change=REFUSE),
        "n_fft": Param((int, type(None)), None, "Number of points of the Fourier transform; windows are n_fft / 4 "
                       "samples apart. By default that of the data set.", "samples", minimum=16, maximum=2**16,
                       on_change=REFUSE),
        "mag_power": Param((int, float), 2, "Power of magnitudes: 1 or 2.", above=0.0, maximum=8.0, on_change=REFUSE),
        "mel_type": Param(["htk", "slaney"], "htk", "Mel scale; slaney filters are normalised by area.",
                          on_change=REFUSE),
        "fmax": Param((float, type(None)), None, "Upper frequency of the mel filters; by default half the sampling "
                      "rate.", "Hz", above=0.0, on_change=REFUSE),
        "data_min": Param(numbers, 1e-5, "Lower bound of magnitudes before the logarithm; a number, or a dict with "
                          "mel and magnitude.", above=0.0, on_change={"": REFUSE}),
        "exp_mag": Param(bool, True, "With output_type both: whether magnitudes are learned without the logarithm.",
                         on_change=REFUSE),
        "trim": Param(bool, False, "Whether to remove silence from the beginning and end of recordings.",
                      on_change=REFUSE),
        "max_normalization": Param(bool, False, "Whether to scale recordings to a peak of 1.", on_change=REFUSE),
    }


def make_settings(params: Mapping[str, Any], path: str) -> SpectrogramSettings:
    """Returns the settings of the spectrograms given by a data layer's parameters.

    Raises:
      ConfigError: parameters contradict each other; the error lists all problems.
    """
    _check_output(params, path)
    problems = []
    rate = params["sample_freq"] or RATES[params["dataset"]]
    points = params["n_fft"] or _POINTS[params["dataset"]]
    count, both = params["num_audio_features"], params["output_type"] == "both"
    bins = _part(count, "magnitude")
    if points % 4:
        problems.append(f"'{path}/n_fft' is {points}, but must be a multiple of 4.")
    if params["output_type"] != "mel" and bins > points // 2 + 1:
        problems.append(f"'{path}/num_audio_features' is {bins} magnitudes, but n_fft {points} gives only "
                        f"{points // 2 + 1}.")
    if params["fmax"] is not None and params["fmax"] > rate / 2:
        problems.append(f"'{path}/fmax' is {params['fmax']:g} Hz, but half the sampling rate is {rate / 2:g} Hz.")
    if problems:
        raise ConfigError(problems)
    normalized = params["feature_normalize"]
    return SpectrogramSettings(
        num_mels=_part(count, "mel"), num_bins=bins, sample_freq=rate, n_fft=points,
        exp_mag=params["exp_mag"] and both, mean=params["feature_normalize_mean"] if normalized else 0.0,
        std_dev=params["feature_normalize_std"] if normalized else 1.0,
        **{name: params[name] for name in ("output_type", "mag_power", "mel_type", "fmax", "data_min")})


def _part(count: Any, kind: str) -> int:
    return count.get(kind, 0) if isinstance(count, Mapping) else count


def _check_output(params: Mapping[str, Any], path: str) -> None:
    """Raises ConfigError if parameters do not suit the output type."""
    kind, problems = params["output_type"], []
    for name in ("num_audio_features", "data_min"):
        value = params[name]
        needed = {"mel", "magnitude"} if kind == "both" else {kind}
        if isinstance(value, Mapping) and not needed <= set(value) <= {"mel", "magnitude"}:
            keys = "the keys mel and magnitude" if kind == "both" else f"the key {kind}"
            problems.append(f"'{path}/{name}' must have {keys}, got {list(value)}.")
    if kind == "both" and not isinstance(params["num_audio_features"], Mapping):
        problems.append(f"'{path}/num_audio_features' must be a dict with mel and magnitude for output_type both.")
    if kind == "both" and params["feature_normalize"]:
        problems.append(f"'{path}/feature_normalize' must be False for output_type both.")
    if kind == "magnitude" and params.get("style_input"):
        problems.append(f"'{path}/style_input' needs mel spectrograms: set output_type to mel or both.")
    if problems:
        raise ConfigError(problems)


class Recorded(NamedTuple):
    """What is computed from one recording.

    Attributes:
      spectrogram: ``[frames, features]``, without padding.
      start: seconds that were trimmed from the beginning.
      clipped: whether the recording was too loud for its format.
      audio: ``[samples]``, of data layers with ``keeps_audio``; otherwise empty.
    """

    spectrogram: np.ndarray
    start: float
    clipped: bool
    audio: np.ndarray


def padded(rows: Sequence[np.ndarray], padding: np.ndarray) -> list[np.ndarray]:
    """Returns rows ``[time, …]`` as an array ``[batch, time, …]`` in the dtype of ``padding``, and their lengths.

    Args:
      rows: the arrays.
      padding: the values of a step of padding ``[…]``.
    """
    lengths = np.asarray([len(row) for row in rows], np.int32)
    values = np.broadcast_to(padding, [len(rows), lengths.max(initial=0), *padding.shape]).copy()
    for row, one in enumerate(rows):
        values[row, :len(one)] = one
    return [values, lengths]


class ClipDataLayer(DataLayer):
    """Base of data layers whose examples are clips: recordings from lists, with their spectrograms.

    Subclasses define ``_read_lists``, and call ``_open_lists`` at the end of their constructors.

    Attributes:
      keeps_audio: whether what is computed from a recording includes its samples.
      settings: the settings of the spectrograms.

    Raises:
      ConfigError: parameters contradict each other.
    """

    length_limit = "duration_max"
    keeps_audio = False

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self.settings = make_settings(self.params, self.params_path)
        self._cache: dict[int, Recorded] = {}
        self._dropped: dict[str, int] = {}
        self._bad: dict[int, Problem] = {}
        self._clips: list[Clip] = []
        self._frames = np.zeros([0], np.int64)
        self._rates = np.zeros([0], np.int64)

    def _open_lists(self) -> None:
        """Reads the lists, unless inference is interactive."""
        files = self.params["dataset_files"]
        if self.mode == "interactive_infer":
            return
        if not files or not all(isinstance(name, str) and name for name in files):
            raise ConfigError([f"'{self.params_path}/dataset_files' must name at least one list of clips."])
        _ = self.fingerprints  # computed before the lists are read, to detect later changes
        self._read_lists()

    def _read_lists(self) -> None:
        """Sets ``_clips``, ``_frames`` and ``_rates``."""
        raise NotImplementedError("A data layer of clips must define _read_lists.")

    def _read_headers(self, clips: Sequence[Clip], problems: dict[int, Problem]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of samples of each recording at the rate of the settings, and its own rate in Hz.

        Both are 0 for clips without a recording. Recordings that cannot be read are added to ``problems``.
        """
        named = [row for row, clip in enumerate(clips) if clip.path or self._has_targets]
        index = AudioIndex([clips[row].path or clips[row].name for row in named], None,
                           self.params["map_parallel_calls"])
        for number, error in index.errors.items():
            clip = clips[named[number]]
            problems[named[number]] = Problem(clip.place, clip.name, error.kind, error.detail)
        samples, rates = np.zeros([2, len(clips)], np.int64)
        samples[named] = resampled_length(index.samples, np.maximum(index.rates, 1), self.settings.sample_freq)
        rates[named] = index.rates
        return samples, rates

    def _report(self, problems: Mapping[int, Problem]) -> None:
        """Raises DataError if there are problems and bad examples stop the run; otherwise counts them."""
        listed = list(problems.values())
        if listed and self.params["on_bad_example"] == "stop":
            raise DataError(describe_problems(listed) + f"\nFix or remove them, {OR_SKIP}")
        for problem in listed:
            self._dropped[problem.kind] = self._dropped.get(problem.kind, 0) + 1

    def _within_durations(self, rows: Sequence[int], frames: np.ndarray) -> list[int]:
        """Returns the rows of clips with a number of frames within the limits, in their order."""
        most = np.inf if self.params["duration_max"] is None else self.params["duration_max"]
        kept = [row for row in rows if self.params["duration_min"] <= frames[row] <= most]
        if len(kept) < len(rows):
            self._dropped["outside duration_min and duration_max"] = len(rows) - len(kept)
        return kept

    def _check_left(self, rows: Sequence[int], problems: Mapping[int, Problem]) -> None:
        """Raises DataError if no clips are left."""
        if not rows:
            raise DataError(f"No clips of {', '.join(self.params['dataset_files'])} are left. "
                            + describe_problems(list(problems.values())))

    @property
    def num_examples(self) -> int:
        return len(self._clips)

    def _recorded_of(self, examples: np.ndarray) -> tuple[list[int], list[Recorded]]:
        """Returns the rows of the clips whose recordings can be used, and what is computed from these.

        Raises:
          DataError: a recording cannot be used; with ``on_bad_example: skip``, only if those of all clips are bad.
        """
        computed = list(self._workers.map(lambda example: self._tried(int(example)), examples))
        good = [row for row, values in enumerate(computed) if not isinstance(values, AudioError)]
        for row in sorted({*range(len(examples))} - {*good}):
            self._skip(int(examples[row]), computed[row])  # type: ignore[arg-type]
        return good, [computed[row] for row in good]  # type: ignore[misc]

    def _tried(self, example: int) -> Recorded | AudioError:
        try:
            return self._recorded(example)
        except AudioError as error:
            return error

    def _recorded(self, example: int) -> Recorded:
        values = self._cache.get(example)
        if values is None:
            values = self._computed(self._clips[example].path)
            if self.params["use_cache"]:
                self._cache[example] = values
        return values

    def _computed(self, path: str) -> Recorded:
        audio, start, clipped = self._recording(path)
        return Recorded(spectrogram(audio, self.settings), start / self.settings.sample_freq, clipped,
                        audio if self.keeps_audio else audio[:0])

    def recording(self, example: int) -> np.ndarray:
        """Returns the sound ``[samples]`` of a clip, trimmed as for its spectrogram."""
        return self._recording(self._clips[example].path)[0]

    def _recording(self, path: str) -> tuple[np.ndarray, int, bool]:
        """Returns the sound ``[samples]``, the number of samples cut from its beginning, and whether it is clipped."""
        audio, start = read_audio(path, self.settings.sample_freq), 0
        if is_silent(audio):
            raise AudioError("silent", "is silent")
        clipped = is_clipped(audio)
        if self.params["trim"]:
            start, end = loud_range(audio, self.settings)
            audio = audio[start:end]
        if self.params["max_normalization"]:
            audio = audio / np.abs(audio).max()
        return audio, start, clipped

    def _skip(self, example: int, error: AudioError) -> None:
        if example in self._bad:
            return
        clip = self._clips[example]
        problem = Problem(clip.place, clip.name, error.kind, error.detail)
        if self.params["on_bad_example"] == "stop":
            raise DataError(f"{problem}. Fix or remove it, {OR_SKIP}")
        deco_print(f"Skipped {problem}")
        self._bad[example] = problem
        self._check_left(range(self.num_examples - len(self._bad)), self._bad)

    @property
    def _frame_seconds(self) -> float:
        return self.settings.hop / self.settings.sample_freq

    def examine(self) -> list[str]:
        """Computes the spectrogram of every clip, for ``--check``; returns lines about the clips.

        Raises:
          DataError: there are bad clips with ``on_bad_example: stop``, or there are only bad clips.
        """
        problems: dict[int, Problem] = {}
        clipped = []
        recorded = self._workers.map(self._tried, range(self.num_examples))
        for example, (clip, values) in enumerate(zip(self._clips, recorded, strict=True)):
            if isinstance(values, AudioError):
                problems[example] = Problem(clip.place, clip.name, values.kind, values.detail)
            elif values.clipped:
                clipped.append(clip)
        self._report(problems)
        self._check_left(range(self.num_examples - len(problems)), problems)
        hours = float(self._frames.sum()) * self._frame_seconds / 3600
        lines = [f"{self.num_examples - len(problems):,} of {self.num_examples:,} clips were read: {hours:.2f} hours"]
        if problems:
            lines.append("to be skipped: " + describe_problems(list(problems.values())))
        if clipped:
            lines.append(f"WARNING: recordings that are clipped: {len(clipped):,}, the first in {clipped[0].place} "
                         f"({clipped[0].name}); record them again at a lower level, or leave them out, for the voice "
                         "learns their distortion.")
        return lines

    def example_files(self) -> list[str]:
        return [clip.path for clip in self._clips] if self._has_targets else []

    def describe_example(self, example: int) -> str:
        clip = self._clips[example]
        return f"{clip.place} ({clip.name})" if clip.name else clip.place

    def _low_rates(self) -> list[str]:
        """Returns a line if recordings lack the high frequencies that the voice should have."""
        low = np.flatnonzero((self._rates > 0) & (self._rates < self.settings.sample_freq))
        if not self._has_targets or not len(low):
            return []
        first = self._clips[low[0]]
        return [f"WARNING: recordings with a lower rate than sample_freq, {self.settings.sample_freq:,} Hz: "
                f"{len(low):,}, the first in {first.place} ({first.name}, {self._rates[low[0]]:,} Hz); they sound "
                "muffled, so leave them out, or lower sample_freq."]

    def report_dropped(self) -> dict[str, int]:
        return dict(self._dropped)
