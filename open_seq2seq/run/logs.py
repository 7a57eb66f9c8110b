"""``--enable_logs``: saves the config, command line, git state and output of a run in its log directory."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import traceback
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import EnduringStream
from open_seq2seq.utils.errors import UserError


class Tee:
    """A text stream that writes both to the terminal and to a file."""

    def __init__(self, stream: TextIO, copy: EnduringStream) -> None:
        self._stream = stream
        self._copy = copy

    @property
    def terminal(self) -> TextIO:
        """The stream of the terminal alone, for output that the file must not contain."""
        return self._stream

    def write(self, text: str) -> int:
        """Writes to both streams."""
        self._copy.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        """Flushes both streams."""
        self._copy.flush()
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class RunLogs:
    """Context manager that saves the config, command line, git state and console output of a run.

    Writes ``config_<ts>.py`` (or ``.yaml``), ``cmd-args_<ts>.log``, ``git-info_<ts>.log`` (commit and diff, if the
    working directory is in a git repository), ``stdout_<ts>.log`` and ``stderr_<ts>.log``, where ``<ts>`` is
    ``YYYY-MM-DD_HH-MM-SS``. Output from Python is copied; messages of C++ libraries are not.

    Args:
      root: the log directory, created if missing.
      options: options of the run, whose config file is copied; a config from Python is written as YAML.

    Raises:
      UserError: on entry, if the directory cannot be written.
    """

    def __init__(self, root: str | os.PathLike[str], options: RunOptions) -> None:
        self._root = Path(root)
        self._options = options
        self._files: list[EnduringStream] = []
        self._streams: tuple[TextIO, TextIO] | None = None

    def __enter__(self) -> RunLogs:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            stamp = self._unused(stamp)
            if config := self._options.config_file:
                disk.copy_new(config, self._root / f"config_{stamp}{os.path.splitext(config)[1]}")
            else:
                self._write(f"config_{stamp}.yaml", to_yaml(self._options.config.as_sections()))
            self._write(f"cmd-args_{stamp}.log", shlex.join(self._options.argv) + "\n")
            git = git_info()
            if git is not None:
                self._write(f"git-info_{stamp}.log", git)
            for name in ("stdout", "stderr"):
                path = self._root / f"{name}_{stamp}.log"
                self._files.append(EnduringStream(disk.new_file(path, "x", buffering=1), str(path)))
        except OSError as error:
            raise UserError(f"--enable_logs cannot write to {self._root}: {error.strerror}.") from error
        self._streams = (sys.stdout, sys.stderr)
        sys.stdout = Tee(sys.stdout, self._files[0])  # type: ignore[assignment]
        sys.stderr = Tee(sys.stderr, self._files[1])  # type: ignore[assignment]
        return self

    def _write(self, name: str, text: str) -> None:
        disk.write_new(self._root / name, text.encode("utf-8", errors="backslashreplace"))

    def _unused(self, stamp: str) -> str:
        """Returns the stamp, with a number appended if a file in the directory already has it."""
        stamps = {path.stem.partition("_")[2] for path in self._root.iterdir()}
        return stamp if stamp not in stamps else next(
            free for number in itertools.count(2) if (free := f"{stamp}-{number}") not in stamps)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
        # The error is written to the log now, because the interpreter prints it later, when output is no longer copied.
        if isinstance(error, UserError):
            self._files[1].write(f"Error: {error}\n")
        elif error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(kind, error, trace, file=self._files[1])  # type: ignore[arg-type]
        for file in self._files:
            file.close()


def git_info(folder: str | None = None) -> str | None:
    """Returns the commit and uncommitted changes of the git repository that contains a folder.

    The result is None if there is no repository or no git.

    Args:
      folder: the folder; by default the working directory.
    """
    outputs = []
    for command in (("rev-parse", "HEAD"), ("diff", "HEAD")):
        try:
            done = subprocess.run(["git", *command], cwd=folder, capture_output=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        outputs.append(done.stdout.decode("utf-8", "replace"))
    return f"commit hash: {outputs[0]}{outputs[1]}"
