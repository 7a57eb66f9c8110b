"""Trains, evaluates or runs the model that a config file describes; see ``python run.py --help``."""

import sys

if __name__ == "__main__":
    try:
        from open_seq2seq.cli import main
    except ImportError as error:  # a missing dependency; the message names the extra to install
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(2)
    sys.exit(main())
