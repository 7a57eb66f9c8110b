"""A toolkit that trains sequence-to-sequence models from a config file."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from open_seq2seq.loading import TrainedModel

__version__ = "0.1.0"

MISSING_TENSORFLOW = (
    "TensorFlow is not installed: run `pip install open-seq2seq[cpu]` on a machine without GPUs, "
    "or `pip install open-seq2seq[gpu]` for NVIDIA GPUs."
)

if importlib.util.find_spec("tensorflow") is None:
    # The console script and `python -m open_seq2seq` import this package before any of our code could catch an
    # ImportError, so the message is written here to avoid a traceback.
    if sys.argv and sys.argv[0].endswith(("/open_seq2seq", "-m")):
        sys.stderr.write(f"Error: {MISSING_TENSORFLOW}\n")
        raise SystemExit(2)
    raise ImportError(MISSING_TENSORFLOW)


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


sys.meta_path.insert(0, _LateFinder())


def load(logdir: str | os.PathLike[str], *arguments: str, trust_code: bool = False) -> TrainedModel:
    """Loads a trained model from its log directory alone, wherever that has been moved.

    >>> model = open_seq2seq.load("logdir")  # doctest: +SKIP
    >>> model.translate(["a b c", "d e"])  # doctest: +SKIP
    ['c b a', 'e d']

    Args:
      logdir: folder that training has written to, or one of its checkpoints.
      *arguments: config values as on the command line, such as ``"--decoder_params/beam_size=1"``.
      trust_code: whether the config in the log directory may import and run code from outside the package.

    Returns:
      The model, whose methods can be called from any thread. Threads may call ``load``, too; they load one after the
      other.

    Raises:
      open_seq2seq.utils.errors.UserError: the log directory has no usable checkpoint, or an argument is invalid.
    """
    from open_seq2seq.config import user_code
    from open_seq2seq.utils.tensorflow_import import import_tensorflow

    with user_code.loading:
        import_tensorflow()  # the first import of TensorFlow, so that its log is suppressed, as on the command line
        from open_seq2seq import loading

        return loading.load(logdir, *arguments, trust_code=trust_code)
