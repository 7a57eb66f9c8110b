"""Imports TensorFlow without its log, and with an allocator that keeps freed memory."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator

from open_seq2seq import MISSING_TENSORFLOW
from open_seq2seq.utils.environment import check_limits, scratch_file
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.processor import has_onednn


def import_tensorflow() -> None:
    """Calls ``keep_freed_memory``, and imports TensorFlow without its log if it has not been imported yet.

    Even those lines of the log are suppressed that no setting of TensorFlow can suppress. The log is shown if the
    environment variable ``TF_CPP_MIN_LOG_LEVEL`` is 0 or 1.

    Raises:
      UserError: TensorFlow cannot be imported; its output on stderr is shown in this case.
    """
    keep_freed_memory()
    if "tensorflow" in sys.modules:
        return
    check_limits()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with _without_log():
            import tensorflow  # noqa: F401
    except ImportError as error:
        reason = str(error).strip().split("\n")[0]
        raise UserError(f"TensorFlow cannot be imported ({reason}). {MISSING_TENSORFLOW}") from error


@functools.cache
def suppress_false_alarm() -> None:
    """Suppresses a line that TensorFlow's log would contain once per process.

    With oneDNN, TensorFlow 2.21 reports as an error that oneDNN does not transpose integers or truth values, when it
    transposes them for the first time, by itself. Here it does so without its log. This initialises TensorFlow's
    devices, which cannot be configured afterwards.
    """
    if has_onednn():
        import tensorflow as tf

        with _without_log():
            tf.transpose(tf.zeros([2, 2], tf.int32))


def keep_freed_memory() -> None:
    """Selects TensorFlow's own allocator (BFC, "best fit with coalescing") for tensors in the main memory.

    TensorFlow's default without oneDNN is the C library's allocator, which returns the memory of large tensors to the
    operating system. The system clears the memory of new tensors page by page, which may take almost half of a training
    step (docs/speed.md). With oneDNN, TensorFlow always uses an allocator that keeps freed memory.

    The function sets two environment variables unless they are set. They have an effect only if TensorFlow has not
    initialised its devices yet.
    """
    os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
    os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(1 << 24))  # 16 TiB, so in effect no limit; default: 64 GiB


def _without_log() -> contextlib.AbstractContextManager[None]:
    wanted = os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1")
    return contextlib.nullcontext() if wanted else _stderr_held_back()


@contextlib.contextmanager
def _stderr_held_back() -> Iterator[None]:
    """Captures all output to file descriptor 2, including that of C++ code, and shows it only after an error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with scratch_file() as buffer:
        os.dup2(buffer.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            if failed:
                buffer.seek(0)
                os.write(2, buffer.read())
