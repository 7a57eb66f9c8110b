"""Parameters of ``Speech2TextDataLayer``, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from open_seq2seq.config.files import LIST
from open_seq2seq.config.params import FREE, REFUSE, Param, with_change, without_effect
from open_seq2seq.data.audio.feature_cache import FORMATS
from open_seq2seq.data.audio.feature_settings import BACKENDS, FeatureSettings
from open_seq2seq.utils.errors import ConfigError

PATH = (str, type(None))
_NUMBERS = (float, list, np.ndarray, type(None))


def optional_params() -> dict[str, Any]:
    """Returns the optional parameters, without those common to all data layers."""
    return {**_data_params(), **_text_params(), **_feature_params(), **with_change(FREE, _cache_params())}


def _data_params() -> dict[str, Any]:
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
    }


def _text_params() -> dict[str, Any]:
    return {
        "bpe": Param(bool, False, "Whether vocab_file is a SentencePiece model.", on_change=REFUSE),
        "autoregressive": Param(bool, False, "Whether to add <S> and </S> to the alphabet and end targets with </S>, "
                                "as decoders with attention require.", on_change=REFUSE),
        "lower_case": Param(bool, False, "Whether to convert transcripts to lower case."),
        "unicode_form": Param([None, "NFC", "NFD", "NFKC", "NFKD"], None, "Unicode normalisation of "
                              "transcripts; None for the form of the alphabet's characters."),
        "remove_characters": Param(str, "", "Characters to remove from transcripts, such as punctuation."),
    }


def _feature_params() -> dict[str, Any]:
    return {
        "backend": Param(list(BACKENDS), "psf", "Definition of the features. psf: that of python_speech_features; "
                         "librosa: that of librosa; tf: the same features as librosa, computed in the TensorFlow "
                         "graph.", on_change=REFUSE),
        "sample_freq": Param(int, 16000, "Sampling rate of the audio that features are computed from.", "Hz", minimum=1,
                             maximum=10**6, on_change=REFUSE),
        "window_size": Param(float, 0.02, "Length of a window.", "seconds", above=0.0, maximum=10.0, on_change=REFUSE),
        "window_stride": Param(float, 0.01, "Time from the start of one window to the start of the next.", "seconds",
                               above=0.0, maximum=10.0, on_change=REFUSE),
        "window": Param([None, "hanning", "hamming", "none"], None, "Window function; by default none for mfcc and "
                        "logfbank of psf, and hanning otherwise.", on_change=REFUSE),
        "num_fft": Param((int, type(None)), None, "Number of points of the Fourier transform; by default the number of "
                         "samples in a window for spectrograms, otherwise the next power of two (psf: at least 512).",
                         minimum=1, maximum=2**24, on_change=REFUSE),
        "norm_per_feature": Param(bool, False, "Whether to normalise each feature separately.", on_change=REFUSE),
        "features_mean": Param(_NUMBERS, None, "Mean to subtract from the features: one number, or one for each "
                               "feature; by default the mean of each utterance.", on_change=REFUSE),
        "features_std_dev": Param(_NUMBERS, None, "Standard deviation to divide the features by: one number, or one "
                                  "for each feature; by default that of each utterance.", on_change=REFUSE),
        "gain": Param((float, type(None)), None, "Factor by which to multiply the audio, whose samples are from -1 to "
                      "1; by default the factor that makes the peak 1.", minimum=0.0, on_change=REFUSE),
        "dither": Param(float, 0.0, "Standard deviation of the white noise that is added to training audio after its "
                        "normalisation, usually to a peak of 1. In evaluation and inference, the expected power of the "
                        "noise is added instead.", minimum=0.0),
        "pad_to": Param(int, 8, "The number of frames of a batch is padded to a multiple of this value; 0 or 1 adds "
                        "no padding.", "frames", minimum=0, maximum=10**5),
        **without_effect("precompute_mel_basis", reason=", because the mel filters are always computed in advance"),
        "pad_signal": Param(bool, False, "For psf only: whether to pad each signal with zeros instead of the features. "
                            "The padding's frames then count as part of the utterance, as in NVIDIA's "
                            "OpenSeq2Seq.", on_change=REFUSE),
    }


def _cache_params() -> dict[str, Any]:
    return {
        "cache_features": Param(bool, False, "Whether to cache features on disk. Decoded audio is cached instead if "
                                "augmentation or dither changes it, or the backend is tf."),
        "cache_format": Param(list(FORMATS), "npy", "File format of the cache."),
        "cache_regenerate": Param(bool, False, "Whether to overwrite the cached files of earlier runs."),
        "cache_dir": Param(PATH, None, "Folder for cached features, and for the cached lengths of large data sets; by "
                           "default .os2s_cache beside the first list."),
    }


def make_settings(params: Mapping[str, Any], path: str) -> FeatureSettings:
    """Returns the feature settings given by a data layer's parameters.

    Raises:
      ConfigError: the parameters are invalid or contradict each other.
    """
    def numbers(name: str) -> np.ndarray | None:
        value = params[name]
        try:
            return None if value is None else np.asarray(value, np.float64)
        except (ValueError, TypeError):
            raise ConfigError([f"'{path}/{name}' must be a number or a list of numbers, got {value!r}."]) from None

    settings = FeatureSettings(
        num_features=params["num_audio_features"], std_dev=numbers("features_std_dev"), mean=numbers("features_mean"),
        **{name: params[name] for name in (
            "input_type", "backend", "sample_freq", "window_size", "window_stride", "window", "num_fft",
            "norm_per_feature", "gain", "dither", "pad_to")},
        pad_signal=params["pad_signal"] and params["backend"] == "psf")
    problems = settings.problems(path)
    if problems:
        raise ConfigError(problems)
    return settings


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
