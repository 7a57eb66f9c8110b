"""Writes TFRecord files of NVIDIA's OpenSeq2Seq for translation as text, one sentence per line.

usage: python scripts/records_to_text.py --vocab_file=vocab.ende.32768 --source=train.en --target=train.de
         wmt32k-train-*

The files, of token ids, are those that process_data.py wrote for TransformerDataLayer. scripts/prepare_text.py
prepares the text for training.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

from open_seq2seq.data.text2text.preparation import write_pairs
from open_seq2seq.data.text2text.subtokens import load_subtokens, read_record_pairs
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("records", nargs="+", metavar="RECORDS", help="the TFRecord files")
    parser.add_argument("--vocab_file", required=True, metavar="FILE", help="the vocabulary that belongs to them")
    parser.add_argument("--source", required=True, metavar="FILE", help="text file to write")
    parser.add_argument("--target", required=True, metavar="FILE", help="text file to write")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the text files."""
    args = parse_args(argv)
    check_no_input([args.source, args.target], [*args.records, args.vocab_file])
    count = write_pairs(read_record_pairs(args.records, load_subtokens(args.vocab_file)), args.source, args.target)
    deco_print(f"Wrote {count:,} sentence pairs to {args.source} and {args.target}")


if __name__ == "__main__":
    run_script(main)
