"""Scripts, run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[3] / "scripts"


def run(script, *args, cwd):
    """Runs a script from another folder, without the package on the path."""
    return subprocess.run([sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, args)], cwd=cwd, env={"PATH": ""},
                          capture_output=True, text=True, timeout=300, check=False)


def ok(script, *args, cwd):
    result = run(script, *args, cwd=cwd)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    return result
