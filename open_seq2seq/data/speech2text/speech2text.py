"""The data layer for speech recognition: recordings, which become features, and their transcripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET
from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.audio.audio_files import (
    AudioError,
    Excerpt,
    Segment,
    Window,
    given_audio,
    given_length,
    is_silent,
    read_audio,
    read_for_inference,
    windows_of_given,
)
from open_seq2seq.data.audio.feature_cache import FeatureCache
from open_seq2seq.data.audio.feature_graph import AudioFeatures, masked_features
from open_seq2seq.data.audio.feature_settings import INPUT_TYPES, FeatureSettings, feature_params, make_settings
from open_seq2seq.data.audio.features import audio_features, normalized_audio
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.examination import OR_SKIP
from open_seq2seq.data.fields import Field
from open_seq2seq.data.speech2text.alphabet import Alphabet, make_alphabet
from open_seq2seq.data.speech2text.augmentation import (
    Augmentation,
    Draw,
    apply_masks,
    make_augmentation,
    stretched_length,
)
from open_seq2seq.data.speech2text.recordings import (
    Problem,
    Recordings,
    StepsOf,
    cache_folder,
    cache_params,
    check_data_params,
    describe_problems,
    recording_params,
)
from open_seq2seq.data.static_shapes import with_empty_row
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import STANDARD_INPUT, check_given, spooled_input


class Pipeline:
    """Reads recordings, augments them, and computes features; thread-safe.

    The steps are, in this order: read and resample, perturb the speed, normalise, add noise and dither, compute
    features, apply masks. With the backend ``tf``, they end with the noise: the model's graph computes the features and
    applies the masks, which are drawn here.

    Args:
      settings: the feature settings.
      augmentation: the augmentation of training audio; None outside training.
      silence_is_bad: whether silent recordings, and channels that cancel each other out, raise an error.
      cache: stores the result of the steps before the first random step; None for no cache.
    """

    def __init__(self, settings: FeatureSettings, augmentation: Augmentation | None, silence_is_bad: bool,
                 cache: FeatureCache | None = None) -> None:
        self.settings, self.augmentation, self.cache = settings, augmentation, cache
        self._silence_is_bad = silence_is_bad
        self._caches_features = caches_features(settings, augmentation)

    def example(self, path: str, samples: int, draw: Draw, segment: Segment | None = None,
                ) -> tuple[np.ndarray, np.ndarray | None]:
        """Makes one example.

        Args:
          path: the recording.
          samples: length of the example when the data set was read, in samples at the features' sampling rate.
          draw: the random numbers of this example and epoch.
          segment: the segment of the recording to use; None for all of it.

        Returns:
          (features ``[frames, num_features]``, or audio ``[samples]`` for ``tf``; masks ``[masks, 4]`` that the graph
          has to apply, or None).

        Raises:
          AudioError: the recording cannot be used.
        """
        cached = self._cached(path, samples, segment)
        return self._masked(cached, draw) if self._caches_features else self.from_audio(cached, draw)

    def audio(self, path: str, samples: int, segment: Segment | None = None) -> np.ndarray:
        """Reads a recording, or a segment of it, and returns its audio ``[samples]`` at the features' sampling rate.

        Raises:
          AudioError: the recording cannot be used, or its length has changed since the data set was read.
        """
        read = read_audio if self._silence_is_bad else read_for_inference
        audio = read(path, self.settings.sample_freq, segment)
        if len(audio) != samples:
            raise AudioError("changed", f"has changed since this run started: it has {len(audio):,} samples at "
                             f"{self.settings.sample_freq} Hz instead of {samples:,}")
        if self._silence_is_bad and is_silent(audio):
            raise AudioError("silent", "is silent")
        return audio

    def from_audio(self, audio: np.ndarray, draw: Draw | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Makes an example from audio, in the form that ``example`` returns.

        Args:
          audio: ``[samples]`` at the features' sampling rate.
          draw: see ``example``; None for no augmentation.
        """
        settings, augmentation = self.settings, self.augmentation
        if augmentation is not None and draw is not None:
            audio = augmentation.perturb_speed(audio, draw)
        audio = normalized_audio(audio, settings.gain)
        if augmentation is not None and draw is not None:
            audio = augmentation.add_noise(audio, draw)
            if settings.backend == "psf" and settings.gain is None:
                audio = normalized_audio(audio, None)  # psf would clip a peak above 1
        if settings.backend != "tf":
            audio = audio_features(audio, settings, dither_floor=augmentation is None)
        return (audio, None) if draw is None else self._masked(audio, draw)

    def _masked(self, values: np.ndarray, draw: Draw) -> tuple[np.ndarray, np.ndarray | None]:
        settings, augmentation = self.settings, self.augmentation
        if augmentation is None or not augmentation.num_masks:
            return values, None
        in_graph = settings.backend == "tf"
        frames = int(settings.num_frames(len(values))) if in_graph else len(values)
        masks = augmentation.masks(frames, settings.num_features, draw)
        if not in_graph:
            apply_masks(values, masks)
        return values, masks if in_graph else None

    def _cached(self, path: str, samples: int, segment: Segment | None) -> np.ndarray:
        """Returns the result of the steps before the first random step, from the cache if possible."""
        cached = self.cache.load(path, segment) if self.cache is not None else None
        if cached is not None and cached.dtype == np.float32 and cached.shape == self._shape(samples):
            return cached
        audio = self.audio(path, samples, segment)
        computed = self.from_audio(audio, None)[0] if self._caches_features else audio
        # Inference, which accepts recordings that are silent or have opposite channels, does not write to the cache:
        # training and evaluation, which may share it, have to reject them and cannot recognise them in it.
        if self.cache is not None and self._silence_is_bad:
            self.cache.store(path, computed, segment)
        return computed

    def _shape(self, samples: int) -> tuple[int, ...]:
        """Returns the shape of a recording's cached array."""
        if not self._caches_features:
            return (samples,)
        return int(self.settings.num_frames(samples)), self.settings.num_features


