"""Creates a toy voice: clips in which each of five letters is a vowel, in the layout of LJSpeech.

usage: python scripts/create_toy_voice.py --output_dir=toy_voice_data

Writes the lists train.csv, dev.csv and test.csv, lists with the durations of letters (train_aligned.csv, …), the clips
in wavs/, and the characters vocab.txt. With --listen, it instead prints the letters that are heard in a sound file.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.audio.audio_files import AudioError, read_audio
from open_seq2seq.data.text2speech.toy_voice import RATE, heard, write_toy_voice
from open_seq2seq.utils.console import deco_print
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
    parser.add_argument("--listen", metavar="FILE", nargs="+", help="sound files; prints the letters in each of them")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the data set, or prints what is heard."""
    args = parse_args(argv)
    if args.listen:
        for path in args.listen:
            try:
                print(f"{path}\t{heard(read_audio(path, RATE))}")
            except AudioError as error:
                raise UserError(f"{path} {error.detail}.") from error
        return
    check_sizes(args, 10**4, *(f"{name}_size" for name in SIZES))
    sizes = {name: getattr(args, f"{name}_size") for name in SIZES}
    write_toy_voice(args.output_dir, sizes, args.seed)
    for name, size in sizes.items():
        deco_print(f"{os.path.join(args.output_dir, name)}.csv: {size} clips")


if __name__ == "__main__":
    run_script(main)
