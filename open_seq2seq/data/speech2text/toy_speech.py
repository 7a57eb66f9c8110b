"""Synthetic speech in a made-up language, in which each letter has two formants; recognisers learn it in a minute."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from open_seq2seq.data.speech2text.manifests import LIST_COLUMNS
from open_seq2seq.data.text_files import write_csv, write_lines
from open_seq2seq.utils import disk
from open_seq2seq.utils.sound_files import encoded

LETTERS = "abdeghiklmnoprstu"
"""The letters of words; ``ALPHABET`` also has the space."""
ALPHABET = " " + LETTERS
_WORDS = 40
_LETTER_SECONDS = (0.07, 0.11)
_BLANK_SECONDS = (0.06, 0.1)
_FADE_SECONDS = 0.01
_BANDWIDTH = 90.0  # bandwidth of a formant in Hz
_NOISE = 0.003


class Voice(NamedTuple):
    """A speaker.

    Attributes:
      pitch: pitch in Hz.
      stretch: factor by which the formants' frequencies are multiplied.
      speed: factor by which the letters' durations are multiplied.
    """

    pitch: float
    stretch: float
    speed: float


def draw_text(random: np.random.Generator, words: tuple[int, int]) -> str:
    """Returns a text of random words from the language's vocabulary of 40 words.

    Args:
      random: draws the words.
      words: smallest and largest number of words.
    """
    vocabulary = np.random.default_rng(0)
    lexicon = ["".join(vocabulary.choice(list(LETTERS), size=vocabulary.integers(2, 6))) for _ in range(_WORDS)]
    return " ".join(random.choice(lexicon, size=random.integers(words[0], words[1] + 1)))


def synthesize(text: str, voice: Voice, random: np.random.Generator, rate: int = 16000) -> np.ndarray:
    """Returns the sound of a text with weak noise, float32 ``[samples]``.

    Args:
      text: characters of ``ALPHABET``.
      voice: the speaker.
      random: draws durations and noise.
      rate: sampling rate in Hz, at least 8000 for the formants.
    """
    pieces = [_pause(random, rate)]
    for letter in text:
        if letter == " ":
            pieces.append(_pause(random, rate))
        else:
            pieces.append(_letter(LETTERS.index(letter), voice, random.uniform(*_LETTER_SECONDS) * voice.speed, rate))
    audio = np.concatenate([*pieces, _pause(random, rate)])
    return (0.3 * audio + _NOISE * random.standard_normal(len(audio))).astype(np.float32)


def write_toy_speech(folder: str, sizes: dict[str, int], words: tuple[int, int] = (1, 3), seed: int = 0,
                     rate: int = 16000) -> None:
    """Writes lists ``<name>.csv``, 16-bit WAV files ``wav/<name>-0000.wav`` and the alphabet ``vocab.txt``.

    Args:
      folder: the output folder.
      sizes: dict of list name → number of utterances.
      words: smallest and largest number of words in an utterance.
      seed: seed of the random numbers.
      rate: sampling rate in Hz.
    """
    os.makedirs(os.path.join(folder, "wav"), exist_ok=True)
    for number, (name, size) in enumerate(sizes.items()):
        rows = []
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number])))
        for utterance in range(size):
            text = draw_text(random, words)
            file = f"wav/{name}-{utterance:04d}.wav"
            path = os.path.join(folder, file)
            with disk.writing(path, disk.always) as out:
                voice = Voice(random.uniform(90, 220), random.uniform(0.96, 1.04), random.uniform(0.9, 1.1))
                out.write(encoded(synthesize(text, voice, random, rate), rate))
            rows.append((file, os.path.getsize(path), text))
        write_csv(os.path.join(folder, f"{name}.csv"), LIST_COLUMNS, rows)
    write_lines(os.path.join(folder, "vocab.txt"), ALPHABET)


def _letter(number: int, voice: Voice, seconds: float, rate: int) -> np.ndarray:
    """Returns the sound of a letter ``[samples]``: harmonics of the pitch, weighted by two formants."""
    low, high = 350 + 130 * (number % 5), 1300 + 550 * (number // 5)
    time = np.arange(int(seconds * rate)) / rate
    harmonics = np.arange(1, int(rate / 2 / voice.pitch)) * voice.pitch
    distance = [(harmonics - formant * voice.stretch) / _BANDWIDTH for formant in (low, high)]
    strengths = np.exp(-0.5 * distance[0] ** 2) + 0.8 * np.exp(-0.5 * distance[1] ** 2)
    audible = strengths > 1e-3
    sound = np.sin(2 * np.pi * time[:, None] * harmonics[audible]) @ strengths[audible]
    fade = np.minimum(1, np.minimum(time, time[::-1]) / _FADE_SECONDS)
    return sound * fade / max(1e-6, float(np.abs(sound).max()))


def _pause(random: np.random.Generator, rate: int) -> np.ndarray:
    return np.zeros(int(random.uniform(*_BLANK_SECONDS) * rate))
