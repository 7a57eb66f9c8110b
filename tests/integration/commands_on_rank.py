"""The command, several times in one process of several: each argument is a JSON list of the command's own."""

from __future__ import annotations

import json
import sys

from open_seq2seq.cli import main

for arguments in sys.argv[1:]:
    if code := main(json.loads(arguments)):
        sys.exit(code)
