"""How the programs in ``scripts/`` end."""

from __future__ import annotations

import sys
from collections.abc import Callable

from open_seq2seq.utils.errors import UserError


def run_script(main: Callable[[], None]) -> None:
    """Runs a script's main function; a user's mistake ends it with one sentence and exit code 2."""
    try:
        main()
    except (UserError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(2) from error
