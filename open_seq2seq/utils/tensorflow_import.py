"""Imports TensorFlow without its log, and with an allocator that keeps freed memory."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from open_seq2seq.utils.environment import check_limits, scratch_file
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.machine import has_onednn

MISSING_TENSORFLOW = ("TensorFlow is not installed: run `pip install open-seq2seq[cpu]` on a machine without GPUs, or "
                      "`pip install open-seq2seq[gpu]` for NVIDIA GPUs.")


class _LateLoader(Loader):
    """Loader that executes a module only when one of its attributes is first accessed."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        def load(name: str) -> object:
            # Code that inspects all modules reads attributes such as __file__; this should not execute the module.
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            vars(module).pop("__getattr__", None)
            self._loader.exec_module(module)
            return getattr(module, name)

        module.__getattr__ = load  # type: ignore[method-assign]


class _LateFinder(MetaPathFinder):
    """Delays the imports of Keras modules that import scikit-learn or matplotlib, which takes seconds."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if module not in ("visualization", "wrappers") or package.partition(".")[0] != "keras":
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = _LateLoader(spec.loader)
        return spec


@functools.cache
def in_own_process() -> None:
    """Speeds up the import of Keras; only for processes that a command or a script of the toolkit has started."""
    sys.meta_path.insert(0, _LateFinder())


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
    """Captures all output to file descriptor 2, including that of C++ code, and shows it only after an error.

    After Ctrl-C it is not shown.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with scratch_file() as buffer:
        os.dup2(buffer.fileno(), 2)
        failed = False
        try:
            yield
        except Exception:
            failed = True
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            if failed:
                buffer.seek(0)
                os.write(2, buffer.read())
