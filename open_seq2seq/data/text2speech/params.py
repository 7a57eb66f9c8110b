"""Parameters of the data layers for speech synthesis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.config.files import ASSET, LIST
from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings
from open_seq2seq.utils.errors import ConfigError

RATES = {"LJ": 22050, "MAILABS": 16000}
"""Sampling rate in Hz of each data set."""
_POINTS = {"LJ": 1024, "MAILABS": 800}


def required_params() -> dict[str, Any]:
    """Returns the required parameters."""
    return {
        "dataset": Param(list(RATES), doc="Layout and defaults of the recordings. LJ: 22,050 Hz, n_fft 1024. MAILABS: "
                         "16,000 Hz, n_fft 800.", on_change=REFUSE),
        "num_audio_features": Param((int, dict), doc="Number of features per frame, or a dict with mel and magnitude, "
                                    "which output_type both needs.", minimum=1, maximum=10**5, on_change={"": REFUSE}),
        "output_type": Param(["magnitude", "mel", "both"], doc="Spectrogram that the model learns.", on_change=REFUSE),
        "vocab_file": Param(str, doc="File with one character or phoneme per line; their ids begin at 3.", file=ASSET),
    }


def optional_params() -> dict[str, Any]:
    """Returns the optional parameters of ``Text2SpeechDataLayer``, without those common to all data layers."""
    return {**clip_params(), **_text_params(), **_feature_params()}


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


def wavenet_params() -> dict[str, Any]:
    """Returns the optional parameters of ``WavenetDataLayer``, without those common to all data layers."""
    return {
        **clip_params(), **_feature_params(),
        "dataset": Param(list(RATES), "LJ", "Layout and defaults of the recordings; see Text2SpeechDataLayer.",
                         on_change=REFUSE),
        "output_type": Param(["mel"], "mel", "Spectrogram that the network reads.", on_change=REFUSE),
        "segment_frames": Param((int, type(None)), None, "In training, a random piece of this length of each clip is "
                                "read, drawn anew in each epoch; None: whole clips.", "frames", minimum=1),
        "context_frames": Param(int, 0, "Frames that are read before each piece or clip, silence before its beginning. "
                                "If they are at least as long as the receptive field, all samples are learned.",
                                "frames", minimum=0, maximum=10**5),
    }


def _text_params() -> dict[str, Any]:
    return {
        "dataset_files": Param(list, [], "Lists with lines name|text, name|text|normalised text, or aligned: "
                               "name|text|symbols|seconds; in inference, the name is that of a style recording or "
                               "UNUSED.", file=LIST),
        "speakers": Param(list, [], "Names of the speakers, if there are several: the second column of the lists then "
                          "names the speaker of each clip.",
                          on_change=REFUSE),
        "speaker": Param((str, type(None)), None, "In inference: speaker of the texts that name none; by default the "
                         "first one. [speaker NAME] in a text names that of what follows.", on_change=FREE),
        "symbols": Param(["characters", "phonemes"], "characters", "What the model reads: the characters of texts, or "
                         "phonemes, from the third column of aligned lists or from pronunciations.", on_change=REFUSE),
        "pronunciations": Param((str, type(None)), None, "For phonemes: file with lines such as hello HH AH L OW. "
                                "Words that are not in it are guessed.", file=ASSET, on_change=FREE),
        "espeak_language": Param((str, type(None)), None, "For characters: language, such as en-us, in which espeak-ng "
                                 "turns texts into characters of the International Phonetic Alphabet, which vocab_file "
                                 "lists; needs the extra espeak.", on_change=REFUSE),
        "durations": Param(bool, False, "Whether batches of training and evaluation also have the number of frames of "
                           "each symbol, from aligned lists.", on_change=FREE),
        "plain_text": Param(bool, False, "Whether lines without | are texts to speak; set by --infer_files.",
                            derived=True, on_change=FREE),
        "sentence_pause": Param((float, type(None)), 0.3, "In inference, the silence between the sentences of a text, "
                                "which are spoken one by one; [pause 0.4] in a text sets it there. None: texts are "
                                "spoken as a whole.", "seconds", minimum=0.0, maximum=60.0, on_change=FREE),
        "style_input": Param([None, "wav"], None, "wav: sources also contain the mel spectrogram of a style recording; "
                             "in training, that of the clip itself. Not needed with the encoder's style_weights.",
                             on_change=FREE),
        "pad_EOS": Param(bool, True, "Whether texts begin with <s> and end with </s>, and texts and spectrograms are "
                         "padded to a multiple of pad_to, with at least one frame of padding.", on_change=REFUSE),
        "pad_to": Param(int, 8, "With pad_EOS, multiple for the numbers of symbols and frames.", "frames", minimum=1,
                        maximum=10**4, on_change=REFUSE),
        "pad_value": Param((float, type(None)), None, "Value of padding frames; by default, that of silence: the "
                           "logarithm of data_min.", on_change=REFUSE),
        "n_samples_train": Param((int, type(None)), None, "Number of clips of training to keep, those with the "
                                 "shortest texts.", "clips", minimum=1),
        "n_samples_eval": Param((int, type(None)), None, "Number of clips of evaluation to keep, those with the "
                                "shortest texts.", "clips", minimum=1),
    }


def _feature_params() -> dict[str, Any]:
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
