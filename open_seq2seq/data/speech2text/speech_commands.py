"""The data layer for the classification of short recordings, such as spoken commands."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.audio.audio_files import (
    AUDIO_SUFFIXES,
    AudioError,
    given_audio,
    read_audio,
    read_for_inference,
    recordings_of,
    resampled,
)
from open_seq2seq.data.audio.feature_graph import power_of, reflected
from open_seq2seq.data.audio.feature_settings import htk_mel_filters
from open_seq2seq.data.audio.features import centred_power
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.examination import OR_SKIP, examined
from open_seq2seq.data.fields import Field
from open_seq2seq.data.folders import files_below
from open_seq2seq.data.image2label.image_files import number_of, read_class_file, read_rows
from open_seq2seq.data.speech2text.augmentation import Draw
from open_seq2seq.data.static_shapes import with_empty_row
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.given_files import STANDARD_INPUT, check_given, spooled_input
from open_seq2seq.utils.unicode_text import TextIds

_POINTS, _HOP = 1024, 256
_SMALLEST = 1e-5
_SEMITONES, _STRETCH, _NOISE_DB = 2, 0.2, (-90.0, -46.0)
_CHANGES, _NOISE, _SLICE = range(3)  # purposes of random numbers, for Draw.stream


def varied(audio: np.ndarray, draw: Draw) -> tuple[np.ndarray, float]:
    """Changes the length of audio ``[samples]`` by up to 20 %, and adds white noise from -90 to -46 dB.

    Returns:
      The audio, and a factor for its frequencies, which ``log_mel`` applies: a shift of pitch by up to two semitones.
      Shifts are multiples of a quarter of a semitone, so that the mel filters of every shift can be cached.
    """
    random = draw.stream(_CHANGES)
    quarters = int(random.integers(-4 * _SEMITONES, 4 * _SEMITONES + 1))
    stretch = random.uniform(1 - _STRETCH, 1 + _STRETCH)
    level = 10.0 ** (random.uniform(*_NOISE_DB) / 20)
    length = max(1, round(len(audio) * stretch))
    noise = draw.stream(_NOISE).standard_normal(length)
    return (resampled(audio, 1.0, stretch, length) + level * noise).astype(np.float32), 2.0 ** (quarters / 48)


@functools.lru_cache(maxsize=64)
def _filters(rate: int, count: int, pitch: float) -> np.ndarray:
    return htk_mel_filters(rate, _POINTS, count, pitch).T.astype(np.float32)


def log_mel(audio: np.ndarray, rate: int, num_features: int, pitch: float = 1.0) -> np.ndarray:
    """Returns the logarithm of the power in mel filters, at least log(1e-5), FP32 ``[frames, num_features]``.

    Frames of 1,024 samples are centred on multiples of 256 samples; at its ends, the signal is reflected.

    Args:
      audio: ``[samples]``, at least one.
      rate: sampling rate in Hz.
      num_features: number of filters.
      pitch: factor by which the frequencies of the signal are multiplied.
    """
    power = centred_power(audio, _POINTS, _HOP).astype(np.float32) @ _filters(rate, num_features, pitch)
    return np.log(np.maximum(power, _SMALLEST))


def fitted(features: np.ndarray, frames: int, draw: Draw | None) -> np.ndarray:
    """Returns features ``[frames, num_features]`` of fixed length.

    Args:
      features: ``[time, num_features]``.
      frames: number of frames of the result. Longer features are cut to a span of consecutive frames, and shorter ones
        padded with zeros on both sides.
      draw: random numbers for the position of the span; None for the span in the middle.
    """
    missing = frames - len(features)
    if missing < 0:
        start = -missing // 2 if draw is None else int(draw.stream(_SLICE).integers(0, 1 - missing))
        return features[start:start + frames]
    return np.pad(features, [(missing // 2, missing - missing // 2), (0, 0)])


def fitted_in_graph(waveforms: tf.Tensor, lengths: tf.Tensor, rate: int, num_features: int, frames: int) -> tf.Tensor:
    """Returns what ``fitted`` returns for the ``log_mel`` of each recording, FP32 ``[batch, frames, num_features]``.

    Args:
      waveforms: ``[batch, samples]``; padding is ignored.
      lengths: number of samples ``[batch]``.
      rate: sampling rate in Hz.
      num_features: number of filters.
      frames: number of frames.
    """
    count = 1 + lengths // _HOP
    before = tf.maximum(frames - count, 0) // 2 - tf.maximum(count - frames, 0) // 2
    numbers = tf.range(frames) - before[:, tf.newaxis]  # [batch, frames], of the frames in the recording
    samples = (numbers * _HOP - _POINTS // 2)[:, :, tf.newaxis] + tf.range(_POINTS)
    windows = tf.gather(waveforms, reflected(samples, lengths[:, tf.newaxis, tf.newaxis]), batch_dims=1)
    power = power_of(windows, np.hanning(_POINTS + 1)[:-1], _POINTS)
    values = tf.math.log(tf.maximum(tf.matmul(power, tf.constant(_filters(rate, num_features, 1.0))), _SMALLEST))
    inside = (numbers >= 0) & (numbers < count[:, tf.newaxis])
    return tf.where(inside[:, :, tf.newaxis], values, 0.0)


class SpeechCommandsDataLayer(DataLayer):
    """Short recordings and their classes, as log mel spectrograms of fixed size, for ``Image2Label``.

    The lists are CSV files without header whose rows are ``label,wav_filename``. A batch contains features
    ``[batch, audio_length, num_audio_features, 1]`` or, with the ``model_format`` jasper, features
    ``[batch, audio_length, 1, num_audio_features]`` and lengths ``[batch]``. Except in inference, it also contains
    one-hot labels ``[batch, num_labels]``.

    Raises:
      ConfigError: the parameters are invalid.
      DataError: a list is missing or cannot be used.
    """

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(self.opened_files(params), model, name, mode)
        self._rows: list[tuple[str, int, str]] = []
        self._audio: dict[str, np.ndarray] = {}  # by path, because a list can repeat recordings
        self._bad: set[int] = set()
        if self.mode != "interactive_infer":
            _ = self.fingerprints  # computed before the lists are read, to detect later changes
            self._rows = [(path, 0, "") for path in self.params["files"]] or list(self._listed())
            if not self._rows:
                raise DataError(f"'{self.params_path}/dataset_files' lists no recordings.")

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **DataLayer.get_required_params(),
            "dataset_files": Param(list, doc="CSV files without header, whose rows are label,wav_filename; labels are "
                                   "class indices from 0, or names in class_file. A file that does not exist is looked "
                                   "for in dataset_location.", file="list"),
            "dataset_location": Param(str, doc="Folder that the recordings' paths are relative to."),
            "num_audio_features": Param(int, doc="Number of mel filters.", minimum=1, maximum=4096, on_change=REFUSE),
            "audio_length": Param(int, doc="Number of frames, each 256 samples after the one before. Longer "
                                  "recordings are cut (at random positions in training, otherwise on both sides), and "
                                  "shorter ones padded with zeros on both sides.",
                                  unit="frames", minimum=1, maximum=10**6, on_change=REFUSE),
            "num_labels": Param(int, doc="Number of classes.", unit="classes", minimum=1, on_change=REFUSE),
            "model_format": Param(["jasper", "resnet"], doc="Shape of the features: for TDNNEncoder (jasper) or for an "
                                  "encoder of images (resnet).", on_change=REFUSE),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(),
            "batch_size_unit": Param(["utterances", "sentences"], "utterances", "The batch size counts recordings; the "
                                     "value sentences means the same.", on_change=FREE),
            "cache_data": Param(bool, False, "Whether to keep the decoded recordings in memory. Augmentation is not "
                                "cached, so that it differs in each epoch.", on_change=FREE),
            "augment_data": Param(bool, False, "Whether the pitch of training recordings is shifted by up to 2 "
                                  "semitones, their length changed by up to 20 %, and noise of -90 to -46 dB added."),
            "sample_freq": Param(int, 16000, "Sampling rate to which recordings are converted.", "Hz", minimum=1000,
                                 maximum=10**6, on_change=REFUSE),
            "class_file": Param((str, type(None)), None, "Text file with the name of one class per line; by default, "
                                "the names are the class indices.", file="asset", on_change=REFUSE),
            "on_bad_example": Param(["stop", "skip"], "stop", "What to do with a recording that cannot be decoded: "
                                    "stop with an error that names it, or leave it out and report it."),
            "files": Param(list, [], "Recordings without labels, for inference; --infer_files sets it.",
                           on_change=FREE),
            "map_parallel_calls": Param(int, 8, "Maximum number of threads that compute features.", "threads",
                                        minimum=1, maximum=1000, on_change=FREE),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        folder, paths = params.get("dataset_location"), params.get("dataset_files")
        if not isinstance(folder, str) or not isinstance(paths, list):
            return params
        return {**params, "dataset_files": [_found_in(folder, path) for path in paths]}

    def _listed(self) -> list[tuple[str, int, str]]:
        """Returns (path, class index, file and line of the row) of all recordings."""
        names = enumerate(self.class_names)
        numbers = TextIds({**{str(number): number for number in range(self.num_classes)},
                           **{name: number for number, name in names}}, -1)
        listed = []
        for path in self.params["dataset_files"]:
            for row in read_rows(path, "The list of recordings", ("label", "file")):
                name = os.path.join(self.params["dataset_location"], row.path)
                if not os.path.isfile(name):
                    raise DataError(f"{row.place}: the recording {shown(name)} does not exist: correct the "
                                    "line or dataset_location.")
                listed.append((name, number_of(row.label, numbers, row.place), row.place))
        return listed

    @functools.cached_property
    def class_names(self) -> list[str]:
        """Names of the classes, in the order of their indices."""
        path, count = self.params["class_file"], self.num_classes
        return [str(number) for number in range(count)] if path is None else read_class_file(path, "num_labels", count)

    @property
    def num_classes(self) -> int:
        """The parameter ``num_labels``."""
        return self.params["num_labels"]

    @property
    def encoder_params(self) -> dict[str, Any]:
        """The parameters of encoders that are determined by the shape of the features."""
        return {"num_audio_features": self.params["num_audio_features"],
                "features_as_channels": self.params["model_format"] == "jasper"}

    @property
    def num_examples(self) -> int:
        return len(self._rows)

    @property
    def fields(self) -> dict[str, Any]:
        frames, features = self.params["audio_length"], self.params["num_audio_features"]
        if self.params["model_format"] == "jasper":
            source = [Field(tf.float32, (None, frames, 1, features)), Field(tf.int32, (None,))]
        else:
            source = [Field(tf.float32, (None, frames, features, 1))]
        fields: dict[str, Any] = {"source_tensors": source, "ids": Field(tf.int64, (None,))}
        if self._has_targets:
            fields["target_tensors"] = [Field(tf.float32, (None, self.num_classes))]
        return fields

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        return self._batch(examples, None)

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        return self._batch(examples, epoch)

    def _batch(self, examples: np.ndarray, epoch: int | None) -> dict[str, Any]:
        """Returns a batch; ``epoch`` is None except in training."""
        examples = np.asarray(examples, np.int64)
        features = list(self._workers.map(lambda example: self._features(example, epoch), examples.tolist()))
        good = [place for place, item in enumerate(features) if not isinstance(item, AudioError)]
        for example, item in zip(examples, features, strict=True):
            if isinstance(item, AudioError):
                self._handle_bad(int(example), item)
        readable = examples[good]
        batch: dict[str, Any] = {"source_tensors": self._source([features[place] for place in good]), "ids": readable}
        if self._has_targets:
            labels = [self._rows[example][1] for example in readable]
            batch["target_tensors"] = [np.eye(self.num_classes, dtype=np.float32)[np.asarray(labels, np.int64)]]
        return batch if good else with_empty_row(batch, self.fields)

    def _features(self, example: int, epoch: int | None) -> Any:
        """Returns the features ``[audio_length, num_audio_features]`` of a recording, or an AudioError."""
        try:
            path = self._rows[example][0]
            audio = self._audio.get(path)
            if audio is None:
                read = read_for_inference if self.mode == "infer" else read_audio
                audio = read(path, self.params["sample_freq"])
            if self.params["cache_data"]:
                self._audio[path] = audio
        except AudioError as error:
            return error
        return self._spectrogram(audio, None if epoch is None else Draw(self.seed, example, epoch))

    def _spectrogram(self, audio: np.ndarray, draw: Draw | None) -> np.ndarray:
        pitch = 1.0
        if draw is not None and self.params["augment_data"]:
            audio, pitch = varied(audio, draw)
        values = log_mel(audio, self.params["sample_freq"], self.params["num_audio_features"], pitch)
        return fitted(values, self.params["audio_length"], draw)

    def _source(self, items: Sequence[np.ndarray]) -> list[np.ndarray]:
        frames, features = self.params["audio_length"], self.params["num_audio_features"]
        values = np.stack(items) if len(items) else np.zeros([0, frames, features], np.float32)
        if self.params["model_format"] == "jasper":
            return [values[:, :, np.newaxis], np.full(len(items), frames, np.int32)]
        return [values[..., np.newaxis]]

    def _handle_bad(self, example: int, error: AudioError) -> None:
        if example in self._bad:
            return
        if self.params["on_bad_example"] == "stop":
            raise DataError(f"{self._say(example, error)}. Fix or remove it, {OR_SKIP}")
        deco_print(f"Skipped {self._say(example, error)}.")
        self._bad.add(example)
        if len(self._bad) == self.num_examples:
            raise DataError(f"All {self.num_examples:,} recordings were skipped; the last one {error.detail}.")

    def make_interactive_batch(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Returns a batch of recordings: paths, arrays ``[samples]`` at ``sample_freq``, or pairs (array, rate in Hz).

        Raises:
          DataError: there are no recordings, or one cannot be used.
        """
        if not len(inputs):
            raise DataError("There are no recordings: pass a list of paths or arrays of samples.")
        items = [self._spectrogram(given_audio(recording, self.params["sample_freq"]), None) for recording in inputs]
        return {"source_tensors": self._source(items), "ids": np.arange(len(items))}

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns the paths of recordings of the data set."""
        return [path for path, _, _ in self._rows[:count]]

    def graph_sources(self, waveforms: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        """Returns the ``source_tensors`` of waveforms ``[batch, samples]`` with lengths ``[batch]``, in the graph."""
        frames = self.params["audio_length"]
        values = fitted_in_graph(waveforms, lengths, self.params["sample_freq"], self.params["num_audio_features"],
                                 frames)
        if self.params["model_format"] == "jasper":
            return [tf.expand_dims(values, 2), tf.fill(tf.shape(lengths), frames)]
        return [tf.expand_dims(values, -1)]

    def examine(self) -> list[str]:
        """Decodes every recording, for ``--check``.

        Raises:
          DataError: there are bad recordings with ``on_bad_example: stop``, or there are only bad recordings.
        """
        return examined(self._problem, self.num_examples, "recordings", self.params["on_bad_example"] == "skip")

    def _problem(self, example: int) -> str | None:
        try:
            read_audio(self._rows[example][0], self.params["sample_freq"])
        except AudioError as error:
            return f"{self._say(example, error)}."
        return None

    def _say(self, example: int, error: AudioError) -> str:
        return f"{self.describe_example(example)}: the recording {error.detail}"

    def example_files(self) -> Sequence[str]:
        return [] if self.params["files"] else [path for path, _, _ in self._rows]

    def describe_example(self, example: int) -> str:
        path, _, place = self._rows[example]
        return f"{place} ({shown(path)})" if place else shown(path)

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference classify the given recordings, or those in the given folders.

        Raises:
          UserError: a file does not exist, a folder has no recordings, or stdin is empty or a device.
        """
        check_given(files)
        recordings = []
        for name in files:
            inside = recordings_of(name, sorted(files_below(name))) if os.path.isdir(name) else [name]
            if not inside:
                raise UserError(f"--infer_files names {shown(name)}, a folder without recordings "
                                f"({', '.join(AUDIO_SUFFIXES)}, or another format of libsndfile): give recordings, or "
                                "folders that contain some.")
            recordings += inside
        return {"files": [spooled_input("standard-input.wav") if name == STANDARD_INPUT else name
                          for name in recordings]}


def _found_in(folder: str, path: Any) -> Any:
    """Returns a path, in a folder if the file exists only there."""
    inside = os.path.join(folder, path) if isinstance(path, str) else ""
    return inside if not os.path.isfile(str(path)) and os.path.isfile(inside) else path
