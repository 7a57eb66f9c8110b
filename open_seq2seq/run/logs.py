"""``--enable_logs``: saves the config, command line, git state and output of a run in its log directory."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from open_seq2seq.config.resolve import RunOptions
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
    ``YYYY-MM-DD_HH-MM-SS``. A config that is based on others is saved with them, in the folder ``config_<ts>``, so that
    it can be loaded from there. Output from Python is copied; messages of C++ libraries are not.

    Args:
      root: the log directory, created if missing.
      config_files: the config, and the files that it is based on.
      argv: the arguments of the command line.
      config_yaml: the resolved config, which is saved if there are no files, as for a config from Python.

    Raises:
      UserError: on entry, if the directory cannot be written.
    """

    def __init__(self, root: str | os.PathLike[str], config_files: Sequence[str], argv: Sequence[str],
                 config_yaml: str = "") -> None:
        self._root = Path(root)
        self._config_files = config_files
        self._argv, self._config_yaml = list(argv), config_yaml
        self._files: list[EnduringStream] = []
        self._streams: tuple[TextIO, TextIO] | None = None

    def __enter__(self) -> RunLogs:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            stamps = {path.stem.partition("_")[2] for path in self._root.iterdir()}
            numbered = map(f"{stamp}-{{}}".format, itertools.count(2))
            stamp = next(free for free in itertools.chain([stamp], numbered) if free not in stamps)
            self._copy_config(self._root / f"config_{stamp}")
            self._write(f"cmd-args_{stamp}.log", shlex.join(self._argv) + "\n")
            git = git_info()
            if git is not None:
                self._write(f"git-info_{stamp}.log", git)
            for name in ("stdout", "stderr"):
                path = self._root / f"{name}_{stamp}.log"
                self._files.append(EnduringStream(open(path, "x", buffering=1, encoding="utf-8"), str(path)))
        except OSError as error:
            raise UserError(f"--enable_logs cannot write to {self._root}: {error.strerror}.") from error
        self._streams = (sys.stdout, sys.stderr)
        sys.stdout = Tee(sys.stdout, self._files[0])  # type: ignore[assignment]
        sys.stderr = Tee(sys.stderr, self._files[1])  # type: ignore[assignment]
        return self

    @classmethod
    def of(cls, root: Path, options: RunOptions) -> RunLogs:
        """Returns the logs of a run with these options."""
        config = options.config
        return cls(root, config.config_file.files, options.argv, to_yaml(config.as_sections()))

    def _copy_config(self, copy: Path) -> None:
        if not self._config_files:
            self._write(f"{copy.name}.yaml", self._config_yaml)
            return
        first = self._config_files[0]
        if len(self._config_files) == 1:
            disk.copy_new(first, copy.with_name(copy.name + os.path.splitext(first)[1]))
            return
        folder = os.path.commonpath([os.path.dirname(file) for file in self._config_files])
        for file in self._config_files:  # in folders as in the original, so that relative paths of bases lead to copies
            target = copy / os.path.relpath(file, folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            disk.copy_new(file, target)

    def _write(self, name: str, text: str) -> None:
        disk.write_new(self._root / name, text.encode("utf-8", errors="backslashreplace"))

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
