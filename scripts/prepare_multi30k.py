"""Prepares Multi30k (Elliott et al. 2016, https://arxiv.org/abs/1605.00459) from local files.

usage: python scripts/prepare_multi30k.py --data_dir=FOLDER --output_dir=multi30k

FOLDER contains train, val and test_2016_flickr, each as .en and .de, plain or .gz. Writes them to the output folder
as plain text, together with a SentencePiece model that all languages share, spm8k.model by default. With --languages
en de fr, there are several target languages; line n of each file is a translation of line n of the others.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.data.text2text.preparation import read_pairs, write_pairs
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import ScriptParser, run_script

SPLITS = ("train", "val", "test_2016_flickr")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True, help="folder with the downloaded files")
    parser.add_argument("--output_dir", default="multi30k", help="folder to write to (default: %(default)s)")
    parser.add_argument("--languages", nargs="+", default=["en", "de"], metavar="LANGUAGE",
                        help="suffixes of the files, source first (default: en de)")
    parser.add_argument("--vocab_size", type=int, default=8000, help="number of pieces (default: %(default)s)")
    return parser.parse_args(argv)


def find_file(folder: str, name: str) -> str:
    """Returns the path of a file, plain or .gz.

    Raises:
      DataError: neither file exists.
    """
    for path in (os.path.join(folder, name), os.path.join(folder, f"{name}.gz")):
        if os.path.isfile(path):
            return path
    raise DataError(f"{folder} has neither {name} nor {name}.gz: put the Multi30k files there.")


def main(argv: list[str] | None = None) -> None:
    """Writes the text files and the SentencePiece model."""
    args = parse_args(argv)
    if len(set(args.languages)) < max(2, len(args.languages)):
        raise UserError(f"--languages is {' '.join(args.languages)}, but must name a source language and at least one "
                        "target language, each once.")
    inputs = {split: [find_file(args.data_dir, f"{split}.{language}") for language in args.languages]
              for split in SPLITS}
    check_no_input((os.path.join(args.output_dir, f"{split}.{language}") for split in SPLITS
                    for language in args.languages), itertools.chain(*inputs.values()))
    for split, (source, *targets) in inputs.items():
        outputs = [os.path.join(args.output_dir, f"{split}.{language}") for language in args.languages]
        for target, output in zip(targets, outputs[1:], strict=True):
            count = write_pairs(read_pairs(source, target), outputs[0], output)
            deco_print(f"{outputs[0]} and {output}: {count} pairs")
    name = f"spm{args.vocab_size // 1000}k" if args.vocab_size >= 1000 else f"spm{args.vocab_size}"
    train_sentencepiece([os.path.join(args.output_dir, f"train.{language}") for language in args.languages],
                        os.path.join(args.output_dir, name), args.vocab_size, "unigram")


if __name__ == "__main__":
    run_script(main)
