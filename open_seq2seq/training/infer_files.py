"""``--infer_files``: recordings on the command line, with the config of a checkpoint."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from open_seq2seq.config.overrides import Override
from open_seq2seq.training.checkpoints.files import CONFIG
from open_seq2seq.training.logdir import find_checkpoint
from open_seq2seq.utils.errors import UserError

STANDARD_INPUT = "-"
_SECTION, _DATA = "infer_params", "data_layer_params"


def given(overrides: Sequence[Override], name: str) -> str | None:
    """Returns the value that the command line gives a parameter of the model, or None."""
    found = [override.text for override in overrides
             if override.keys == (name,) and override.section in (None, _SECTION)]
    return found[-1] if found else None


def checkpoint_in(logdir: str | None, restore_best: bool) -> Path:
    """Returns the checkpoint of a logdir whose config is to be used.

    Raises:
      UserError: no logdir, or none in it.
    """
    if not logdir:
        raise UserError("--infer_files needs a trained model: give --logdir=FOLDER, or --config_file=FILE.")
    checkpoint = find_checkpoint(logdir, restore_best)
    if checkpoint is None:
        raise UserError(f"--logdir is {logdir}, which has no checkpoint: name the folder that training wrote to.")
    return checkpoint


def config_of(checkpoint: Path) -> str:
    """Returns the file of the config that a checkpoint was trained with."""
    return str(checkpoint / CONFIG)


def overrides_for(files: Sequence[str]) -> list[Override]:
    """Returns the values that make inference read these recordings.

    Args:
      files: recordings, folders, lists; ``-`` is a recording that comes by standard input.

    Raises:
      UserError: a file that does not exist, or an empty standard input.
    """
    missing = [name for name in files if name != STANDARD_INPUT and not os.path.exists(name)]
    if missing:
        raise UserError(f"--infer_files names {missing[0]}, which does not exist.")
    names = [_from_standard_input() if name == STANDARD_INPUT else name for name in files]
    return [Override(_SECTION, (_DATA, "dataset_files"), repr(names)),
            Override(_SECTION, (_DATA, "audio_root"), "None"),
            # The recordings' folder is the user's: nothing is left behind there.
            Override(_SECTION, (_DATA, "cache_features"), "False")]


def _from_standard_input() -> str:
    """Puts a recording from standard input into a file that lives as long as the process."""
    content = sys.stdin.buffer.read()
    if not content:
        raise UserError("--infer_files - reads a recording from standard input, but nothing came.")
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "standard-input.wav")  # what it really is, its content tells
    Path(path).write_bytes(content)
    return path
