"""A synthetic voice that says a vowel for each letter; models learn it in minutes, and ``heard`` recognises it."""

from __future__ import annotations

import os
from itertools import groupby

import numpy as np

from open_seq2seq.data.speech2text.manifests import LIST_COLUMNS
from open_seq2seq.data.text2speech.symbols import SPACE
from open_seq2seq.data.text_files import write_csv, write_lines
from open_seq2seq.utils import disk
from open_seq2seq.utils.sound_files import encoded

VOWELS = {"a": (730, 1090), "e": (530, 1840), "i": (270, 2290), "o": (570, 840), "u": (300, 870)}
"""The letters and the two formants in Hz of each: the means of Peterson and Barney (1952)."""
RATE = 8000
"""Sampling rate in Hz."""
PITCHES = {"low": 110.0, "high": 165.0}
"""The voices, and the pitch of each in Hz."""
_BANDWIDTH = 90.0  # of a formant in Hz
_LETTER_SECONDS, _PAUSE_SECONDS, _EDGE_SECONDS = 0.16, 0.12, 0.08
_FADE_SECONDS = 0.02
_NOISE = 0.001
_HOP_SECONDS, _WINDOW_SECONDS = 0.01, 0.05  # of the analysis by ``heard``
_QUIET = 0.1  # frames below this share of the loudest one are pauses or the ends of letters
_SHORTEST = 4  # minimum number of frames of a letter


def draw_text(random: np.random.Generator, letters: tuple[int, int] = (3, 9)) -> str:
    """Returns a text of random letters, in words of one to four, without a letter twice in a row in a word.

    Args:
      random: draws the letters.
      letters: smallest and largest number of letters.
    """
    text, left = "", int(random.integers(letters[0], letters[1] + 1))
    while left:
        for _ in range(min(left, int(random.integers(1, 5)))):
            text += str(random.choice([letter for letter in VOWELS if letter != text[-1:]]))
            left -= 1
        text += " " if left else ""
    return text


def spoken(text: str, random: np.random.Generator, pitch: float = PITCHES["low"]) -> np.ndarray:
    """Returns the sound of a text of vowels and spaces, float32 ``[samples]`` at ``RATE``.

    Args:
      text: letters of ``VOWELS`` and spaces.
      random: draws weak noise.
      pitch: pitch in Hz.
    """
    pieces = [np.zeros(int(_PAUSE_SECONDS * RATE)) if letter == " " else _vowel(pitch, *VOWELS[letter])
              for letter in text]
    edge = np.zeros(int(_EDGE_SECONDS * RATE))
    audio = np.concatenate([edge, *pieces, edge])
    return (0.5 * audio + _NOISE * random.standard_normal(len(audio))).astype(np.float32)


def aligned(text: str) -> tuple[str, str]:
    """Returns the third and fourth column of an aligned list for a text: its symbols, and their seconds."""
    seconds = [_PAUSE_SECONDS if letter == " " else _LETTER_SECONDS for letter in text]
    seconds[0] += _EDGE_SECONDS
    seconds[-1] += _EDGE_SECONDS
    return (" ".join(SPACE if letter == " " else letter for letter in text),
            " ".join(f"{value:.2f}" for value in seconds))


def _vowel(pitch: float, *formants: float) -> np.ndarray:
    time = np.arange(int(_LETTER_SECONDS * RATE)) / RATE
    harmonics = np.arange(1, int(RATE / 2 / pitch)) * pitch
    strengths = _strengths(harmonics, formants)
    sound = np.sin(2 * np.pi * time[:, None] * harmonics) @ strengths
    fade = np.minimum(1, np.minimum(time, time[::-1]) / _FADE_SECONDS)
    return sound * fade / float(np.abs(sound).max())


def _strengths(frequencies: np.ndarray, formants: tuple[float, ...]) -> np.ndarray:
    low, high = (np.exp(-0.5 * ((frequencies - formant) / _BANDWIDTH) ** 2) for formant in formants)
    return low + 0.8 * high


