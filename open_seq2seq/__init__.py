"""A toolkit that trains sequence-to-sequence models from a config file."""

import importlib.util
import sys

__version__ = "0.1.0"

MISSING_TENSORFLOW = (
    "TensorFlow is not installed: run `pip install open-seq2seq[cpu]` on a machine without GPUs, "
    "or `pip install open-seq2seq[gpu]` for NVIDIA GPUs."
)

if importlib.util.find_spec("tensorflow") is None:
    # The console script and `python -m open_seq2seq` import this package before any of our
    # code could catch the error, and a traceback is no answer to a missing extra.
    if sys.argv and sys.argv[0].endswith(("/open_seq2seq", "-m")):
        sys.stderr.write(f"Error: {MISSING_TENSORFLOW}\n")
        raise SystemExit(2)
    raise ImportError(MISSING_TENSORFLOW)
