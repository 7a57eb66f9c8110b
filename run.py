"""Trains, evaluates and runs the model of a config file: see ``python run.py --help``."""

import sys

if __name__ == "__main__":
    try:
        from open_seq2seq.cli import main
    except ImportError as error:  # a missing dependency; the sentence names the extra to install
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(2)
    sys.exit(main())
