"""Files that inference needs besides weights and config: what a run keeps of them, and how it is found there."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.config.overrides import Override
from open_seq2seq.training.checkpoints.files import ASSETS
from open_seq2seq.training.logdir import LANGUAGE_MODELS
from open_seq2seq.utils.console import deco_print

MODES = ("infer", "interactive_infer")
_ALPHABET = ("data_layer_params", "vocab_file")
_PATHS = tuple((*decoder, name) for decoder in (("decoder_params",), ("decoder_params", "ctc_decoder_params"))
               for name in ("lm_path", "lm_vocabulary"))
_COMPRESSED = ".gz"  # stays in the name: it tells how to read the file


def keep_language_models(folder: Path, params_of: Mapping[str, Mapping[str, Any]]) -> None:
    """Copies the language models that inference would use beside a run's checkpoints, unless a copy is there.

    Once, not into each checkpoint: they may be large. One that cannot be read or copied is not kept, since training
    does not need it; what was kept of it before stays.

    Args:
      folder: holds the checkpoints.
      params_of: the model's parameters in each of ``MODES``.
    """
    copies: dict[Path, Path] = {}
    wanted: set[Path] = set()
    for mode, params in params_of.items():
        for name, source in _language_models(params):
            target = folder / LANGUAGE_MODELS / f"{mode}.{name}"
            wanted.add(target)
            try:
                _keep(copies.get(source, source), target)
                copies[source] = target
            except OSError as error:
                kept = "its copy from before is kept" if target.is_file() else "inference needs it at its own place"
                deco_print(f"The language model {source} cannot be copied to {target} ({error.strerror or error}): "
                           f"{kept}.")
    with contextlib.suppress(OSError):
        for path in (folder / LANGUAGE_MODELS).iterdir():
            if path not in wanted:  # an earlier run made it for another config
                path.unlink()


def _keep(source: Path, target: Path) -> None:
    """Makes a file a copy of another one, or a further name of it where that is a copy beside it."""
    wanted = source.stat()
    if target.is_file() and _same(target.stat(), wanted):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.tmp")
    unfinished.unlink(missing_ok=True)
    if source.parent == target.parent:  # other files may be changed in place
        with contextlib.suppress(OSError):  # a file system that gives a file but one name
            os.link(source, unfinished)
    if not unfinished.exists():
        shutil.copyfile(source, unfinished)
        os.utime(unfinished, ns=(wanted.st_atime_ns, wanted.st_mtime_ns))  # by which it is known again
    os.replace(unfinished, target)


def _language_models(params: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Yields (name of the copy, file) of what parameters name."""
    for keys in _PATHS:
        value: Any = params
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            yield ".".join(keys) + (_COMPRESSED if value.endswith(_COMPRESSED) else ""), Path(value)


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    # Some file systems keep no more than seconds.
    return one.st_size == other.st_size and int(one.st_mtime) == int(other.st_mtime)


def kept_files_of(checkpoint: Path, mode: str) -> list[Override]:
    """Returns the values that make a model use the kept alphabet and language model, where there are such.

    Args:
      checkpoint: holds the alphabet; the folder that it is in, or one above (``best_models``), the language model.
      mode: one of ``MODES``.
    """
    places = {checkpoint / ASSETS / "vocab_file": _ALPHABET}
    for folder in checkpoint.absolute().parents[1::-1]:  # where both have one, the nearer one is the last word
        for keys in _PATHS:
            name = f"{mode}.{'.'.join(keys)}"
            places |= {folder / LANGUAGE_MODELS / name: keys, folder / LANGUAGE_MODELS / (name + _COMPRESSED): keys}
    return [Override(None, keys, str(path)) for path, keys in places.items() if path.is_file()]
