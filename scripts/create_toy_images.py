"""Creates toy images: circles, crosses, squares and triangles of 32 × 32 pixels.

usage: python scripts/create_toy_images.py --output_dir=toy_image_data

Writes images in the binary format of CIFAR-10 (data_batch_1.bin to data_batch_5.bin, test_batch.bin), and other images
of the same kind as train/<shape>/<number>.png and dev/<shape>/<number>.png.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, check_sizes, quiet_tensorflow, random_seed, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--output_dir", default="toy_image_data", help="folder to write to (default: %(default)s)")
    parser.add_argument("--train_size", type=int, default=2000, help="number of training images (default: %(default)s)")
    parser.add_argument("--dev_size", type=int, default=400, help="number of images for evaluation "
                        "(default: %(default)s)")
    parser.add_argument("--seed", type=random_seed, default=0, help="random seed (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the data set."""
    args = parse_args(argv)
    check_sizes(args, 10**5, "train_size", "dev_size")
    if args.train_size < 5 or args.dev_size < 1:
        raise UserError(f"--train_size is {args.train_size} and --dev_size is {args.dev_size}, but they have to be at "
                        "least 5 and 1.")
    quiet_tensorflow()  # only now, because mistakes need not wait for it
    from open_seq2seq.data.image2label.toy_images import write_toy_cifar, write_toy_folders

    write_toy_cifar(args.output_dir, args.train_size, args.dev_size, args.seed)
    write_toy_folders(args.output_dir, {"train": args.train_size, "dev": args.dev_size}, args.seed)
    deco_print(f"{args.output_dir}: {args.train_size} images for training and {args.dev_size} for evaluation")


if __name__ == "__main__":
    run_script(main)