def caches_features(settings: FeatureSettings, augmentation: Augmentation | None) -> bool:
    """Returns whether features are cached, because they are the same in all epochs; otherwise audio is cached."""
    return settings.backend != "tf" and not (augmentation is not None and augmentation.changes_audio)


class Speech2TextDataLayer(DataLayer):
    """Recordings and their transcripts, from CSV files, JSON lines or LibriSpeech folders.

    A batch contains features ``[batch, time, num_audio_features]`` and their lengths in frames ``[batch]``. With the
    backend ``tf``, it contains audio ``[batch, samples]`` and lengths in samples instead, from which the method
    ``features`` computes features and lengths in the graph. Targets are ids of the alphabet, without CTC's blank.
    Recordings of any sampling rate and number of channels are converted, unless ``convert_audio`` is False.

    Bad examples (a broken file, characters outside the alphabet, a transcript too long for its recording…) are reported
    with file and line. Depending on ``on_bad_example``, they stop the run or are left out.

    Attributes:
      alphabet: converts text to ids and back.
      settings: the feature settings.
      float_type: dtype of the features.

    Raises:
      ConfigError: the parameters are invalid or contradict each other.
      DataError: a file is missing or cannot be used, or no examples are left.
    """

    length_limit = "max_duration"

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        check_data_params(params, self.mode, path)
        self.settings = make_settings(params, path)
        augmentation = make_augmentation(params["augmentation"], params["num_audio_features"], params["dither"],
                                         f"{path}/augmentation")
        self._augmentation = augmentation if self.mode == "train" else None
        self.float_type = tf.as_dtype(params["dtype"])
        if not self.float_type.is_floating:
            raise ConfigError([f"'{path}/dtype' must be a floating-point type, got {self.float_type.name}."])
        self.alphabet: Alphabet = make_alphabet(params["vocab_file"], params["bpe"], params["autoregressive"])
        self._in_graph = AudioFeatures(self.settings) if params["backend"] == "tf" else None
        self._recordings: Recordings | None = None
        self._bad: dict[int, Problem] = {}
        if self.mode != "interactive_infer":
            _ = self.fingerprints  # computed before the lists are read, to detect later changes
            self._recordings = Recordings(params, self.mode, self.alphabet, self.settings)
            if params["encoder_stride"]:
                self._require_steps(params["encoder_stride"])
        if note := self.settings.describe_empty_filters():
            deco_print(note)
        self._pipeline = Pipeline(self.settings, self._augmentation, self._has_targets, self._cache())

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "num_audio_features": Param(int, doc="Number of features per frame: frequencies, mel filters or "
                                        "coefficients.", minimum=1, maximum=10**5),
            "input_type": Param(list(INPUT_TYPES), doc="Type of the features.", on_change=REFUSE),
            "vocab_file": Param(str, doc="The alphabet: a file with one character per line, in the order of the ids; "
                                "with bpe, a SentencePiece model.", file=ASSET),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**DataLayer.get_optional_params(), **recording_params(), **feature_params(), **cache_params()}

    def _cache(self) -> FeatureCache | None:
        params, settings = self.params, self.settings
        if not params["cache_features"] or self.mode == "interactive_infer":
            return None
        depends_on: dict[str, Any] = {"kind": "audio", "sample_freq": settings.sample_freq}
        if caches_features(settings, self._augmentation):
            values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
            values.pop("pad_to" if not settings.pad_signal else "", None)
            depends_on = {"kind": "features", **{name: value.tolist() if isinstance(value, np.ndarray) else value
                                                 for name, value in values.items()}}
        return FeatureCache(cache_folder(params), depends_on, params["cache_format"], params["cache_regenerate"])

    @property
    def batch_budget(self) -> int:
        """Maximum cost of a batch: a number of utterances, or of frames (samples for ``tf``)."""
        size, unit = super().batch_budget, self.params["batch_size_unit"]
        if unit == "sentences":
            return size
        if unit == "seconds":
            size = size * self.settings.sample_freq // self.settings.hop
        return size if self._in_graph is None else size * self.settings.hop

    def explain_too_costly(self, example: int) -> str:
        cost, unit = int(self.costs[example]), self.params["batch_size_unit"]
        if unit == "seconds":
            samples = cost if self._in_graph is not None else cost * self.settings.hop
            return self._too_costly(example, f"{samples / self.settings.sample_freq:.2f} seconds",
                                    self.params["batch_size"])
        if self._in_graph is not None:
            return self._too_costly(example, f"{cost} samples", self.batch_budget)
        return super().explain_too_costly(example)

    def require_steps_for_labels(self, stride: int, steps_of: StepsOf | None = None) -> None:
        """Finds examples whose label needs more CTC steps than the encoder makes, and handles them as bad examples.

        The model calls this method after creating its encoder. It has no effect if the parameter ``encoder_stride`` is
        set, because the constructor has then already found such examples.

        Args:
          stride: number of frames per encoder step.
          steps_of: function from numbers of frames ``[rows]`` to numbers of encoder steps; by default
            ``frames / stride``, rounded up.

        Raises:
          DataError: there are such examples with ``on_bad_example: stop``, or no examples are left.
        """
        if self.params["encoder_stride"] is None:
            self._require_steps(stride, steps_of)

    def _require_steps(self, stride: int, steps_of: StepsOf | None = None) -> None:
        if self._recordings is not None:
            shortest = 1.0 if self._augmentation is None else self._augmentation.shortest
            self._recordings.require_steps(stride, steps_of, shortest)

    @property
    def _set(self) -> Recordings:
        if self._recordings is None:
            raise DataError("Interactive inference has no data set: pass recordings to make_interactive_batch.")
        return self._recordings

    @property
    def num_examples(self) -> int:
        return len(self._set.rows)

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of frames (samples for ``tf``) and of ids ``[num_examples, 2]``.

        In inference, there are no ids, so the shape is ``[num_examples]``. Frames include padding to a multiple of
        ``pad_to``. With speed perturbation, the lengths are the maximum lengths that can be drawn.
        """
        recordings, settings = self._set, self.settings
        samples = recordings.longest
        if self._augmentation is not None:
            samples = stretched_length(samples, self._augmentation.longest)
        source = samples
        if self._in_graph is None:
            multiple = max(1, settings.pad_to)
            source = -(-settings.num_frames(samples) // multiple) * multiple
        if recordings.transcripts is None:
            return source
        return np.stack([source, recordings.transcripts.lengths[recordings.rows]], axis=1)

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        return self.make_training_batch(examples, 0)

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Returns the padded batch of these examples ``[batch]``, with the augmentation of this epoch.

        If all examples are skipped, the batch is a single empty row, so that the number of batches does not change.

        Raises:
          DataError: a recording cannot be used; with ``on_bad_example: skip``, only if all recordings of the data set
            are bad.
        """
        examples = np.asarray(examples, np.int64)
        rows = self._set.drawn(self._set.rows[examples], self.seed, epoch)
        found = list(self._workers.map(lambda row: self._example(int(row), epoch), rows))
        good = [place for place, item in enumerate(found) if not isinstance(item, AudioError)]
        if len(good) < len(found):
            self._handle_bad({int(rows[place]): item for place, item in enumerate(found)
                              if isinstance(item, AudioError)})
        # An empty batch keeps the planned width, because the encoder may need a minimum number of frames.
        least = 0 if good else int(self.lengths.reshape(self.num_examples, -1)[examples, 0].max())
        batch = {"source_tensors": self._padded([found[place] for place in good], least), "ids": examples[good]}
        if self._set.transcripts is not None:
            batch["target_tensors"] = self._set.transcripts.batch(rows[good])
        return batch if good else with_empty_row(batch, self.fields)

    def _example(self, row: int, epoch: int) -> Any:
        try:
            return self._pipeline.example(self._set.utterances[row].path, int(self._set.samples[row]),
                                          Draw(self.seed, row, epoch), self._set.segments.get(row))
        except AudioError as error:
            return error

    def _handle_bad(self, errors: Mapping[int, AudioError]) -> None:
        for row, error in errors.items():
            if row in self._bad:
                continue
            problem = self._set.problem(row, error.kind, error.detail)
            if self.params["on_bad_example"] == "stop":
                raise DataError(f"{problem}. Fix or remove it, {OR_SKIP}")
            if problem not in self._bad.values():  # the problems of a list that is named twice are printed only once
                deco_print(f"Skipped {problem}")
            self._bad[row] = problem
        if len(self._bad) == len(self._set.files):
            raise DataError("All examples were skipped. " + describe_problems(list(self._bad.values())))

    def _padded(self, items: list[tuple[np.ndarray, np.ndarray | None]], least: int = 0) -> list[np.ndarray]:
        lengths = np.asarray([len(values) for values, _ in items], np.int32)
        longest = int(lengths.max(initial=least))
        if self._in_graph is None:
            longest += -longest % max(1, self.settings.pad_to)
            padded = np.zeros([len(items), longest, self.settings.num_features], self.float_type.as_numpy_dtype)
        else:
            padded = np.zeros([len(items), longest], np.float32)
        for place, (values, _) in enumerate(items):
            padded[place, :len(values)] = values
        if not self._masks_in_graph:
            return [padded, lengths]
        masks = [mask for _, mask in items if mask is not None]
        return [padded, lengths, np.asarray(masks, np.int32).reshape(-1, self._masks_in_graph, 4)]

    @property
    def _masks_in_graph(self) -> int:
        """Number of masks per example that the graph applies."""
        return self._augmentation.num_masks if self._augmentation is not None and self._in_graph is not None else 0

    def features(self, batch: Mapping[str, Any], training: bool = False) -> list[tf.Tensor]:
        """Returns features ``[batch, time, num_audio_features]`` and their lengths in frames ``[batch]``, as tensors.

        With the backend ``tf``, this method computes them; with other backends, the batch already contains them.

        Args:
          batch: a batch of ``make_batch`` or ``make_training_batch``.
          training: whether the batch is a training batch, whose audio contains dither, and to which masks are applied.
        """
        source = list(batch["source_tensors"])
        if self._in_graph is None:
            return source[:2]
        features, lengths = self._in_graph(source[0], source[1], normalize_audio=False, dither_floor=not training)
        if training and len(source) > 2:
            features = masked_features(features, source[2])
        return [tf.cast(features, self.float_type), lengths]

    @property
    def fields(self) -> dict[str, Any]:
        lengths = Field(tf.int32, (None,))
        if self._in_graph is not None:
            source = [Field(tf.float32, (None, None), 1, 1), lengths]
            if self._masks_in_graph:
                source.append(Field(tf.int32, (None, self._masks_in_graph, 4)))
        else:
            source = [Field(self.float_type, (None, None, self.settings.num_features), 1, 1), lengths]
        fields: dict[str, Any] = {"source_tensors": source, "ids": Field(tf.int64, (None,))}
        if self._has_targets:
            fields["target_tensors"] = [Field(tf.int32, (None, None), 1, 1), lengths]
        return fields

    def make_interactive_batch(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Returns a batch of recordings: paths, arrays at ``sample_freq``, or pairs (array, rate in Hz).

        Arrays have the shape ``[samples]`` or ``[samples, channels]``.

        Raises:
          DataError: there are no recordings, or one cannot be used.
        """
        if not len(inputs):
            raise DataError("There are no recordings: pass a list of paths or arrays of samples.")
        rate = self.settings.sample_freq
        items = [self._pipeline.from_audio(given_audio(recording, rate), None) for recording in inputs]
        return {"source_tensors": self._padded(items), "ids": np.arange(len(items))}

    def interactive_lengths(self, inputs: Sequence[Any]) -> np.ndarray:
        samples = np.fromiter((given_length(recording, self.settings.sample_freq) for recording in inputs), np.int64)
        return samples if self._in_graph is not None else self.settings.num_frames(samples)

    def windows(self, given: Any, seconds: int) -> list[tuple[Any, float]]:
        """Returns the overlapping windows of a recording as recordings, and where each of them starts, in seconds.

        Args:
          given: a recording, as for ``make_interactive_batch``.
          seconds: duration of a window; 0 for the whole recording.
        """
        return windows_of_given(given, self.settings.sample_freq, seconds) if seconds else [(given, 0.0)]

    def read_in_windows(self, seconds: int) -> None:
        """Makes several examples of each recording that is longer than this: windows that overlap by a quarter."""
        self._set.divide(seconds)

    @property
    def has_windows(self) -> bool:
        """Whether some examples are windows of longer recordings."""
        return self._recordings is not None and bool(len(self._recordings.windows))

    def window_of(self, example: int) -> tuple[int, float]:
        """Returns the number of an example's recording, and the second of it at which the example starts."""
        return self._set.windows[example] if self.has_windows else (example, 0.0)

    def are_windows(self, examples: Sequence[int], inputs: Sequence[Any] | None = None) -> list[bool]:
        """Returns for each example whether it is one of several windows of a recording.

        Args:
          examples: the examples of a batch; not used in interactive inference.
          inputs: for interactive inference, the recordings of the batch.
        """
        if inputs is not None:
            return [isinstance(recording, (Excerpt, Window)) for recording in inputs]
        windows = self._set.windows if self.has_windows else []

        def has_neighbour(example: int) -> bool:
            beside = windows[max(example - 1, 0):example] + windows[example + 1:example + 2]
            return any(number == windows[example][0] for number, _ in beside)

        return [bool(windows) and has_neighbour(example) for example in examples]

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns recordings of the data set ``[samples]``."""
        return [self._audio(row) for row in self._set.rows[:count].tolist()]

    def _audio(self, row: int) -> np.ndarray:
        found = self._set
        return self._pipeline.audio(found.utterances[row].path, int(found.samples[row]), found.segments.get(row))

    def example_files(self) -> list[str]:
        return [utterance.path for utterance in self._set.utterances]

    def examine(self) -> list[str]:
        """Decodes every recording, for ``--check``; returns lines with the hours of audio and the bad examples.

        Raises:
          DataError: there are bad examples with ``on_bad_example: stop``, or there are only bad examples.
        """
        recordings = self._set
        rows = recordings.files.tolist()

        def problem(row: int) -> Problem | None:
            try:
                self._audio(row)
            except AudioError as error:
                return recordings.problem(row, error.kind, error.detail)
            return None

        bad = list(filter(None, self._workers.map(problem, rows)))
        if bad and self.params["on_bad_example"] == "stop":
            raise DataError(describe_problems(bad) + f"\nFix or remove them, {OR_SKIP}")
        if len(bad) == len(rows):
            raise DataError("No recording can be used. " + describe_problems(bad))
        hours = float(np.sum(recordings.samples[recordings.files])) / self.settings.sample_freq / 3600
        lines = [f"{len(rows) - len(bad):,} of {len(rows):,} recordings were decoded: {hours:.2f} hours in all"]
        return lines + (["to be skipped: " + describe_problems(bad)] if bad else [])

    def describe_example(self, example: int) -> str:
        utterance = self._set.utterance(example)
        return f"{utterance.place} ({utterance.name})" if utterance.line else utterance.name

    def file_name(self, example: int) -> str:
        """Returns the name that the list gives to an example's recording."""
        return self._set.utterance(example).name

    def duration(self, example: int) -> float:
        """Returns the duration of an example's recording in seconds."""
        return float(self._set.samples[self._set.rows[example]]) / self.settings.sample_freq

    def reference_text(self, example: int) -> str:
        """Returns an example's normalised transcript.

        Raises:
          DataError: the layer is used for inference, where transcripts are not read.
        """
        if self._set.transcripts is None:
            raise DataError("Transcripts are not available in inference, because they are not read.")
        return self._set.transcripts.texts[int(self._set.rows[example])] or ""

    def ids_to_text(self, ids: Any) -> str:
        """Returns the text of ids ``[time]`` up to ``</S>``; blanks are skipped."""
        return self.alphabet.decode(ids)

    def remarks(self) -> list[str]:
        """Returns lines about how the alphabet fits the transcripts."""
        transcripts = None if self.mode == "interactive_infer" else self._set.transcripts
        texts = [] if transcripts is None else transcripts.texts
        return self.alphabet.remarks(filter(None, texts), ", ".join(self.params["dataset_files"]))

    def report_dropped(self) -> dict[str, int]:
        """Returns the number of rows that were left out for each reason."""
        return dict(self._set.dropped)

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference transcribe the given recordings.

        Args:
          files: recordings, folders of recordings, or lists; ``-`` is a recording from stdin.

        Raises:
          UserError: a file does not exist, or stdin is empty or a device.
        """
        check_given(files)
        # The audio format is detected from the content, so the suffix does not matter.
        names = [spooled_input("standard-input.wav") if name == STANDARD_INPUT else name for name in files]
        # Caching is off, so that nothing is written to the user's folders.
        return {"dataset_files": names, "audio_root": None, "cache_features": False}
