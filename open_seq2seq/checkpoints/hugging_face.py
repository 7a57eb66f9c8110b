"""Folders of Hugging Face's ``transformers``, from which training can take its initial weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.utils.errors import CheckpointError

_MOST_TOKENS = 10 ** 8  # ids beyond are damage
_CONFIG, _TENSORS, _TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Attributes:
      path: its path.
    """

    path: Path

    @classmethod
    def at(cls, path: Path) -> HuggingFaceFolder | None:
        """Returns the folder at a path; None if it is none of a model of ``transformers``."""
        return cls(path) if (path / _CONFIG).is_file() and (path / _TENSORS).is_file() else None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def architecture(self) -> str:
        """The class of the model, such as ``GPT2LMHeadModel``.

        Raises:
          CheckpointError: the configuration cannot be read.
        """
        names = self._json(_CONFIG).get("architectures")
        return str(names[0]) if isinstance(names, list) and names else "an unknown class"

    def tokens(self) -> list[str]:
        """Returns the tokens in the order of their ids; ids without a token get a name of their own.

        Raises:
          CheckpointError: the tokenizer is missing or of an unknown kind.
        """
        model = self._json(_TOKENIZER).get("model")
        vocabulary = model.get("vocab") if isinstance(model, dict) else None
        if isinstance(vocabulary, list) and all(isinstance(entry, list) and entry for entry in vocabulary):
            return [str(entry[0]) for entry in vocabulary]
        if not isinstance(vocabulary, dict) or not all(
                type(number) is int and 0 <= number < _MOST_TOKENS for number in vocabulary.values()):
            raise CheckpointError(f"{self.path / _TOKENIZER} has no vocabulary that can be read: copy the folder "
                                  "again.")
        names = {number: token for token, number in vocabulary.items()}
        return [names.get(number, f"<unused {number}>") for number in range(max(names, default=-1) + 1)]

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns the tensors by name, as float32.

        Raises:
          CheckpointError: the file is damaged.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return {name: tensor.astype(np.float32) for name, tensor in load_file(self.path / _TENSORS).items()}
        except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(f"{self.path / _TENSORS} cannot be read ({error}): copy the folder again.") from error

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path / name} cannot be read ({error}): copy the folder again.") from error
        return content if isinstance(content, dict) else {}
