"""Files that inference needs besides weights and config: which ones checkpoints keep, and how they are found there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.config.overrides import Override
from open_seq2seq.training.checkpoints.files import ASSETS

_ALPHABET = ("data_layer_params", "vocab_file")
_LANGUAGE_MODELS = tuple((*decoder, name) for decoder in (("decoder_params",), ("decoder_params", "ctc_decoder_params"))
                         for name in ("lm_path", "lm_vocabulary"))
_COMPRESSED = ".gz"  # stays in the name: it tells how to read the file


def language_model_files(params: Mapping[str, Any]) -> dict[str, str]:
    """Returns the files of the language model that inference would use: name in the checkpoint → path.

    One that does not exist is left out: inference says so if it needs it.

    Args:
      params: of the model, for inference.
    """
    found = {}
    for keys in _LANGUAGE_MODELS:
        value: Any = params
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, str) and os.path.isfile(value):
            found[".".join(keys) + (_COMPRESSED if value.endswith(_COMPRESSED) else "")] = value
    return found


def kept_files_of(checkpoint: Path) -> list[Override]:
    """Returns the values that make a model use the alphabet and the language model that a checkpoint has, if any."""
    places = {"vocab_file": _ALPHABET}
    for keys in _LANGUAGE_MODELS:
        places |= {".".join(keys): keys, ".".join(keys) + _COMPRESSED: keys}
    paths = {checkpoint / ASSETS / name: keys for name, keys in places.items()}
    return [Override(None, keys, str(path)) for path, keys in paths.items() if path.is_file()]
