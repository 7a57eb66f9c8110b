"""Prepares spoken digits from a local copy of the Free Spoken Digit Dataset.

usage: python scripts/prepare_digits.py --data_dir=FOLDER --output_dir=digits

FOLDER contains recordings/<digit>_<speaker>_<take>.flac or .wav. Takes 0 to 4 of each speaker and digit are the
official test set; the last takes are used for validation, the others for training. Writes
  * train.csv, dev.csv and test.csv with single digits;
  * strings-train.csv, strings-dev.csv and strings-test.csv with digit strings and their recordings in strings/: each
    string joins takes of one speaker from the same split;
  * the alphabet vocab.txt;
  * commands-train.txt, commands-dev.txt and commands-test.txt, whose rows are digit,recording, for classification.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import defaultdict
from typing import NamedTuple

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.audio.audio_files import AudioError, read_audio, read_info
from open_seq2seq.data.speech2text.alphabet import ENGLISH
from open_seq2seq.data.speech2text.manifests import LIST_COLUMNS
from open_seq2seq.data.text_files import write_csv, write_lines
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.script import ScriptParser, finite_float, random_seed, run_script
from open_seq2seq.utils.sound_files import encoded

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEST_TAKES = 5
_NAME = re.compile(r"(\d)_([^_]+)_(\d+)\.(?:flac|wav)")


class Take(NamedTuple):
    """One recording of one digit.

    Attributes:
      path: path of the recording.
      digit: the spoken digit, 0 to 9.
      speaker: the speaker's name.
      number: number of the take, counted from 0.
    """

    path: str
    digit: int
    speaker: str
    number: int


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True, help="folder that contains recordings/")
    parser.add_argument("--output_dir", default="digits", help="folder to write to (default: %(default)s)")
    parser.add_argument("--validation_takes", type=int, default=5,
                        help="number of takes of each speaker and digit, the last ones, for validation "
                        "(default: %(default)s)")
    parser.add_argument("--leave_out_speaker", help="speaker whose takes are left out of all lists except "
                        "speaker-test.csv and commands-speaker-test.txt")
    for name, size in (("train", 2000), ("dev", 100), ("test", 200)):
        parser.add_argument(f"--{name}_strings", type=int, default=size,
                            help="number of digit strings (default: %(default)s)")
    parser.add_argument("--min_digits", type=int, default=2, help="minimum digits per string (default: %(default)s)")
    parser.add_argument("--max_digits", type=int, default=7, help="maximum digits per string (default: %(default)s)")
    parser.add_argument("--max_pause", type=finite_float, default=0.2, help="longest pause between digits, in seconds "
                        "(default: %(default)s)")
    parser.add_argument("--noise_db", type=finite_float, help="also write strings-dev-noise.csv and "
                        "strings-test-noise.csv: the strings with white noise this many dB below the speech")
    parser.add_argument("--seed", type=random_seed, default=0,
                        help="random seed of strings and noise (default: %(default)s)")
    return parser.parse_args(argv)


def find_takes(data_dir: str) -> list[Take]:
    """Returns all recordings, sorted by speaker, digit and take.

    Raises:
      DataError: there are no recordings.
    """
    folder = os.path.join(data_dir, "recordings")
    if not os.path.isdir(folder):
        raise DataError(f"The folder {folder} does not exist: give the folder of the dataset as --data_dir.")
    matches = ((name, _NAME.fullmatch(name)) for name in os.listdir(folder))
    takes = [Take(os.path.join(folder, name), int(match[1]), match[2], int(match[3]))
             for name, match in matches if match]
    if not takes:
        raise DataError(f"{folder} has no recordings named <digit>_<speaker>_<take>.flac or .wav.")
    return sorted(takes, key=lambda take: (take.speaker, take.digit, take.number))


def split_takes(takes: list[Take], validation: int, left_out: str | None) -> dict[str, list[Take]]:
    """Returns the takes of ``train``, ``dev`` and ``test``, and of ``speaker-test`` if a speaker is left out."""
    last = max(take.number for take in takes)
    split: dict[str, list[Take]] = {"train": [], "dev": [], "test": []}
    for take in takes:
        if take.speaker == left_out:
            split.setdefault("speaker-test", []).append(take)
        elif take.number < _TEST_TAKES:
            split["test"].append(take)
        else:
            split["dev" if take.number > last - validation else "train"].append(take)
    return split


def join_takes(takes: list[Take], count: int, args: argparse.Namespace,
               name: str) -> list[tuple[str, np.ndarray, int]]:
    """Joins random takes into digit strings, each of one speaker. All takes of a speaker are used about equally often.

    Args:
      takes: the takes of one split.
      count: number of digit strings.
      args: the command line.
      name: the split's name, part of the random seed.

    Returns:
      (text, samples, rate) of each string.

    Raises:
      DataError: a recording cannot be read.
    """
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([args.seed, *name.encode()])))
    speakers: dict[str, list[Take]] = defaultdict(list)
    for take in takes:
        speakers[take.speaker].append(take)
    names = sorted(speakers)
    waiting: dict[str, list[Take]] = {speaker: [] for speaker in names}
    strings = []
    for number in range(count):
        speaker = names[number % len(names)]
        chosen = []
        for _ in range(int(random.integers(args.min_digits, args.max_digits + 1))):
            if not waiting[speaker]:
                order = random.permutation(len(speakers[speaker]))
                waiting[speaker] = [speakers[speaker][place] for place in order]
            chosen.append(waiting[speaker].pop())
        rate, pieces = 0, []
        for take in chosen:
            try:
                rate = rate or read_info(take.path).rate
                pieces.append(read_audio(take.path, rate))
            except AudioError as error:
                raise DataError(f"{take.path} {error.detail}: copy the dataset again.") from error
            pieces.append(np.zeros(int(random.uniform(0, args.max_pause) * rate), np.float32))
        strings.append((" ".join(WORDS[take.digit] for take in chosen), np.concatenate(pieces[:-1]), rate))
    return strings


def with_noise(audio: np.ndarray, decibels: float, random: np.random.Generator) -> np.ndarray:
    """Returns audio ``[samples]`` plus white noise ``decibels`` dB below its power, scaled down if it would clip."""
    level = np.sqrt(np.mean(np.square(audio))) * 10 ** (-decibels / 20)
    noisy = audio + level * random.standard_normal(len(audio))
    return noisy / max(1.0, float(np.abs(noisy).max()) / 0.99)


def write_strings(strings: list[tuple[str, np.ndarray, int]], output_dir: str, name: str) -> None:
    """Writes the recordings ``strings/<name>-0000.flac``, ``…-0001.flac``, … and their list ``<name>.csv``."""
    os.makedirs(os.path.join(output_dir, "strings"), exist_ok=True)
    rows = []
    for number, (text, audio, rate) in enumerate(strings):
        file = f"strings/{name}-{number:04d}.flac"
        with disk.writing(os.path.join(output_dir, file), disk.always) as out:
            out.write(encoded(audio, rate, "FLAC"))
        rows.append((file, os.path.getsize(os.path.join(output_dir, file)), text))
    write_csv(os.path.join(output_dir, f"{name}.csv"), LIST_COLUMNS, rows)
    deco_print(f"{os.path.join(output_dir, name)}.csv: {len(rows)} strings")


def check_args(args: argparse.Namespace, takes: list[Take]) -> None:
    """Checks the command line.

    Raises:
      UserError: the speaker to leave out is unknown or the only one, or a number is out of range.
    """
    speakers = sorted({take.speaker for take in takes})
    if args.leave_out_speaker and (args.leave_out_speaker not in speakers or len(speakers) < 2):
        raise UserError(f"--leave_out_speaker is {args.leave_out_speaker}, but it has to be one of the speakers "
                        f"{', '.join(speakers)}, and there have to be other speakers.")
    most = max(take.number for take in takes) + 1 - _TEST_TAKES
    if not 0 < args.validation_takes < most:
        raise UserError(f"--validation_takes is {args.validation_takes} but has to be at least 1 and below {most}, "
                        "the number of takes that are not for testing.")
    if not 1 <= args.min_digits <= args.max_digits:
        raise UserError(f"--min_digits is {args.min_digits} and --max_digits is {args.max_digits}, but the minimum has "
                        "to be at least 1 and at most the maximum.")
    if args.max_pause < 0.0:
        raise UserError(f"--max_pause is {args.max_pause:g} but has to be at least 0.")


def main(argv: list[str] | None = None) -> None:
    """Writes lists, recordings and alphabet."""
    args = parse_args(argv)
    takes = find_takes(args.data_dir)
    check_args(args, takes)
    split = split_takes(takes, args.validation_takes, args.leave_out_speaker)
    if empty := [name for name, members in split.items() if not members]:
        raise DataError(f"{args.data_dir} has no takes for {empty[0]}: give the whole dataset, of which takes 0 to "
                        f"{_TEST_TAKES - 1} are for test.")
    for name, members in split.items():
        rows = [(os.path.relpath(take.path, args.output_dir), os.path.getsize(take.path), WORDS[take.digit])
                for take in members]
        write_csv(os.path.join(args.output_dir, f"{name}.csv"), LIST_COLUMNS, rows)
        write_lines(os.path.join(args.output_dir, f"commands-{name}.txt"),
                    [f"{take.digit},{row[0]}" for take, row in zip(members, rows, strict=True)])
        deco_print(f"{os.path.join(args.output_dir, name)}.csv: {len(rows)} recordings")
    random = np.random.Generator(np.random.Philox(args.seed))
    for name in ("train", "dev", "test"):
        strings = join_takes(split[name], getattr(args, f"{name}_strings"), args, name)
        if strings:
            write_strings(strings, args.output_dir, f"strings-{name}")
        if args.noise_db is not None and name != "train" and strings:
            noisy = [(text, with_noise(audio, args.noise_db, random), rate) for text, audio, rate in strings]
            write_strings(noisy, args.output_dir, f"strings-{name}-noise")
    write_lines(os.path.join(args.output_dir, "vocab.txt"), ENGLISH)


if __name__ == "__main__":
    run_script(main)
