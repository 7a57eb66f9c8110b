"""Prepares your own recordings for the recipe example_configs/speech2text/own-speech.py.

usage: python scripts/prepare_speech.py --table=recordings.csv --output_dir=my_speech --lower_case
           --remove_characters=".,?!" [--speaker_column=speaker]

The table (CSV, TSV or JSON lines) has one row per recording, with the columns wav_filename (relative to the table) and
transcript, or others that are named, as by --columns=file,spoken. Tables of Common Voice and NeMo, and folders of
Kaldi, of LibriSpeech, and of recordings with text files of the same names are read, too. Recordings that cannot be used
are left out and written to dropped.csv with the reason. The others are split into train.csv, dev.csv and test.csv,
which keep all columns; their alphabet is written to vocab.txt. The folder is written whole or, after an error, not at
all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.own_classes import PARTS
from open_seq2seq.data.own_tables import Kept, TwoColumns, say_next
from open_seq2seq.data.speech2text.alphabet import add_spelling_arguments, text_normalizer, write_alphabet
from open_seq2seq.data.speech2text.own_speech import (
    COLUMNS,
    Recording,
    clean,
    listed,
    read_recordings,
    split,
    write_segments,
)
from open_seq2seq.data.text_files import write_csv
from open_seq2seq.utils.console import deco_print, format_count, format_time
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_new_folder, new_folder
from open_seq2seq.utils.script import ScriptParser, run_script

RECIPE = "example_configs/speech2text/own-speech.py"
SAMPLE_FREQ = 16000  # of the recipe, in Hz
_SHOWN = 10  # maximum number of characters whose counts are printed
_SHOWN_TEXT = 100  # number of characters of a transcript that are printed


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--table", required=True, metavar="PATH", help="table of recordings and transcripts, or a "
                        "folder with a file wav.scp, or with transcripts beside the recordings")
    parser.add_argument("--columns", nargs="+", action=TwoColumns, metavar="NAME", help="names of the columns of the "
                        "table with the files and the transcripts, such as file,spoken (default: "
                        f"{' or '.join(','.join(pair) for pair in COLUMNS)})")
    parser.add_argument("--speaker_column", metavar="NAME", help="column of the table with the speaker; all recordings "
                        "of a speaker are then in the same part (default: client_id of Common Voice, utt2spk of Kaldi; "
                        "--speaker_column= for none)")
    parser.add_argument("--output_dir", default="my_speech", help="folder to write, which must not exist "
                        "(default: %(default)s)")
    add_spelling_arguments(parser)
    parser.add_argument("--dev_share", type=float, default=0.05,
                        help="share of the recordings in dev (default: %(default)s)")
    parser.add_argument("--test_share", type=float, default=0.05,
                        help="share of the recordings in test (default: %(default)s)")
    return parser.parse_args(argv)


def check_args(args: argparse.Namespace) -> None:
    """Raises UserError if an argument is out of range, or the output folder exists."""
    for name in ("dev_share", "test_share"):
        if not 0.0 < getattr(args, name) < 0.5:
            raise UserError(f"--{name} must be a share of the recordings above 0 and below 0.5, got "
                            f"{getattr(args, name)}.")
    check_new_folder(args.output_dir)


def split_usable(args: argparse.Namespace, kept: Kept[Recording]) -> list[list[Recording]]:
    """Returns train, dev and test; prints what was left out if there are too few recordings."""
    try:
        if not kept.rows:
            (reason, row), *_ = kept.all_dropped()
            raise DataError(f"0 usable recordings in {args.table}; for example {row.place}: {row.problem or reason} "
                            f"(file {shown(row.utterance.path)}).")
        return split(kept.rows, args.dev_share, args.test_share)
    except DataError:
        kept.report("recording", place=lambda row: row.place)
        raise


def main(argv: list[str] | None = None) -> None:
    """Writes the lists and the alphabet."""
    args = parse_args(argv)
    check_args(args)
    normalize = text_normalizer(vars(args))
    header, recordings = read_recordings(args.table, args.columns, args.speaker_column)
    kept = clean(recordings, normalize)
    parts = split_usable(args, kept)
    with new_folder(args.output_dir) as folder:
        written = iter(write_segments([row for part in parts for row in part], folder, args.output_dir))
        for name, part in zip(PARTS, parts, strict=True):
            write_csv(os.path.join(folder, f"{name}.csv"), header,
                      [listed(next(written), header, args.output_dir) for _ in part])
        write_csv(os.path.join(folder, "dropped.csv"), ["line", "reason", "wav_filename", "transcript"],
                  ((row.line, row.problem or reason, row.utterance.name, row.utterance.text or "")
                   for reason, row in kept.all_dropped()))
        write_alphabet(os.path.join(folder, "vocab.txt"), [row.utterance for row in kept.rows], normalize, _SHOWN,
                       os.path.join(args.output_dir, "vocab.txt"))
    for name, part in zip(PARTS, parts, strict=True):
        deco_print(f"{os.path.join(args.output_dir, name)}.csv: {describe(part)}, such as")
        deco_print(f"{part[0].utterance.name}: {normalize(part[0].utterance.text or '')[:_SHOWN_TEXT]}", offset=1)
    say_shares(parts, args)
    kept.report("recording", os.path.join(args.output_dir, "dropped.csv"), lambda row: row.place)
    sample_freq = say_rates(kept.rows)
    say_next(RECIPE, "my_speech.py", {"data_dir": os.path.join(args.output_dir, ""),
                                      "lower_case, remove_characters": (args.lower_case, args.remove_characters),
                                      **({"sample_freq": sample_freq} if sample_freq != SAMPLE_FREQ else {}),
                                      **({"base_params": {"data_layer_params": {"unicode_form": args.unicode_form}}}
                                         if args.unicode_form.startswith("NFK") else {})})


def say_shares(parts: Sequence[Sequence[Recording]], args: argparse.Namespace) -> None:
    """Warns if dev and test have far more recordings than their shares, because of whole speakers."""
    held_out = sum(len(part) for part in parts[1:]) / sum(len(part) for part in parts)
    if parts[0][0].speaker is not None and held_out > 1.5 * (args.dev_share + args.test_share):
        deco_print(f"WARNING: Only {1 - held_out:.0%} of the recordings are for training, because dev and test have "
                   "whole speakers: give --speaker_column= to split one by one, if the recordings to be transcribed "
                   "are of these speakers.")


def describe(part: Sequence[Recording]) -> str:
    """Returns the number of recordings of a part, their duration and, if they are known, the number of speakers."""
    speakers = {recording.speaker for recording in part} - {None}
    total = format_time(sum(recording.seconds for recording in part))
    return ", ".join([format_count(len(part), "recording"), total] + (
        [format_count(len(speakers), "speaker")] if speakers else []))


def say_rates(recordings: Sequence[Recording]) -> int:
    """Prints the sampling rates, and returns the rate of most recordings or that of the recipe, if it is lower."""
    rates = Counter(recording.rate for recording in recordings).most_common()
    sample_freq = min(rates[0][0], SAMPLE_FREQ)
    converted = f", converted to {sample_freq:,} Hz in training" if [rate for rate, _ in rates] != [sample_freq] else ""
    deco_print("Sampling rate: " + ", ".join(
        f"{rate:,} Hz ({format_count(count, 'recording')})" for rate, count in rates) + converted)
    return sample_freq


if __name__ == "__main__":
    run_script(main)
