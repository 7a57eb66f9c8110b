"""Prepares your own recordings for the recipe example_configs/speech2text/own-speech.py.

usage: python scripts/prepare_speech.py --table=recordings.csv --output_dir=my_speech --lower_case \
           --remove_characters=".,?!" [--speaker_column=speaker]

The table has one row per recording, with the columns wav_filename (relative to the table) and transcript, separated by
commas or tabs. Recordings that cannot be used are left out and written to dropped.csv with the reason. The others are
split into train.csv, dev.csv and test.csv, which keep all columns; their alphabet is written to vocab.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.speech2text.alphabet_creation import add_spelling_arguments, write_alphabet
from open_seq2seq.data.speech2text.manifests import write_csv
from open_seq2seq.data.speech2text.own_speech import Recording, clean, listed, read_recordings, split
from open_seq2seq.data.speech2text.transcripts import text_normalizer
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_no_input, check_output_file
from open_seq2seq.utils.progress import format_count, format_time
from open_seq2seq.utils.script import run_script

PARTS = ("train", "dev", "test")
RECIPE = "example_configs/speech2text/own-speech.py"
_SHOWN = 10  # maximum number of characters whose counts are printed


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, metavar="FILE", help="table of recordings and transcripts")
    parser.add_argument("--speaker_column", metavar="NAME", help="column of the table with the speaker; all recordings "
                        "of a speaker are then in the same part")
    parser.add_argument("--output_dir", default="my_speech", help="folder to write to (default: %(default)s)")
    add_spelling_arguments(parser)
    parser.add_argument("--dev_share", type=float, default=0.05,
                        help="share of the recordings in dev (default: %(default)s)")
    parser.add_argument("--test_share", type=float, default=0.05,
                        help="share of the recordings in test (default: %(default)s)")
    return parser.parse_args(argv)


def check_args(args: argparse.Namespace, outputs: Sequence[str]) -> None:
    """Raises UserError if an argument is out of range, or a file that would be written exists."""
    for name in ("dev_share", "test_share"):
        if not 0.0 < getattr(args, name) < 0.5:
            raise UserError(f"--{name} must be a share of the recordings above 0 and below 0.5, got "
                            f"{getattr(args, name)}.")
    check_no_input(outputs, [args.table])
    if found := [path for path in outputs if os.path.lexists(path)]:
        raise UserError(f"{found[0]} exists already and is not overwritten: choose another --output_dir, or move the "
                        "file away.")
    check_output_file(outputs[0], "The output")


def main(argv: list[str] | None = None) -> None:
    """Writes the lists and the alphabet."""
    args = parse_args(argv)
    lists = [os.path.join(args.output_dir, f"{part}.csv") for part in PARTS]
    dropped, vocab = (os.path.join(args.output_dir, name) for name in ("dropped.csv", "vocab.txt"))
    check_args(args, [*lists, dropped, vocab])
    normalize = text_normalizer(vars(args))
    header, recordings = read_recordings(args.table, args.speaker_column)
    kept = clean(recordings, normalize)
    try:
        parts = split(kept.rows, args.dev_share, args.test_share)
    except DataError:
        kept.report("recording")
        raise
    rows = [[listed(recording, header, args.output_dir) for recording in part] for part in parts]
    for path, part, cells in zip(lists, parts, rows, strict=True):
        write_csv(path, cells, header)
        deco_print(f"{path}: {describe(part)}")
    write_csv(dropped, ((row.line, row.problem or reason, row.utterance.name, row.utterance.text or "")
                        for reason, row in kept.all_dropped()), ["line", "reason", "wav_filename", "transcript"])
    kept.report("recording", dropped)
    write_alphabet(vocab, [row.utterance for row in kept.rows], normalize, _SHOWN)
    say_next(args)


def describe(part: Sequence[Recording]) -> str:
    """Returns the number of recordings of a part, their duration and, if they are known, the number of speakers."""
    speakers = {recording.speaker for recording in part} - {None}
    total = format_time(sum(recording.seconds for recording in part))
    return ", ".join([format_count(len(part), "recording"), total] + (
        [format_count(len(speakers), "speaker")] if speakers else []))


def say_next(args: argparse.Namespace) -> None:
    """Prints what to do with the lists."""
    spelling = f"{args.lower_case}, {json.dumps(args.remove_characters, ensure_ascii=False)}"
    folder = json.dumps(os.path.join(args.output_dir, ""), ensure_ascii=False)
    deco_print(f"Next: cp {RECIPE} my_speech.py, and set in it")
    deco_print(f"data_dir = {folder}", offset=1)
    deco_print(f"lower_case, remove_characters = {spelling}", offset=1)
    deco_print("Then: python run.py --config_file=my_speech.py --mode=train_eval --check")


if __name__ == "__main__":
    run_script(main)
