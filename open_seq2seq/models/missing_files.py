"""Finds files that a config names but that do not exist, before anything is built."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from open_seq2seq.config.files import ASSET, DATA, LIST, named_files
from open_seq2seq.config.known_names import named_object
from open_seq2seq.config.names import resolve_name
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.utils.errors import ConfigError, did_you_mean


def missing_files(base_model: Any, params: Mapping[str, Any], section: str, resumes: bool = False) -> list[str]:
    """Returns one sentence for each file that a data layer of a model would read but that does not exist.

    A symbolic link to a missing file is not reported here, but when the data layer opens it. Names of classes that do
    not exist are ignored, because other checks report them.

    Args:
      base_model: the model's class, or its name.
      params: the model's parameters in a section.
      section: name of the section. Files are checked only in ``train`` and ``eval``; files of which checkpoints have
        copies, such as vocabularies, only in ``train`` if training does not resume.
      resumes: whether training resumes from a checkpoint.
    """
    if section not in ("train", "eval"):
        return []
    kinds = (DATA, LIST) if resumes or section == "eval" else (DATA, LIST, ASSET)
    try:
        model_class = resolve_name(base_model, "model", "base_model")
    except ConfigError:
        return []
    places: dict[str, list[str]] = {}  # missing file → the parameters that name it
    for name, part in model_class.all_parts().items():
        layer, below = named_object(model_class, name, params.get(name)), params.get(f"{name}_params")
        if inspect.isclass(layer) and issubclass(part.base, DataLayer) and issubclass(layer, DataLayer) \
                and isinstance(below, Mapping):
            files = named_files(layer, layer.opened_files(below), (f"{name}_params",))
            for file in files:
                if file.kind in kinds and not _exists(file.value):
                    places.setdefault(str(file.value), []).append(f"'{'/'.join(file.path)}'")
    return [_sentence(value, names) for value, names in places.items()]


def _exists(path: str | None) -> bool:
    try:
        return path is None or os.path.lexists(os.path.expanduser(path))
    except ValueError:  # the name is invalid; the data layer will report this
        return True


def _sentence(value: str, names: list[str]) -> str:
    folder, name = os.path.split(value)
    try:
        others = os.listdir(folder or ".")
    except OSError:  # there is no such folder, or it is not readable
        others = []
    hint = did_you_mean(name, others)
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {verb} {value!r}, but the file {value} does not exist.{hint}"
