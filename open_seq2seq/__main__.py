"""Runs the command ``open_seq2seq`` as ``python -m open_seq2seq``."""

import sys

from open_seq2seq.cli import main

if __name__ == "__main__":
    sys.exit(main())
