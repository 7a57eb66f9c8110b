"""Prepares lists of the Google Speech Commands data set, versions 1 and 2 (Warden 2018).

usage: python scripts/prepare_speech_commands.py --data_dir=FOLDER --version=v1-12

FOLDER contains the unpacked archive: a folder of recordings for each word, and _background_noise_. Writes the lists
<version>-train.txt, <version>-val.txt and <version>-test.txt, whose rows are label,wav_filename, and the names of the
classes, <version>-classes.txt; a label is the number of the class's line in this file, counted from 0. The archive's
own validation_list.txt and testing_list.txt are followed if they exist. Otherwise the speaker decides, so that all
recordings of a speaker are in the same list. Overlapping pieces of noise are always in the same list. If a class has
fewer training recordings than --train_size, its rows in the training list are repeated up to that number.
  * v1-12: ten commands, "unknown" for all other words, and "silence", pieces of the background noise of one second,
    which are written to silence/. In the lists for validation and test, "unknown" and "silence" have at most as many
    rows as the largest of the other classes;
  * v1-30, v2: all words.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.audio.audio_files import AudioError, read_audio, read_info
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script
from open_seq2seq.utils.sound_files import encoded

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
NUM_WORDS = {"v1-12": 30, "v1-30": 30, "v2": 35}
_NOISE, _STEP = "_background_noise_", 2000
_STRETCH = 5  # seconds of noise whose pieces are in the same list
_SPEAKER = re.compile(r"^(.+)_nohash_")
_OFFICIAL = {"val": "validation_list.txt", "test": "testing_list.txt"}
_UNKNOWN, _SILENCE = "unknown", "silence"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True, help="folder with the unpacked archive")
    parser.add_argument("--output_dir", help="folder to write to (default: the data_dir)")
    parser.add_argument("--version", choices=sorted(NUM_WORDS), default="v1-12", help="version of the data "
                        "set and number of classes (default: %(default)s)")
    parser.add_argument("--train_size", type=int, default=5000, help="minimum number of training rows of a class "
                        "(default: %(default)s)")
    parser.add_argument("--any_words", action="store_true", help="accept a folder whose number of words is not that "
                        "of --version")
    return parser.parse_args(argv)


def _number_of(text: str) -> int:
    return int(hashlib.sha1(text.encode("utf-8", "surrogateescape")).hexdigest()[:8], 16)


def part_of(name: str) -> str:
    """Returns the list that a recording belongs to, ``train`` (80 %), ``val`` or ``test``, by a hash of its speaker."""
    match = _SPEAKER.match(name)
    return {0: "val", 1: "test"}.get(_number_of(match[1] if match else name) % 10, "train")


def read_official_lists(data_dir: str) -> dict[str, str]:
    """Returns the list, ``val`` or ``test``, of each recording in the archive's own lists, by its relative path.

    The dict is empty unless the archive has both lists.
    """
    paths = {part: os.path.join(data_dir, name) for part, name in _OFFICIAL.items()}
    if not all(map(os.path.exists, paths.values())):
        return {}
    return {line.strip(): part for part, path in paths.items() for line in read_lines(path, "The list")}


def find_words(data_dir: str) -> dict[str, list[str]]:
    """Returns the recordings of each word, as paths relative to the folder.

    Raises:
      DataError: the folder does not exist, or has no folders of recordings.
    """
    if not os.path.isdir(data_dir):
        raise DataError(f"The folder {data_dir} does not exist: give the folder of the unpacked archive as --data_dir.")
    words = {}
    for word in sorted(os.listdir(data_dir)):
        folder = os.path.join(data_dir, word)
        if word not in (_NOISE, _SILENCE) and os.path.isdir(folder):
            names = sorted(name for name in os.listdir(folder) if name.endswith(".wav"))
            if names:
                words[word] = [os.path.join(word, name) for name in names]
    if not words:
        raise DataError(f"The folder {data_dir} has no folders of .wav files: give the folder of the unpacked archive "
                        "as --data_dir.")
    return words


def write_silence(data_dir: str, output_dir: str) -> list[str]:
    """Writes one-second pieces of the background noise; returns their paths relative to the data folder.

    Pieces overlap, but pieces in different lists must not. Therefore each piece lies within one stretch of 5 seconds,
    and its name contains the stretch where other names contain the speaker, so that ``part_of`` assigns all pieces of a
    stretch to the same list.

    Raises:
      DataError: there is no folder of background noise, or one of its recordings is damaged.
    """
    folder = os.path.join(data_dir, _NOISE)
    if not os.path.isdir(folder):
        raise DataError(f"The folder {folder}, from which the class silence is made, does not exist: unpack the whole "
                        "archive.")
    written = []
    os.makedirs(os.path.join(output_dir, _SILENCE), exist_ok=True)
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".wav")):
        path = os.path.join(folder, name)
        try:
            rate = read_info(path).rate
            audio = read_audio(path, rate)
        except AudioError as error:
            raise DataError(f"{shown(path)} {error.detail}: unpack the archive again.") from error
        for number, start in enumerate(range(0, len(audio) - rate + 1, _STEP)):
            stretch, place = divmod(start, _STRETCH * rate)
            if place + rate > _STRETCH * rate:
                continue
            piece = os.path.join(output_dir, _SILENCE, f"{name[:-4]}-{stretch:03d}_nohash_{number:04d}.wav")
            with disk.writing(piece, disk.always) as out:
                out.write(encoded(audio[start:start + rate], rate))
            written.append(os.path.relpath(piece, data_dir))
    return written


def in_classes(words: dict[str, list[str]], version: str, silence: list[str]) -> dict[str, list[str]]:
    """Returns the recordings of each class."""
    if version != "v1-12":
        return words
    others = [path for word, paths in words.items() if word not in COMMANDS for path in paths]
    return {**{word: words.get(word, []) for word in COMMANDS}, _UNKNOWN: others, _SILENCE: silence}


def divided(classes: dict[str, list[str]], official: dict[str, str]) -> dict[str, dict[str, list[str]]]:
    """Returns the recordings of each class in each list.

    Args:
      classes: the recordings of each class.
      official: the result of ``read_official_lists``.
    """
    parts: dict[str, dict[str, list[str]]] = {part: {name: [] for name in classes} for part in ("train", "val", "test")}
    for name, paths in classes.items():
        for path in paths:
            by_speaker = part_of(os.path.basename(path))
            parts[official.get(path, "train") if official and name != _SILENCE else by_speaker][name].append(path)
    for part in ("val", "test"):
        _limit(parts[part])
    return parts


def _limit(classes: dict[str, list[str]]) -> None:
    """Limits the classes that are not words to the size of the largest word; which recordings remain is random."""
    most = max((len(paths) for name, paths in classes.items() if name not in (_UNKNOWN, _SILENCE)), default=0)
    for name in (_UNKNOWN, _SILENCE):
        if name in classes:
            classes[name] = sorted(classes[name], key=_number_of)[:most]


def rows_of(parts: dict[str, dict[str, list[str]]], train_size: int) -> dict[str, list[str]]:
    """Returns the rows of each list; training rows of small classes are repeated."""
    rows: dict[str, list[str]] = {}
    for part, classes in parts.items():
        rows[part] = []
        for label, paths in enumerate(classes.values()):
            size = max(train_size, len(paths)) if part == "train" and paths else len(paths)
            repeated = paths * -(-size // len(paths)) if paths else []
            rows[part] += [f"{label},{path}" for path in repeated[:size]]
    return rows


def main(argv: list[str] | None = None) -> None:
    """Writes the lists."""
    args = parse_args(argv)
    output_dir = args.output_dir or args.data_dir
    words = find_words(args.data_dir)
    wanted = NUM_WORDS[args.version]
    if len(words) != wanted and not args.any_words:
        raise UserError(f"{args.data_dir} has {len(words)} words, but {args.version} has {wanted}: give the matching "
                        "--version, or --any_words for a part of the data set.")
    os.makedirs(output_dir, exist_ok=True)
    silence = write_silence(args.data_dir, output_dir) if args.version == "v1-12" else []
    classes = in_classes(words, args.version, silence)
    write_lines(os.path.join(output_dir, f"{args.version}-classes.txt"), classes)
    parts = divided(classes, read_official_lists(args.data_dir))
    for part, rows in rows_of(parts, args.train_size).items():
        path = os.path.join(output_dir, f"{args.version}-{part}.txt")
        # Shuffled, so that the beginning of a list has all classes.
        order = np.random.Generator(np.random.Philox(0)).permutation(len(rows))
        write_lines(path, [rows[place] for place in order])
        deco_print(f"{path}: {len(rows)} rows, {len(classes)} classes")


if __name__ == "__main__":
    run_script(main)
