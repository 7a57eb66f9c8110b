"""The rows of the lists of a data set of recordings: their parameters and lengths, and why some cannot be used."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.config.files import LIST
from open_seq2seq.config.params import FREE, REFUSE, Param, with_change
from open_seq2seq.data.audio.audio_files import AudioError, Segment, overlapping, read_info, resampled_length
from open_seq2seq.data.audio.feature_cache import FORMATS
from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.examination import OR_SKIP
from open_seq2seq.data.speech2text.alphabet import Alphabet, Transcripts, text_normalizer
from open_seq2seq.data.speech2text.augmentation import Draw, stretched_length
from open_seq2seq.data.speech2text.manifests import Utterance, read_manifests
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print, tracked
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.own_files import read_sealed, sealed

PATH = (str, type(None))
_REMEMBERED_FROM = 1000
"""Minimum number of recordings for a cache; reading the headers of fewer takes less than a second."""
_STAMP = 3
"""Number of columns by which a changed file is detected: size in bytes, mtime and ctime in ns."""
_COLUMNS = _STAMP + 3
"""Total number of columns: the ``_STAMP`` columns, then samples, rate and channels."""
_VERSION = "2"
"""Part of the names of cache files: lengths that another version read from the same recordings are not used."""


def recording_params() -> dict[str, Any]:
    """Returns the parameters of lists, recordings and transcripts."""
    return {
        "dataset_files": Param(list, [], "CSV files (wav_filename,wav_filesize,transcript), JSON-lines files "
                               "(audio_filepath, text, offset, duration) or LibriSpeech folders; in inference also "
                               "audio files, or folders of audio files.", file=LIST),
        "audio_root": Param(PATH, None, "Folder to which relative names of recordings refer; by default the folder of "
                            "the list, or the working directory for recordings that exist only there.",
                            on_change=FREE),
        "batch_size_unit": Param(["sentences", "frames", "seconds"], "sentences", "Unit of the batch size: sentences "
                                 "(utterances), or frames or seconds of audio, padding included."),
        "max_duration": Param((float, type(None)), -1.0, "Longer recordings are left out of training and evaluation; "
                              "-1 or None means no limit.", "seconds"),
        "min_duration": Param(float, -1.0, "Shorter recordings are left out of training and evaluation; -1 means no "
                              "limit.", "seconds"),
        "syn_enable": Param(bool, False, "Whether {} in the names of recordings in lists is replaced by one of "
                            "syn_subdirs, as of synthetic speech: in training by a random one, drawn anew in each "
                            "epoch, in evaluation by the first. Inference replaces nothing."),
        "syn_subdirs": Param(list, [], "With syn_enable: the folders that contain a variant of each recording."),
        "augmentation": Param((dict, type(None)), None, "Random speed, noise and masks for training audio, drawn anew "
                              "in each epoch; see docs/speech-recognition.md."),
        "on_bad_example": Param(["stop", "skip"], "stop", "What to do with an example whose recording or transcript "
                                "cannot be used: stop the run, or skip the example. Bad examples are reported with "
                                "file and line."),
        "convert_audio": Param(bool, True, "Whether to resample recordings of another rate and average several "
                               "channels; if False, such recordings are bad examples."),
        "encoder_stride": Param((int, type(None)), None, "Number of frames per encoder step; by default taken from the "
                                "model. Utterances whose label needs more CTC steps than the encoder makes are bad "
                                "examples.", "frames", minimum=1),
        "map_parallel_calls": Param(int, 8, "Number of threads that read recordings and compute features.", "threads",
                                    minimum=1, maximum=1024, on_change=FREE),
        "prefetch_buffer_size": Param((int, type(None)), None, "Number of batches to make in advance; 8 if None or "
                                      "not positive.", "batches", maximum=10**4, on_change=FREE),
        "bpe": Param(bool, False, "Whether vocab_file is a SentencePiece model.", on_change=REFUSE),
        "autoregressive": Param(bool, False, "Whether to add <S> and </S> to the alphabet and end targets with </S>, "
                                "as decoders with attention require.", on_change=REFUSE),
        "lower_case": Param(bool, False, "Whether to convert transcripts to lower case."),
        "unicode_form": Param([None, "NFC", "NFD", "NFKC", "NFKD"], None, "Unicode normalisation of "
                              "transcripts; None for the form of the alphabet's characters."),
        "remove_characters": Param(str, "", "Characters to remove from transcripts, such as punctuation."),
    }


def cache_params() -> dict[str, Any]:
    """Returns the parameters of caches."""
    return with_change(FREE, {
        "cache_features": Param(bool, False, "Whether to cache features on disk. Decoded audio is cached instead if "
                                "augmentation or dither changes it, or the backend is tf."),
        "cache_format": Param(list(FORMATS), "npy", "File format of the cache."),
        "cache_regenerate": Param(bool, False, "Whether to overwrite the cached files of earlier runs."),
        "cache_dir": Param(PATH, None, "Folder for cached features, and for the cached lengths of large data sets; by "
                           "default .os2s_cache beside the first list."),
    })


def check_data_params(params: Mapping[str, Any], mode: str, path: str) -> None:
    """Checks the parameters that do not concern features.

    Raises:
      ConfigError: parameters are invalid; the error lists all problems found.
    """
    problems = []
    if not params["dataset_files"] and mode != "interactive_infer":
        problems.append(f"'{path}/dataset_files' is missing: name the lists of recordings.")
    if not all(isinstance(name, str) and name for name in params["dataset_files"]):
        problems.append(f"'{path}/dataset_files' must be a list of file names.")
    if params["syn_enable"] and not (params["syn_subdirs"] and all(
            isinstance(name, str) and name for name in params["syn_subdirs"])):
        problems.append(f"'{path}/syn_enable' is True, but '{path}/syn_subdirs' is no list of folders: name the "
                        "folders that replace {} in the names of recordings.")
    least, most = params["min_duration"], params["max_duration"]
    if most is not None and 0 <= most < least:
        problems.append(f"'{path}/min_duration' is {least}, but must not exceed max_duration, which is {most}.")
    if problems:
        raise ConfigError(problems)


class AudioIndex:
    """Headers of the recordings of a data set.

    Args:
      paths: the recordings.
      folder: folder for the cache file of a large data set; None for no cache, as in inference. Recordings whose size,
        mtime or ctime has changed are read again. A folder that cannot be written is not an error.
      threads: maximum number of files to read in parallel.

    Attributes:
      samples: number of samples of each file at the file's own rate ``[files]``; 0 if the file cannot be read.
      rates: sampling rate of each file in Hz ``[files]``.
      channels: number of channels of each file ``[files]``.
      errors: dict of file index → error, for files that cannot be read.
    """

    def __init__(self, paths: Sequence[str], folder: str | None, threads: int) -> None:
        self.errors: dict[int, AudioError] = {}
        folder = folder if len(paths) >= _REMEMBERED_FROM else None
        cached = None if folder is None else self._remembered(paths, folder)
        table = np.zeros([len(paths), _COLUMNS], np.int64)

        def look(number: int) -> None:
            stamp = _stamp(paths[number])
            if cached is not None and stamp is not None and tuple(cached[number, :_STAMP]) == stamp \
                    and cached[number, _STAMP + 1]:
                table[number] = cached[number]
                return
            try:
                info = read_info(paths[number])
            except AudioError as error:
                self.errors[number] = error
                return
            table[number] = (*(stamp or (0,) * _STAMP), info.samples, info.rate, info.channels)

        numbers: dict[str, int] = {}  # a recording may occur many times, if examples are segments of it
        for number, path in enumerate(paths):
            numbers.setdefault(path, number)
        with ThreadPoolExecutor(min(threads, os.cpu_count() or 1), "audio-index") as pool:
            for _ in tracked(pool.map(look, numbers.values(), chunksize=64), len(numbers), "Reading audio headers"):
                pass
        first = np.asarray([numbers[path] for path in paths], np.int64)
        table = table[first]
        self.errors = {number: self.errors[one] for number, one in enumerate(first.tolist()) if one in self.errors}
        self.samples, self.rates, self.channels = table[:, _STAMP:].T
        if folder is not None and (cached is None or not np.array_equal(table, cached)):
            self._remember(paths, folder, table)

    def take(self, numbers: Sequence[int]) -> None:
        """Keeps the files with these indices, in this order; an index may occur several times."""
        self.samples, self.rates, self.channels = (column[numbers] for column in (self.samples, self.rates,
                                                                                  self.channels))
        self.errors = {place: self.errors[one] for place, one in enumerate(numbers) if one in self.errors}

    @staticmethod
    def _file(paths: Sequence[str], folder: str) -> str:
        digest = hashlib.sha256("\n".join([_VERSION, *paths]).encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(folder, f"lengths-{digest[:16]}.npy")

    def _remembered(self, paths: Sequence[str], folder: str) -> np.ndarray | None:
        path = self._file(paths, folder)
        if not os.path.lexists(path):
            return None
        with contextlib.suppress(OSError, ValueError, EOFError, MemoryError):
            table = np.load(io.BytesIO(read_sealed(path) or b""), allow_pickle=False)
            if table.shape == (len(paths), _COLUMNS) and table.dtype == np.int64 and np.all(table >= 0):
                return table
        deco_print(f"The cache file {path} is damaged: reading the headers of {len(paths):,} recordings again.")
        return None

    def _remember(self, paths: Sequence[str], folder: str, table: np.ndarray) -> None:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            content = io.BytesIO()
            np.save(content, table, allow_pickle=False)
            with disk.writing(self._file(paths, folder), disk.always) as file:
                file.write(sealed(content.getvalue()))


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # the file does not exist, or its name is invalid
        return None
    latest = np.iinfo(np.int64).max  # int64 represents times until 2262; a wrong clock can produce later ones
    return status.st_size, min(status.st_mtime_ns, latest), min(status.st_ctime_ns, latest)


StepsOf = Callable[[np.ndarray], np.ndarray]
_ROUNDING = 0.01
"""A segment that ends at most this long before its recording, in seconds, and begins with it, is all of it."""
LATEST_END = 0.2
"""A segment may end this long after its recording, in seconds: durations of MP3 files may include padding."""
_SHOWN = 20
"""Maximum number of bad examples that a message names; the others are only counted."""


@dataclass(frozen=True)
class Problem:
    """Why an example cannot be used.

    Attributes:
      place: the list and line of the example.
      name: name of the recording in the list.
      kind: the problem in a few words; examples are counted by kind.
      detail: the problem as the predicate of a sentence about the recording, such as ``is an empty file``.
    """

    place: str
    name: str
    kind: str
    detail: str

    def __str__(self) -> str:
        # For a recording that is not in a list, the place is the path, which ends with the name.
        return f"{self.place} {self.detail}" if self.place.endswith(self.name) else (
            f"{self.place}: {self.name} {self.detail}")


class Recordings:
    """The rows of a data set's lists, and the selection of rows that are usable as examples.

    Args:
      params: the parameters of the data layer.
      mode: ``train``, ``eval`` or ``infer``; inference needs no transcripts and ignores limits on the duration.
      alphabet: the alphabet of the transcripts.
      settings: the feature settings.

    Attributes:
      utterances: the rows of all lists, numbered from 0 in this order.
      index: the headers of the recordings ``[rows]``.
      rows: row number of each example ``[examples]``; of several variants, that of the first.
      segments: dict of row → segment, for rows that are not whole recordings.
      samples: number of samples of each row at the sampling rate of the features ``[rows]``.
      frames: number of frames of each row ``[rows]``.
      transcripts: the transcripts of all rows; None in inference.
      dropped: dict of reason → number of rows left out.
      windows: after ``divide``, for each row the number of its recording, and the second at which it starts there.

    Raises:
      DataError: a list cannot be read, there are bad examples with ``on_bad_example: stop``, or no examples are left.
    """

    def __init__(self, params: Mapping[str, Any], mode: str, alphabet: Alphabet, settings: FeatureSettings) -> None:
        self._params, self._mode, self._settings = params, mode, settings
        self._labelled = mode in ("train", "eval")
        self.utterances = read_manifests(params["dataset_files"], params["audio_root"], self._labelled,
                                         _subfolders(params, mode))
        self._variants = np.asarray([utterance.variants for utterance in self.utterances], np.int64)
        self.index = AudioIndex([u.path for u in self.utterances],
                                cache_folder(params) if self._labelled else None,
                                params["map_parallel_calls"])
        self._outside: dict[int, tuple[str, str]] = {}
        self.segments = dict(self._find_segments())
        self.windows: list[tuple[int, float]] = []
        self._measure()
        self.transcripts: Transcripts | None = None
        if self._labelled:
            normalize = text_normalizer(params)
            texts = [None if u.text is None else alphabet.spelled(normalize(u.text)) for u in self.utterances]
            self.transcripts = Transcripts(texts, alphabet)
        self.dropped: dict[str, int] = {}
        self.rows = np.flatnonzero(self._variants)
        self._leave_out(self._header_problems(settings))
        self._limit_durations(settings.sample_freq)
        self._say_conversions(settings.sample_freq)

    def _measure(self) -> None:
        lengths = self.index.samples.copy()
        lengths[list(self.segments)] = [stop - start for start, stop in self.segments.values()]
        self.samples = resampled_length(lengths, np.maximum(self.index.rates, 1), self._settings.sample_freq)
        self.frames = self._settings.num_frames(self.samples)

    def divide(self, seconds: int) -> None:
        """Replaces the rows of usable recordings by their overlapping windows, if any is longer; see ``windows``.

        Args:
          seconds: duration of a window.
        """
        parents, windows, segments = list[int](), list[tuple[int, float]](), dict[int, Segment]()
        for number, row in enumerate(self.rows.tolist()):
            rate = int(self.index.rates[row])
            start, stop = self.segments.get(row, (0, int(self.index.samples[row])))
            found = overlapping(stop - start, rate, seconds)
            for begin, end in found:
                if len(found) > 1 or row in self.segments:
                    segments[len(parents)] = start + begin, start + end
                parents.append(row)
                windows.append((number, begin / rate))
        if len(parents) > len(self.rows):
            self.utterances = [self.utterances[row] for row in parents]
            self.index.take(parents)
            self.rows, self.windows, self.segments = np.arange(len(parents)), windows, segments
            self._variants = np.ones(len(parents), np.int64)
            self._measure()

    @property
    def files(self) -> np.ndarray:
        """Row numbers of the recordings of all examples, with all variants ``[recordings]``."""
        counts = self._variants[self.rows]
        return np.arange(counts.sum()) + np.repeat(self.rows - _starts(counts), counts)

    @property
    def longest(self) -> np.ndarray:
        """Number of samples of each example's longest variant ``[examples]``; see ``samples``."""
        return np.maximum.reduceat(self.samples[self.files], _starts(self._variants[self.rows]))

    def drawn(self, rows: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """Returns, for row numbers of examples ``[batch]``, those of the variants that are drawn for an epoch."""
        return np.asarray([row if self._variants[row] == 1 else row + Draw(seed, row, epoch).choice(self._variants[row])
                           for row in rows.tolist()], np.int64)

    def problem(self, row: int, kind: str, detail: str) -> Problem:
        """Returns the description of a row's problem."""
        utterance = self.utterances[row]
        return Problem(utterance.place, utterance.name, kind, detail)

    def utterance(self, example: int) -> Utterance:
        """Returns the row of an example."""
        return self.utterances[int(self.rows[example])]

    def require_steps(self, stride: int, steps_of: StepsOf | None = None, shortest: float = 1.0) -> None:
        """Finds examples whose label needs more CTC steps than the encoder makes, and handles them as bad examples.

        Args:
          stride: number of frames per encoder step.
          steps_of: function from numbers of frames ``[rows]`` to numbers of encoder steps; by default
            ``frames / stride``, rounded up.
          shortest: the smallest factor by which augmentation multiplies the length of a recording.

        Raises:
          DataError: there are such examples with ``on_bad_example: stop``, or no examples are left.
        """
        if self.transcripts is None:
            return
        frames, quickest = self.frames, ""
        if shortest != 1.0:
            frames = self._settings.num_frames(stretched_length(self.samples, shortest))
            quickest = f" when augmentation multiplies its length by {shortest:g}"
        steps = -(-frames // stride) if steps_of is None else steps_of(frames)
        needed = self.transcripts.ctc_steps
        self._leave_out({int(row): (
            "label longer than its frames", f"has a label that needs {needed[row]} CTC steps, but only {steps[row]} "
            f"({frames[row]} frames{quickest}, {stride} per encoder step)")
            for row in self.files if needed[row] > steps[row]})

    def _find_segments(self) -> Iterator[tuple[int, Segment]]:
        """Yields the rows that are segments of their recordings; adds those not within them to ``_outside``."""
        for row, utterance in enumerate(self.utterances):
            begin, duration = utterance.begin, utterance.duration
            if row in self.index.errors or (not begin and duration is None):
                continue
            samples, rate = int(self.index.samples[row]), int(self.index.rates[row])
            start, stop = round(begin * rate), samples if duration is None else round((begin + duration) * rate)
            if start >= min(stop, samples) or stop > samples + LATEST_END * rate:
                self._outside[row] = ("segment outside the recording", f"has {samples / rate:.2f} s, but the row is "
                                      f"its segment from {begin:g} s to {begin + (duration or 0):g} s")
            elif start or samples - stop > _ROUNDING * rate:
                yield row, (start, min(stop, samples))

    def _header_problems(self, settings: FeatureSettings) -> dict[int, tuple[str, str]]:
        problems = {row: (error.kind, error.detail) for row, error in self.index.errors.items()} | self._outside
        if not self._params["convert_audio"]:
            for row, (rate, channels) in enumerate(zip(self.index.rates, self.index.channels, strict=True)):
                if row not in problems and rate != settings.sample_freq:
                    problems[row] = ("another rate", f"has a rate of {rate} Hz instead of {settings.sample_freq}")
                elif row not in problems and channels > 1:
                    problems[row] = ("several channels", f"has {channels} channels instead of one")
        if self.transcripts is not None:
            problems = {**self.transcripts.problems, **self._duplicates(), **problems}
        return dict(sorted(problems.items()))

    def _duplicates(self) -> dict[int, tuple[str, str]]:
        """Returns a dict of row → problem, for recordings or segments that are repeated within one list.

        The same recording in two lists is allowed, and so is a list that is given twice to use its recordings twice.
        With ``on_bad_example: stop``, a row whose transcript is repeated, too, is used again, and only a warning.
        """
        problems: dict[int, tuple[str, str]] = {}
        repeated: list[str] = []
        seen: dict[tuple[Any, ...], Utterance] = {}
        for row, utterance in enumerate(self.utterances):
            key = (utterance.source, os.path.normpath(utterance.path), utterance.begin, utterance.duration)
            first = seen.setdefault(key, utterance)
            if first.line >= utterance.line:
                continue
            if utterance.text == first.text and self._params["on_bad_example"] == "stop":
                repeated.append(f"{utterance.place} repeats line {first.line}")
            else:
                problems[row] = ("duplicate", f"is already in line {first.line} of the list")
        if repeated:
            more = f", and so do {len(repeated) - 1:,} other rows" if repeated[1:] else ""
            deco_print(f"WARNING: {repeated[0]}, with the same transcript{more}: repeated rows are used again, unless "
                       "on_bad_example is skip.")
        return problems

    def _leave_out(self, problems: Mapping[int, tuple[str, str]]) -> None:
        if not problems:
            return
        bad = [self.problem(row, *what) for row, what in problems.items()]
        if self._params["on_bad_example"] == "stop":
            raise DataError(describe_problems(bad) + f"\nFix or remove them, {OR_SKIP}")
        deco_print("Left out " + describe_problems(bad))
        for kind, count in Counter(problem.kind for problem in bad).items():
            self.dropped[kind] = self.dropped.get(kind, 0) + count
        bad_rows = np.fromiter(problems, np.int64)
        # A bad variant leaves out all of its example.
        firsts = np.maximum.accumulate(np.where(self._variants, np.arange(len(self._variants)), 0))
        self.rows = np.setdiff1d(self.rows, firsts[bad_rows])
        self._check_left()

    def _limit_durations(self, sample_freq: int) -> None:
        if not self._labelled:
            return
        starts = _starts(self._variants[self.rows])
        seconds = self.samples[self.files] / sample_freq
        least, most = self._params["min_duration"], self._params["max_duration"]
        short = np.minimum.reduceat(seconds, starts) < least
        long = np.maximum.reduceat(seconds, starts) > (np.inf if most is None or most < 0 else most)
        for reason, what in ((f"shorter than min_duration {least} s", short),
                             (f"longer than max_duration {most} s", long)):
            if np.any(what):
                self.dropped[reason] = int(np.sum(what))
                deco_print(f"Left out {self.dropped[reason]:,} recordings {reason} ({self._mode})")
        self.rows = self.rows[~(short | long)]
        self._check_left()

    def _check_left(self) -> None:
        if not len(self.rows):
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
            raise DataError(f"All {len(self.utterances)} recordings of "
                            f"{', '.join(map(shown, self._params['dataset_files']))} were left out: {reasons}.")

    def _say_conversions(self, sample_freq: int) -> None:
        rates = Counter(self.index.rates[self.files].tolist())
        rates.pop(sample_freq, None)
        if rates:
            shown = ", ".join(f"{count:,} of {rate} Hz" for rate, count in sorted(rates.items()))
            deco_print(f"Recordings resampled to {sample_freq} Hz: {shown} ({self._mode})")
        several = int(np.sum(self.index.channels[self.files] > 1))
        if several:
            deco_print(f"Channels averaged: {several:,} recordings ({self._mode})")


def _subfolders(params: Mapping[str, Any], mode: str) -> list[str]:
    """Returns the names that replace ``{}`` in the names of recordings."""
    if not params["syn_enable"] or mode not in ("train", "eval"):
        return []
    return params["syn_subdirs"] if mode == "train" else params["syn_subdirs"][:1]


def _starts(counts: np.ndarray) -> np.ndarray:
    """Returns where groups of these sizes begin."""
    return np.cumsum(counts) - counts


def describe_problems(problems: Sequence[Problem]) -> str:
    """Returns lines with the number of bad examples of each kind and the names of the first ones."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(p.kind for p in problems).items())
    lines = [f"{len(problems):,} bad example{'s' if len(problems) > 1 else ''}: {kinds}.",
             *(f"   {problem}." for problem in problems[:_SHOWN])]
    if len(problems) > _SHOWN:
        lines.append(f"   And {len(problems) - _SHOWN:,} more.")
    return "\n".join(lines)


def cache_folder(params: Mapping[str, Any]) -> str:
    """Returns the folder of a data set's caches."""
    if params["cache_dir"]:
        return params["cache_dir"]
    first = params["dataset_files"][0] if params["dataset_files"] else "."
    beside = first if os.path.isdir(first) else os.path.dirname(os.path.abspath(first))
    return os.path.join(beside, ".os2s_cache")
