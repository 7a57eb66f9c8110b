"""Trains SentencePiece models, splits text into pieces and joins pieces to text.

usage: python scripts/tokenizer_wrapper.py --mode=MODE …, with the flags of the mode:

  train       --text_input=FILE[,FILE…] --model_prefix=PREFIX
              [--vocab_size --model_type --character_coverage]
  encode      --text_input=FILE --tokenized_output=FILE --model_prefix=PREFIX
  tokenize    --text_input1=FILE --text_input2=FILE --tokenized_output1=FILE --tokenized_output2=FILE
              --model_prefix1=PREFIX --model_prefix2=PREFIX
  detokenize  --text_input=FILE --decoded_output=FILE --model_prefix=PREFIX   (or: decode)
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.data.text2text.preparation import decode_file, encode_file
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import ScriptParser, run_script

NEEDED = {
    "train": ("text_input", "model_prefix"),
    "encode": ("text_input", "tokenized_output", "model_prefix"),
    "tokenize": ("text_input1", "text_input2", "tokenized_output1", "tokenized_output2", "model_prefix1",
                 "model_prefix2"),
    "detokenize": ("text_input", "decoded_output", "model_prefix"),
}
NEEDED["decode"] = NEEDED["detokenize"]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--mode", required=True, choices=list(NEEDED))
    for suffix in ("", "1", "2"):
        which = f" of language {suffix}, in mode tokenize" if suffix else ""
        parser.add_argument(f"--text_input{suffix}", help=f"input text file{which}")
        parser.add_argument(f"--tokenized_output{suffix}", help=f"output file for the pieces{which}")
        parser.add_argument(f"--model_prefix{suffix}", help=f"path, without .model, of the model{which}")
    parser.add_argument("--decoded_output", help="output file for the plain text")
    parser.add_argument("--vocab_size", type=int, default=32768, help="number of pieces (default: %(default)s)")
    parser.add_argument("--model_type", default="bpe", choices=["bpe", "unigram"],
                        help="type of SentencePiece model (default: %(default)s)")
    parser.add_argument("--character_coverage", type=float, default=1.0,
                        help="fraction of the text's characters that the pieces must cover (default: %(default)s)")
    return parser.parse_args(argv)


def model_path(prefix: str) -> str:
    """Returns the path of the model file for a prefix, which may already end in .model."""
    return prefix if prefix.endswith(".model") else f"{prefix}.model"


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    args = parse_args(argv)
    missing = [f"--{name}" for name in NEEDED[args.mode] if not getattr(args, name)]
    if missing:
        raise UserError(f"Mode {args.mode} also needs {', '.join(missing)}.")
    models = [model_path(prefix) for prefix in (args.model_prefix, args.model_prefix1, args.model_prefix2) if prefix]
    check_no_input([args.tokenized_output, args.tokenized_output1, args.tokenized_output2, args.decoded_output],
                   [*(args.text_input or "").split(","), args.text_input1, args.text_input2, *models])
    if args.mode == "train":
        train_sentencepiece(args.text_input.split(","), args.model_prefix.removesuffix(".model"), args.vocab_size,
                            args.model_type, args.character_coverage)
    elif args.mode in ("detokenize", "decode"):
        report(args.decoded_output, decode_file(model_path(args.model_prefix), args.text_input, args.decoded_output))
    else:
        for side in ("1", "2") if args.mode == "tokenize" else ("",):
            model, text, output = (getattr(args, name + side) for name in
                                   ("model_prefix", "text_input", "tokenized_output"))
            report(output, encode_file(model_path(model), text, output))


def report(path: str, lines: int) -> None:
    """Prints which file was written and its number of lines."""
    deco_print(f"Wrote {path} ({lines} lines)")


if __name__ == "__main__":
    run_script(main)
