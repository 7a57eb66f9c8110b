"""Prepares parallel text, such as WMT data, from local files: cleans, shuffles and encodes it with BPE.

usage: python scripts/prepare_wmt.py --output_dir=wmt16_de_en
         --train_source europarl.en commoncrawl.en news-commentary.en
         --train_target europarl.de commoncrawl.de news-commentary.de
         --dev_source newstest2013.en --dev_target newstest2013.de
         --test_source newstest2014.en --test_target newstest2014.de

Files may be plain or .gz. Nothing is downloaded, tokenised by rules or lower-cased. Writes to the output folder:

  m_common.model, m_common.vocab                 SentencePiece BPE model that both languages share
  train.clean.{en,de}                            the pairs that passed cleaning
  train.clean.{en,de}.shuffled                   the same pairs in a random order that depends on --seed
  train.clean.{en,de}.shuffled.BPE_common.32K.tok
  wmt13-en-de.{src,ref} and .BPE_common.32K.tok  development set
  wmt14-en-de.{src,ref} and .BPE_common.32K.tok  test set
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.data.text2text.preparation import (
    Cleaning,
    encode_file,
    read_pairs,
    shuffle_files,
    write_pairs,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import ScriptParser, random_seed, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--train_source", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--train_target", nargs="+", required=True, metavar="FILE")
    for split, name in (("dev", "wmt13"), ("test", "wmt14")):
        parser.add_argument(f"--{split}_source", metavar="FILE")
        parser.add_argument(f"--{split}_target", metavar="FILE")
        parser.add_argument(f"--{split}_name", default=name, help="prefix of the output files (default: %(default)s)")
    parser.add_argument("--source_lang", default="en", help="used in file names (default: %(default)s)")
    parser.add_argument("--target_lang", default="de", help="used in file names (default: %(default)s)")
    parser.add_argument("--output_dir", default="wmt16_de_en", help="folder to write to (default: %(default)s)")
    parser.add_argument("--vocab_size", type=int, default=32768, help="number of pieces (default: %(default)s)")
    parser.add_argument("--min_length", type=int, default=1, help="minimum words per side (default: %(default)s)")
    parser.add_argument("--max_length", type=int, default=80, help="maximum words per side (default: %(default)s)")
    parser.add_argument("--max_ratio", type=float, default=9.0,
                        help="maximum ratio of the longer side's words to the shorter side's (default: %(default)s)")
    parser.add_argument("--max_sentences", type=int, default=10_000_000,
                        help="maximum number of sentences to train BPE on (default: %(default)s)")
    parser.add_argument("--seed", type=random_seed, default=0, help="random seed of the shuffle (default: %(default)s)")
    return parser.parse_args(argv)


def check(args: argparse.Namespace) -> None:
    """Checks the command line before any work.

    Raises:
      UserError: a file does not exist, has no counterpart, or would be overwritten, or two outputs are the same.
    """
    if len(args.train_source) != len(args.train_target):
        raise UserError(f"--train_source names {len(args.train_source)} files but --train_target "
                        f"{len(args.train_target)}: give them in pairs.")
    files = [*args.train_source, *args.train_target]
    for split in ("dev", "test"):
        source, target = getattr(args, f"{split}_source"), getattr(args, f"{split}_target")
        if bool(source) != bool(target):
            raise UserError(f"Give both --{split}_source and --{split}_target, or neither.")
        files += [source, target] if source else []
    missing = [path for path in files if not os.path.isfile(path)]
    if missing:
        raise UserError(f"These files do not exist: {', '.join(missing)}.")
    plain = [*clean_files(args), *(f"{path}.shuffled" for path in clean_files(args)),
             *(path for split in ("dev", "test") for path in plain_files(args, split))]
    check_no_input([*plain, *(encoded_file(args, path) for path in plain)], files)


def clean_files(args: argparse.Namespace) -> list[str]:
    """Returns the paths of the cleaned training files, source and target."""
    return [os.path.join(args.output_dir, f"train.clean.{side}") for side in (args.source_lang, args.target_lang)]


def plain_files(args: argparse.Namespace, split: str) -> list[str]:
    """Returns the paths of the plain-text files of the development or test set, source and target."""
    stem = f"{getattr(args, f'{split}_name')}-{args.source_lang}-{args.target_lang}"
    return [os.path.join(args.output_dir, f"{stem}.{side}") for side in ("src", "ref")]


def encoded_file(args: argparse.Namespace, text: str) -> str:
    """Returns the path of the BPE-encoded version of a text file."""
    size = f"{args.vocab_size // 1024}K" if args.vocab_size % 1024 == 0 else str(args.vocab_size)
    return f"{text}.BPE_common.{size}.tok"


def clean_and_shuffle(args: argparse.Namespace) -> list[str]:
    """Writes the training files; returns the paths of the shuffled ones, source and target.

    Raises:
      DataError: no pair passes cleaning.
    """
    cleaning = Cleaning(args.min_length, args.max_length, args.max_ratio)
    clean = clean_files(args)
    pairs = (pair for files in zip(args.train_source, args.train_target, strict=True) for pair in read_pairs(*files))
    write_pairs(cleaning.filter(pairs), *clean)
    deco_print(f"{' and '.join(clean)}: {cleaning.kept} pairs, {cleaning.dropped} dropped")
    if not cleaning.kept:
        raise DataError(f"None of the {cleaning.dropped} training pairs passed cleaning: relax --min_length, "
                        "--max_length or --max_ratio.")
    shuffled = [f"{path}.shuffled" for path in clean]
    shuffle_files(clean, shuffled, args.seed)
    return shuffled


def main(argv: list[str] | None = None) -> None:
    """Writes all files."""
    args = parse_args(argv)
    check(args)
    texts = clean_and_shuffle(args)
    model = train_sentencepiece(texts, os.path.join(args.output_dir, "m_common"), args.vocab_size, "bpe",
                                max_sentences=args.max_sentences)
    for split in ("dev", "test"):
        source, target = getattr(args, f"{split}_source"), getattr(args, f"{split}_target")
        if source:
            plain = plain_files(args, split)
            write_pairs(read_pairs(source, target), *plain)
            texts += plain
    for text in texts:
        output = encoded_file(args, text)
        deco_print(f"{output}: {encode_file(model, text, output)} lines")


if __name__ == "__main__":
    run_script(main)
