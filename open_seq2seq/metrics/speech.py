"""Measures of synthesised speech: its attention, its distance from a recording, and what a recogniser understands."""

from __future__ import annotations

import functools
import re
from importlib.metadata import version
from typing import NamedTuple

import numpy as np

from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.librosa_import import import_librosa

_BAND = 0.15  # distance from the diagonal that is near, as a share of the text
_ORDER = 39  # coefficients that are compared, without the 0th, which is the loudness
_ALPHA = 0.466  # of the all-pass filter; at 22,050 Hz, it warps frequencies approximately as mel filters do
_SHIFT = 0.005  # seconds from one frame to the next
_FRAME = 0.04  # least length of a frame in seconds
_FLOOR = 1e-8  # smallest power, relative to the loudest frequency of the utterance
_LOWEST, _HIGHEST, _RESOLUTION = 60.0, 500.0, 0.2  # pitch in Hz, and its resolution in semitones
_RATE = 16000  # of the recogniser's acoustic model


def spoken_attention(weights: np.ndarray, is_spoken: np.ndarray) -> np.ndarray:
    """Returns the attention to the symbols that are spoken, as the functions below measure it.

    Start, end and padding symbols, and marks without a duration, have no place on the diagonal and need not be attended
    to, so their columns are removed, and the frames that attend to one of them more than to any other symbol.

    Args:
      weights: attention weights ``[frames, text]`` without padding.
      is_spoken: which symbols are spoken ``[text]``.
    """
    frames = is_spoken[weights.argmax(1)] if weights.size else np.zeros(len(weights), bool)
    return weights[frames][:, is_spoken]


def diagonality(weights: np.ndarray) -> float:
    """Returns the share of the attention mass that is near the diagonal, from 0 to 1.

    Near means within 15 % of the text's length; uniform attention gives about 0.28.

    Args:
      weights: attention weights ``[frames, text]`` without padding, see ``spoken_attention``.
    """
    frames, symbols = weights.shape
    if not weights.size:
        return 0.0
    diagonal = (np.arange(frames) + 0.5) / frames
    position = (np.arange(symbols) + 0.5) / symbols
    near = np.abs(diagonal[:, None] - position) <= _BAND
    return float((weights * near).sum() / max(weights.sum(), 1e-9))


def monotonicity(weights: np.ndarray) -> float:
    """Returns the share of steps in which the most attended symbol is the same, or one further, from 0 to 1.

    Args:
      weights: attention weights ``[frames, text]`` without padding, see ``spoken_attention``.
    """
    steps = np.diff(weights.argmax(1)) if weights.size else np.zeros(0)
    return float(np.mean((steps >= 0) & (steps <= 1))) if len(steps) else 1.0


def coverage(weights: np.ndarray) -> float:
    """Returns the share of symbols that some frame attends to more than to any other symbol, from 0 to 1.

    Args:
      weights: attention weights ``[frames, text]`` without padding, see ``spoken_attention``.
    """
    return len(np.unique(weights.argmax(1))) / max(1, weights.shape[1]) if weights.size else 0.0


class Voice(NamedTuple):
    """What is compared of an utterance.

    Attributes:
      cepstra: mel cepstrum of each frame without the 0th coefficient ``[frames, 39]``.
      pitch: fundamental frequency of each frame in Hz, NaN where it is voiceless ``[frames]``.
    """

    cepstra: np.ndarray
    pitch: np.ndarray


class SoundDistance(NamedTuple):
    """How synthesised speech differs from a recording, in the pairs of frames that dynamic time warping aligns.

    Attributes:
      distortion: mean mel cepstral distortion in dB.
      hertz: root mean square error of the pitch in Hz, where both are voiced; NaN if they never are.
      cents: the same in cents.
      voicing: share of the pairs of which only one frame is voiced.
      pitch_ratio: median pitch of the speech, divided by that of the recording; NaN if one of them is never voiced.
    """

    distortion: float
    hertz: float
    cents: float
    voicing: float
    pitch_ratio: float = float("nan")


def distance_signature(rate: int) -> str:
    """Returns the settings of ``sound_distance`` for sound of this rate in Hz, to print beside its figures."""
    points = _points(rate)
    return (f"mcep:{_ORDER}|alpha:{_ALPHA}|envelope:stft{points}|floor:{-10 * np.log10(_FLOOR):.0f}dB|"
            f"shift:{_SHIFT * 1000:g}ms|dtw:mcep|f0:pyin{_LOWEST:g}-{_HIGHEST:g}Hz,{_RESOLUTION}st|rate:{rate}|"
            f"librosa:{version('librosa')}")


def analysed(samples: np.ndarray, rate: int) -> Voice:
    """Returns mel cepstra and pitch of sound ``[samples]`` with ``rate`` samples per second."""
    librosa = import_librosa()
    samples, points, hop = np.asarray(samples, np.float32), _points(rate), round(_SHIFT * rate)
    samples = np.pad(samples, (0, max(0, points - len(samples))))
    pitch, *_ = librosa.pyin(samples, fmin=_LOWEST, fmax=_HIGHEST, sr=rate, frame_length=points, hop_length=hop,
                             resolution=_RESOLUTION)
    return Voice(mel_cepstra(samples, points, hop), pitch)


