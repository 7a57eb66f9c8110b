"""Lists the files that no output of a run may overwrite: the run's inputs, and the files in its log directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints.folders import AVERAGED, BEST_MODELS, DIVERGENCE, KEPT_FILES, LOGS, SAMPLES
from open_seq2seq.config.options import RunOptions
from open_seq2seq.models.model import Model
from open_seq2seq.run.logdir_lock import LOCK

# Folders and files that runs, also with --enable_logs, create directly in a log directory.
_MADE_FOLDERS = ("model.ckpt-*", BEST_MODELS, AVERAGED, KEPT_FILES, DIVERGENCE, SAMPLES, LOGS, "config_*")
_MADE_FILES = (LOCK, "state.json", "*.safetensors", "config.yaml", "assets/*", "events.out.tfevents.*", "config_*",
               "cmd-args_*", "git-info_*", "stdout_*", "stderr_*", "overview.txt*", "metrics.csv*", "report.html")


def protected_files(options: RunOptions, model: Model) -> Iterator[str]:
    """Yields the names of files that no output of a run may overwrite; not all of them have to exist.

    These are the config file and its bases, every string in the config, the files of ``--infer_files``, the data files
    that contain one example each, and the files that runs have written to ``logdir`` and ``load_model``.
    """
    yield from options.config.config_file.files
    yield from options.infer_files
    yield from _texts(options.config.config_file.sections)
    yield from _texts(model.params)
    yield from _texts(model.data_layer.params)
    yield from model.data_layer.example_files()
    for name in ("logdir", "load_model"):
        if folder := model.params.get(name):
            yield from _made_in(Path(folder).expanduser())


def _texts(value: Any) -> Iterator[str]:
    """Yields all strings in a nested value, as any of them may be the name of a file."""
    if isinstance(value, str):
        yield value
        yield os.path.expanduser(value)
    elif isinstance(value, (Mapping, list, tuple)):
        items: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
        for item in items:
            yield from _texts(item)


def _made_in(folder: Path) -> Iterator[str]:
    for pattern in _MADE_FILES:
        yield from map(str, folder.glob(pattern))
    for pattern in _MADE_FOLDERS:
        for made in folder.glob(pattern):
            for place, _, names in os.walk(made):
                yield from (os.path.join(place, name) for name in names)