def heard(audio: np.ndarray, rate: int = RATE) -> str:
    """Returns the letters that are heard in a sound, without spaces.

    Each frame that is not quiet is assigned to the vowel whose spectrum is most similar to it. Consecutive frames of
    one vowel are a letter, unless they are very few.

    Args:
      audio: ``[samples]``.
      rate: sampling rate in Hz.
    """
    hop, size = int(_HOP_SECONDS * rate), int(_WINDOW_SECONDS * rate)
    if len(audio) < size:
        return ""
    frames = np.lib.stride_tricks.sliding_window_view(np.asarray(audio, np.float64), size)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(size))) ** 2
    smooth = np.maximum(power, 1e-12) @ _smoothing(power.shape[1], rate / size)
    templates = np.stack([_strengths(np.arange(power.shape[1]) * rate / size, formants) ** 2
                          for formants in VOWELS.values()]) @ _smoothing(power.shape[1], rate / size)
    scores = _unit(np.sqrt(smooth)) @ _unit(np.sqrt(templates)).T
    energy = np.sqrt(power.sum(1))
    letters = np.where(energy > _QUIET * energy.max(initial=1e-9), np.argmax(scores, 1), -1)
    runs = [(letter, len(list(group))) for letter, group in groupby(letters.tolist())]
    return "".join(list(VOWELS)[letter] for letter, length in runs if letter >= 0 and length >= _SHORTEST)


def _smoothing(bins: int, width: float) -> np.ndarray:
    """Returns a matrix ``[bins, bins]`` that spreads the power of each bin over its neighbours within a harmonic."""
    distance = np.subtract.outer(np.arange(bins), np.arange(bins)) * width / PITCHES["low"]
    return np.exp(-0.5 * (distance / 0.6) ** 2)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_toy_voice(folder: str, sizes: dict[str, int], seed: int = 0, voices: int = 1) -> None:
    """Writes lists in the layout of LJSpeech, aligned ones, and lists for recognisers; clips, and ``vocab.txt``.

    No text occurs in two lists of a voice. With two voices, the files of the first one are the same as without the
    second, and further lists name the clips of both, with their speakers.

    Args:
      folder: the output folder.
      sizes: dict of list name → number of clips of each voice, ``wavs/<name>-0000.wav`` and so on; the lists are
        ``<name>.csv``, ``<name>_aligned.csv`` and, for recognisers and of all voices, ``<name>_recordings.csv``, and
        with two voices also ``<name>_speakers.csv`` and ``<name>_speakers_aligned.csv``.
      seed: seed of the random numbers.
      voices: number of voices of ``PITCHES``, 1 or 2.
    """
    os.makedirs(os.path.join(folder, "wavs"), exist_ok=True)
    speakers = list(PITCHES)[:voices]
    clips = [_write_clips(folder, sizes, seed, number) for number in range(voices)]
    for name in sizes:
        lists: dict[str, list[tuple[str, ...]]] = {
            f"{name}.csv": [(stem, text, text) for stem, text in clips[0][name]],
            f"{name}_aligned.csv": [(stem, text, *aligned(text)) for stem, text in clips[0][name]]}
        if voices > 1:
            both: list[tuple[str, ...]] = [(stem, speaker, text)
                                           for speaker, own in zip(speakers, clips, strict=True)
                                           for stem, text in own[name]]
            lists[f"{name}_speakers.csv"] = both
            lists[f"{name}_speakers_aligned.csv"] = [(*row, *aligned(row[-1])) for row in both]
        for file, rows in lists.items():
            write_lines(os.path.join(folder, file), ["|".join(row) for row in rows])
        paths = [(f"wavs/{stem}.wav", text) for own in clips for stem, text in own[name]]
        write_csv(os.path.join(folder, f"{name}_recordings.csv"), LIST_COLUMNS,
                  [(path, os.path.getsize(os.path.join(folder, path)), text) for path, text in paths])
    write_lines(os.path.join(folder, "vocab.txt"), [" ", *VOWELS])


def _write_clips(folder: str, sizes: dict[str, int], seed: int, voice: int) -> dict[str, list[tuple[str, str]]]:
    """Writes the clips of a voice, by its number in ``PITCHES``; returns (name, text) of the clips of each list."""
    speaker, seen, clips = list(PITCHES)[voice], set[str](), dict[str, list[tuple[str, str]]]()
    for number, (name, size) in enumerate(sizes.items()):
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number, *[voice] * (voice > 0)])))
        clips[name] = []
        for clip in range(size):
            while (text := draw_text(random)) in seen:
                pass
            seen.add(text)
            stem = f"{name}-{f'{speaker}-' if voice else ''}{clip:04d}"
            with disk.writing(os.path.join(folder, "wavs", f"{stem}.wav"), disk.always) as out:
                out.write(encoded(spoken(text, random, PITCHES[speaker]), RATE))
            clips[name].append((stem, text))
    return clips
