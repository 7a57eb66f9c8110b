"""Creates the files in open_seq2seq/test_utils/ that configs of NVIDIA's OpenSeq2Seq name.

usage: python scripts/create_test_utils.py

Writes, below the working directory:

* open_seq2seq/test_utils/toy_speech_data/vocab.txt: the space, the letters a to z, and the apostrophe;
* open_seq2seq/test_utils/toy_speech_data/toy_data.csv and wav/: toy speech, as by scripts/create_toy_speech.py;
* open_seq2seq/test_utils/vocab_tts.txt: the characters of example_configs/text2speech/english.txt.

Models trained with NVIDIA's OpenSeq2Seq need its own vocab_tts.txt, whose characters are other ones.
"""

from __future__ import annotations

import argparse
import os
import string
import sys
from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, run_script

RECORDINGS = 10
FOLDER = Path("open_seq2seq", "test_utils")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--output_dir", default=".", help="folder below which to write (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the files."""
    folder = Path(parse_args(argv).output_dir, FOLDER)
    if folder.exists():
        raise UserError(f"{folder} already exists: remove it, or give another --output_dir.")
    speech = folder / "toy_speech_data"
    write_toy_speech(str(speech), {"toy_data": RECORDINGS})
    characters = Path(ROOT, "example_configs", "text2speech", "english.txt").read_bytes()
    letters = "".join(f"{letter}\n" for letter in f" {string.ascii_lowercase}'").encode()
    for path, content in ((speech / "vocab.txt", letters), (folder / "vocab_tts.txt", characters)):
        with disk.writing(path, disk.always) as file:
            file.write(content)
    deco_print(f"{folder}: {RECORDINGS} recordings, and two lists of characters")


if __name__ == "__main__":
    run_script(main)