def mel_cepstra(samples: np.ndarray, points: int, hop: int) -> np.ndarray:
    """Returns the mel cepstrum ``[frames, 39]`` of sound ``[samples]``, without the 0th coefficient.

    It is the cosine transform of the logarithmic spectrum over the frequencies that a first-order all-pass filter has
    warped (Tokuda et al. 1994). Neither the level of the sound nor digital silence changes it much: powers are at
    least 80 dB below the highest.

    Args:
      samples: the sound.
      points: length of a frame.
      hop: samples from one frame to the next.
    """
    librosa = import_librosa()
    power = np.abs(librosa.stft(np.asarray(samples, np.float32), n_fft=points, hop_length=hop)) ** 2
    return (_warped_cosines(points) @ np.log(np.maximum(power, max(power.max() * _FLOOR, 1e-30)))).T


@functools.lru_cache(maxsize=8)
def _warped_cosines(points: int) -> np.ndarray:
    """Returns the matrix ``[39, points // 2 + 1]`` that turns logarithmic powers into cepstra of amplitudes."""
    angles = np.linspace(0.0, np.pi, points // 2 + 1)
    warped = angles + 2 * np.arctan2(_ALPHA * np.sin(angles), 1 - _ALPHA * np.cos(angles))
    slope = (1 - _ALPHA ** 2) / (1 + _ALPHA ** 2 - 2 * _ALPHA * np.cos(angles))
    weights = np.full(len(angles), 1.0 / (len(angles) - 1))
    weights[[0, -1]] /= 2
    return np.cos(np.arange(1, _ORDER + 1)[:, None] * warped) * slope * weights


def sound_distance(voice: Voice, reference: Voice) -> SoundDistance:
    """Compares synthesised speech with a recording of the same text; the two may differ in length and speed."""
    librosa = import_librosa()
    costs, path = librosa.sequence.dtw(voice.cepstra.T, reference.cepstra.T)
    frames, others = path.T
    ours, theirs = voice.pitch[frames], reference.pitch[others]
    both = np.isfinite(ours) & np.isfinite(theirs)
    hertz = cents = float("nan")
    if both.any():
        hertz = float(np.sqrt(np.mean((ours[both] - theirs[both]) ** 2)))
        cents = float(np.sqrt(np.mean((1200 * np.log2(ours[both] / theirs[both])) ** 2)))
    distortion = 10 / np.log(10) * np.sqrt(2) * costs[-1, -1] / len(path)
    voicing = float(np.mean(np.isfinite(ours) != np.isfinite(theirs)))
    return SoundDistance(float(distortion), hertz, cents, voicing, _median(voice.pitch) / _median(reference.pitch))


def _median(pitch: np.ndarray) -> float:
    """Returns the median of the voiced frames; NaN without any."""
    voiced = pitch[np.isfinite(pitch)]
    return float(np.median(voiced)) if len(voiced) else float("nan")


def log_spectral_distance(sound: np.ndarray, reference: np.ndarray, rate: int) -> float:
    """Returns the log-spectral distance in dB of two sounds ``[samples]`` that begin at the same time.

    It is the mean over frames of the root mean square difference of the levels of all frequencies (Gray and Markel
    1976). Levels are at least 80 dB below the loudest of the reference. A longer sound is cut to the shorter one.
    """
    librosa = import_librosa()
    points, size = _points(rate), min(len(sound), len(reference))
    powers = [np.abs(librosa.stft(np.pad(np.asarray(one[:size], np.float32), (0, max(0, points - size))),
                                  n_fft=points, hop_length=points // 4)) ** 2 for one in (sound, reference)]
    floor = max(float(powers[1].max()) * _FLOOR, 1e-30)
    levels, expected = (10 * np.log10(np.maximum(power, floor)) for power in powers)
    return float(np.sqrt(np.mean((levels - expected) ** 2, axis=0)).mean())


def spectral_signature(rate: int) -> str:
    """Returns the settings of ``log_spectral_distance`` for sound of this rate in Hz."""
    points = _points(rate)
    return (f"lsd:stft{points}|hop:{points // 4}|floor:{-10 * np.log10(_FLOOR):.0f}dB|rate:{rate}|"
            f"librosa:{version('librosa')}")


def _points(rate: int) -> int:
    """Returns the length of a frame: the power of 2 that is at least 40 ms."""
    return 1 << int(np.ceil(np.log2(_FRAME * rate)))


class PocketSphinx:
    """PocketSphinx with its own English models, which our training data do not influence.

    Raises:
      UserError: the package pocketsphinx is not installed.
    """

    def __init__(self) -> None:
        try:
            import pocketsphinx
        except ImportError as error:
            raise UserError("The recognizer pocketsphinx is not installed: run pip install 'open-seq2seq[align]', or "
                            "set recognizer to None.") from error
        self._decoder = pocketsphinx.Decoder(samprate=_RATE, loglevel="FATAL")
        self.signature = f"pocketsphinx:{version('pocketsphinx')}|rate:{_RATE}|words:a-z'|interval:95%bootstrap"

    def transcript(self, samples: np.ndarray, rate: int) -> str:
        """Returns the words that are heard in sound ``[samples]`` from -1 to 1 with ``rate`` samples per second."""
        import soxr

        if not np.any(samples):  # in digital silence, words are heard
            return ""
        sound = np.clip(soxr.resample(np.asarray(samples, np.float32), rate, _RATE, quality="HQ"), -1.0, 1.0)
        self._decoder.start_utt()
        self._decoder.process_raw((sound * 32767).astype(np.int16).tobytes(), full_utt=True)
        self._decoder.end_utt()
        heard = self._decoder.hyp()
        return heard.hypstr if heard else ""


def plain_words(text: str) -> str:
    """Returns the words of a text in lower case, without punctuation, as they are compared."""
    return " ".join(re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("’", "'")))
