"""Writes a trained Transformer as a CTranslate2 model, and checks that both models translate alike.

usage: python scripts/export_ctranslate2.py --logdir=RUN --output=FOLDER --sentences=dev.en
       python scripts/export_ctranslate2.py --config_file=… --output=FOLDER --sentences=dev.en --quantization=int8

Needs the package ctranslate2 (pip install ctranslate2). Further arguments are those of run.py, such as
--config_file, --restore_best_checkpoint=True or --trust_code. The sentences, one per line, are translated by
both models, greedily and with a beam. A float32 model is not written if the share of equal translations is below
--least_equal.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

from open_seq2seq.cli import run_of
from open_seq2seq.inference.text2text.ctranslate2_model import (
    QUANTIZATIONS,
    check_exportable,
    ctranslate2_package,
    lines_that_load,
    translations_by_ctranslate2,
    write_model,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import OutputFiles
from open_seq2seq.utils.script import ScriptParser, finite_float, run_script

MOST_POSITIONS = 100_000


def parse_args(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line; returns the script's own arguments and those of run.py.

    Raises:
      UserError: a number is out of range.
    """
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--output", required=True, help="folder to write; an earlier export is replaced")
    parser.add_argument("--sentences", required=True, help="file with validation sentences of the source language")
    parser.add_argument("--count", type=int, default=200, help="number of sentences to compare (default: 200)")
    parser.add_argument("--quantization", choices=QUANTIZATIONS, default="float32", help="type of the weights")
    parser.add_argument("--beam_size", type=int, default=4, help="beam of the comparison (default: 4)")
    parser.add_argument("--length_penalty", type=finite_float, default=1.0,
                        help="exponent of CTranslate2's length normalisation in the comparison (default: 1)")
    parser.add_argument("--least_equal", type=finite_float, default=0.98,
                        help="smallest accepted share of equal translations of a float32 model (default: 0.98)")
    parser.add_argument("--max_positions", type=int, default=1024,
                        help="longest source or translation in tokens (default: 1024)")
    args, others = parser.parse_known_args(argv)
    for name, least in (("count", 1), ("beam_size", 2), ("max_positions", 2), ("length_penalty", 0)):
        if getattr(args, name) < least:
            raise UserError(f"--{name} is {getattr(args, name)} but has to be at least {least}.")
    if args.max_positions > MOST_POSITIONS:
        raise UserError(f"--max_positions is {args.max_positions} but has to be at most {MOST_POSITIONS:,}: the model "
                        "contains a row of numbers for each position, twice.")
    if not 0 <= args.least_equal <= 1:
        raise UserError(f"--least_equal is {args.least_equal} but has to be from 0 to 1.")
    return args, others


# Values that replace those of the config in the comparison: the settings with which CTranslate2 translates.
_SEARCH = ["--decoder_params/n_best=1", "--decoder_params/beam_rules=ctranslate2", "--decoder_params/beam_groups=1",
           "--decoder_params/coverage_penalty=0.0", "--decoder_params/sampling_temperature=null",
           "--decoder_params/sampling_top_k=null", "--decoder_params/sampling_top_p=null", "--replace_unknowns=False"]


def compare(args: argparse.Namespace, others: list[str], folder: Path, lines: list[str]) -> None:
    """Translates lines with both models, and prints the shares of equal translations.

    Raises:
      UserError: too few translations of a float32 model are equal.
    """
    for beam in (1, args.beam_size):
        ours = run_of([*others, *_SEARCH, f"--decoder_params/beam_size={beam}", "--dtype=float32",
                       f"--decoder_params/alpha={args.length_penalty}"]).load()
        found = [translations[0] for translations in ours.infer(lines)]
        theirs = translations_by_ctranslate2(ours.model, folder, lines, beam, args.length_penalty)
        pairs = list(zip(found, theirs, strict=True))
        differences = [abs(one.score - other.score) for one, other in pairs if one.text == other.text]
        scores = f", whose scores differ by at most {max(differences):.1g}" if differences else ""
        deco_print(f"Equal translations, beam {beam}: {len(differences)} of {len(lines)} "
                   f"({len(differences) / len(lines):.1%}){scores}")
        if args.quantization == "float32" and len(differences) < args.least_equal * len(lines):
            one, other = next((one.text, other.text) for one, other in pairs if one.text != other.text)
            raise UserError(f"Only {len(differences)} of {len(lines)} translations with beam {beam} are equal, so no "
                            f"model was written; the first that differs is {one!r:.200} here and {other!r:.200} with "
                            "CTranslate2: lower --least_equal to write the model all the same.")


def main(argv: list[str] | None = None) -> None:
    """Converts the model, compares the translations, and writes the folder."""
    args, others = parse_args(argv)
    ctranslate2_package()
    lines = [line for line in itertools.islice(read_lines(args.sentences), args.count) if line.strip()]
    if not lines:
        raise UserError(f"{args.sentences} has no sentences: give a file with one sentence per line.")
    model = run_of([*others, "--dtype=float32"]).load().model
    check_exportable(model)
    with OutputFiles() as outputs:
        folder = outputs.folder(args.output)
        write_model(model, folder, args.quantization, args.max_positions)
        compare(args, others, folder, lines)
    deco_print(f"Wrote {args.output}. These lines load it:")
    print("\n".join(lines_that_load(model, args.output, args.beam_size, args.length_penalty)))


if __name__ == "__main__":
    run_script(main)
