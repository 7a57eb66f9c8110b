"""The parameters of ``Speech2TextDataLayer``, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from open_seq2seq.config.files import ASSET, LIST
from open_seq2seq.config.params import FREE, REFUSE, Param, with_change
from open_seq2seq.data.audio.feature_cache import FORMATS
from open_seq2seq.data.audio.feature_settings import BACKENDS, INPUT_TYPES, FeatureSettings
from open_seq2seq.utils.errors import ConfigError

PATH = (str, type(None))
_NUMBERS = (float, list, np.ndarray, type(None))


def required_params() -> dict[str, Any]:
    """Returns the required parameters."""
    return {
        "num_audio_features": Param(int, doc="Columns of the features: frequencies, mel filters or coefficients.",
                                    minimum=1, maximum=10**5),
        "input_type": Param(list(INPUT_TYPES), doc="What features are.", on_change=REFUSE),
        "vocab_file": Param(str, doc="Alphabet: one character a line, in the order of their ids; with bpe a "
                            "SentencePiece model.", file=ASSET),
    }


def optional_params() -> dict[str, Any]:
    """Returns the optional parameters, without those of all data layers."""
    return {**_data_params(), **_text_params(), **_feature_params(), **with_change(FREE, _cache_params())}


def _data_params() -> dict[str, Any]:
    return {
        "dataset_files": Param(list, [], "CSV files (wav_filename,wav_filesize,transcript), JSON-lines files "
                               "(audio_filepath, text), LibriSpeech folders; in inference also audio files and folders "
                               "of them.", file=LIST),
        "audio_root": Param(PATH, None, "Folder of recordings with relative names; by default that of the list, or the "
                            "working folder.", on_change=FREE),
        "batch_size_unit": Param(["sentences", "frames", "seconds"], "sentences", "Whether the batch size counts "
                                 "utterances, or padded frames or seconds of audio."),
        "max_duration": Param(float, -1.0, "Longer recordings are left out of training and evaluation; -1 is no "
                              "limit.", "seconds"),
        "min_duration": Param(float, -1.0, "Shorter recordings are left out of training and evaluation; -1 is no "
                              "limit.", "seconds"),
        "augmentation": Param((dict, type(None)), None, "Random speed, noise and masks of training audio, new in each "
                              "epoch; see docs/speech-recognition.md."),
        "on_bad_example": Param(["stop", "skip"], "stop", "Whether the run stops at a recording or transcript that "
                                "cannot be used, or skips it; it is named and counted."),
        "convert_audio": Param(bool, True, "Whether recordings of another rate are resampled and several channels "
                               "averaged; if not, they are bad examples."),
        "encoder_stride": Param((int, type(None)), None, "Frames of an encoder step: utterances whose label needs more "
                                "CTC steps than there are, are bad examples. By default from the model.", "frames",
                                minimum=1),
        "map_parallel_calls": Param(int, 8, "Threads that read recordings and compute features.", "threads",
                                    minimum=1, maximum=1024, on_change=FREE),
        "prefetch_buffer_size": Param((int, type(None)), None, "Batches that are made in advance; by default as for "
                                      "all data layers.", "batches", maximum=10**4, on_change=FREE),
    }


def _text_params() -> dict[str, Any]:
    return {
        "bpe": Param(bool, False, "Whether vocab_file is a SentencePiece model.", on_change=REFUSE),
        "autoregressive": Param(bool, False, "Whether the alphabet has <S> and </S>, and targets end with </S>: for "
                                "decoders with attention.", on_change=REFUSE),
        "lower_case": Param(bool, False, "Whether transcripts are written in lower case."),
        "unicode_form": Param([None, "NFC", "NFD", "NFKC", "NFKD"], None, "Unicode normalisation of transcripts."),
        "remove_characters": Param(str, "", "Characters to remove from transcripts, such as punctuation."),
    }


def _feature_params() -> dict[str, Any]:
    return {
        "backend": Param(list(BACKENDS), "psf", "Definition of features: psf is that of python_speech_features, "
                         "librosa that of librosa; tf computes the same as librosa in the graph.", on_change=REFUSE),
        "sample_freq": Param(int, 16000, "Sampling rate of the audio for features.", "Hz", minimum=1, maximum=10**6,
                             on_change=REFUSE),
        "window_size": Param(float, 0.02, "Length of a window.", "seconds", above=0.0, maximum=10.0, on_change=REFUSE),
        "window_stride": Param(float, 0.01, "From one window to the next.", "seconds", above=0.0, maximum=10.0,
                               on_change=REFUSE),
        "window": Param([None, "hanning", "hamming", "none"], None, "Shape of the window; by default hanning, and none "
                        "for mfcc and logfbank of psf.", on_change=REFUSE),
        "num_fft": Param((int, type(None)), None, "Points of the Fourier transform; by default the window's for a "
                         "spectrogram, else the next power of two (psf: at least 512).", minimum=1, maximum=2**24,
                         on_change=REFUSE),
        "norm_per_feature": Param(bool, False, "Whether each feature is normalised separately.", on_change=REFUSE),
        "features_mean": Param(_NUMBERS, None, "Mean of the features, one number or one for each; by default that of "
                               "the utterance.", on_change=REFUSE),
        "features_std_dev": Param(_NUMBERS, None, "Standard deviation of the features, likewise.", on_change=REFUSE),
        "gain": Param((float, type(None)), None, "Factor of the audio, which is from -1 to 1; by default the factor "
                      "that makes its peak 1.", minimum=0.0, on_change=REFUSE),
        "dither": Param(float, 0.0, "Amplitude of white noise that is added to training audio, which has a peak of 1; "
                        "otherwise its expected power is added.", minimum=0.0),
        "pad_to": Param(int, 8, "The number of frames of a batch is padded to a multiple of this.", "frames",
                        minimum=0, maximum=10**5),
        "pad_signal": Param(bool, False, "psf only: whether each signal is padded by zeros instead, whose frames "
                            "count, as in the TensorFlow 1 toolkit.", on_change=REFUSE),
    }


def _cache_params() -> dict[str, Any]:
    return {
        "cache_features": Param(bool, False, "Whether features are cached on disk; decoded audio if it is augmented."),
        "cache_format": Param(list(FORMATS), "npy", "File format of the cache."),
        "cache_regenerate": Param(bool, False, "Whether cached files of earlier runs are written again."),
        "cache_dir": Param(PATH, None, "Folder of the cache, and of the lengths of large sets; by default .os2s_cache "
                           "beside the first list."),
    }


def make_settings(params: Mapping[str, Any], path: str) -> FeatureSettings:
    """Returns the settings of features.

    Raises:
      ConfigError: parameters that do not fit together.
    """
    def numbers(name: str) -> np.ndarray | None:
        value = params[name]
        try:
            return None if value is None else np.asarray(value, np.float64)
        except (ValueError, TypeError):
            raise ConfigError([f"'{path}/{name}' is {value!r} but has to be a number or a list of them."]) from None

    settings = FeatureSettings(
        num_features=params["num_audio_features"], std_dev=numbers("features_std_dev"), mean=numbers("features_mean"),
        **{name: params[name] for name in (
            "input_type", "backend", "sample_freq", "window_size", "window_stride", "window", "num_fft",
            "norm_per_feature", "gain", "dither", "pad_to", "pad_signal")})
    problems = settings.problems(path)
    if problems:
        raise ConfigError(problems)
    return settings


def check_data_params(params: Mapping[str, Any], mode: str, path: str) -> None:
    """Checks the parameters that are not about features.

    Raises:
      ConfigError: every problem found, together.
    """
    problems = []
    if not params["dataset_files"] and mode != "interactive_infer":
        problems.append(f"'{path}/dataset_files' is missing: name the lists of recordings.")
    if not all(isinstance(name, str) and name for name in params["dataset_files"]):
        problems.append(f"'{path}/dataset_files' has to be a list of file names.")
    least, most = params["min_duration"], params["max_duration"]
    if 0 <= most < least:
        problems.append(f"'{path}/min_duration' is {least} but has to be at most max_duration, {most}.")
    if problems:
        raise ConfigError(problems)
