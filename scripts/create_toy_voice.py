"""Creates a toy voice: clips in which each of five letters is a vowel, in the layout of LJSpeech.

usage: python scripts/create_toy_voice.py --output_dir=toy_voice_data

Writes the lists train.csv, dev.csv and test.csv, lists with the durations of letters (train_aligned.csv, …), the clips
in wavs/, and the characters vocab.txt. --voices=2 adds the clips of a voice with a higher pitch, and lists of both
voices with the names of the speakers (train_speakers.csv, train_speakers_aligned.csv, …). With --listen, it instead
prints the letters that are heard in sound files, and with --texts how many of the letters of a list's texts they are.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.audio.audio_files import AudioError, read_audio
from open_seq2seq.data.text2speech.toy_voice import PITCHES, RATE, heard, write_toy_voice
from open_seq2seq.metrics.wer import count_errors
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, check_sizes, random_seed, run_script

SIZES = {"train": 300, "dev": 20, "test": 20}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--output_dir", default="toy_voice_data", help="folder to write to (default: %(default)s)")
    parser.add_argument("--seed", type=random_seed, default=0, help="random seed (default: %(default)s)")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}_size", type=int, default=size, help="number of clips (default: %(default)s)")
    parser.add_argument("--voices", type=int, choices=[1, 2], default=1, help="number of voices, each with these "
                        "numbers of clips (default: %(default)s)")
    parser.add_argument("--listen", metavar="FILE", nargs="+", help="sound files; prints the letters in each of them")
    parser.add_argument("--texts", metavar="LIST", help="with --listen: a list with the texts of the files, in their "
                        "order, such as toy_voice_data/test.csv; also prints how many of their letters are heard")
    return parser.parse_args(argv)


def _listen(paths: list[str], list_file: str | None) -> None:
    """Prints the letters heard in sound files, and how many of the letters of a list's texts they are."""
    texts = None
    if list_file is not None:
        rows = [line.split("|") for line in read_lines(list_file, "The list") if "|" in line]
        texts = [row[2 if row[1] in PITCHES and len(row) > 2 else 1] for row in rows]
        if len(texts) != len(paths):
            raise UserError(f"{list_file} has {len(texts)} texts, but --listen names {len(paths)} sound files.")
    letters = []
    for path in paths:
        try:
            letters.append(heard(read_audio(path, RATE)))
        except AudioError as error:
            raise UserError(f"{path} {error.detail}.") from error
        print(f"{path}\t{letters[-1]}")
    if texts is not None:
        spoken = ["".join(filter(str.isalpha, text)) for text in texts]
        errors = sum(count_errors(*pair).errors for pair in zip(spoken, letters, strict=True))
        size = sum(map(len, spoken))
        print(f"letters heard: {max(size - errors, 0)} of {size}")


def main(argv: list[str] | None = None) -> None:
    """Writes the data set, or prints what is heard."""
    args = parse_args(argv)
    if args.listen:
        _listen(args.listen, args.texts)
        return
    if args.texts:
        raise UserError("--texts is for --listen: give the sound files, too.")
    check_sizes(args, 10**4, *(f"{name}_size" for name in SIZES))
    sizes = {name: getattr(args, f"{name}_size") for name in SIZES}
    write_toy_voice(args.output_dir, sizes, args.seed, args.voices)
    for name, size in sizes.items():
        deco_print(f"{os.path.join(args.output_dir, name)}.csv: {size} clips")
        if args.voices > 1:
            deco_print(f"{os.path.join(args.output_dir, name)}_speakers.csv: {2 * size} clips")


if __name__ == "__main__":
    run_script(main)
