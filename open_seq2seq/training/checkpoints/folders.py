"""The folders of a log directory, and the checkpoints in them: their names, and how they are found."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from open_seq2seq.training.checkpoints.files import CONFIG, OPTIMIZER, STATE, WEIGHTS
from open_seq2seq.utils.errors import CheckpointError

BEST_MODELS = "best_models"
AVERAGED = "averaged_models"
LOGS = "logs"
KEPT_FILES = "language_models"  # of checkpoints.kept_files; the name is from when it held nothing else
SAMPLES = "samples"
DIVERGENCE = "divergence"
ALL_FOLDERS = (BEST_MODELS, AVERAGED, LOGS, KEPT_FILES, DIVERGENCE, SAMPLES)

# A folder with one of these is a checkpoint, though perhaps a damaged one.
CHECKPOINT_FILES = (STATE, WEIGHTS, OPTIMIZER, CONFIG)
_REGULAR = re.compile(r"model\.ckpt-(\d+)$")
_BEST = re.compile(r"(.+)=([-+]?[\d.]+(?:e[-+]?\d+)?|nan|inf|-inf)-step-(\d+)$")


def regular_name(step: int | str) -> str:
    """Returns the name of a regular checkpoint's folder; of ``"*"`` a pattern for all of them."""
    return f"model.ckpt-{step}"


def regular_step(name: str) -> int | None:
    """Returns the step in the name of a regular checkpoint; None for other names."""
    match = _REGULAR.match(name)
    return int(match[1]) if match else None


def best_name(metric: str, value: float, step: int) -> str:
    """Returns the name of a best model's folder."""
    return f"{metric}={value:.4f}-step-{step}"


def best_parts(name: str) -> tuple[str, float, int] | None:
    """Returns (metric, value, step) in the name of a best model; None for other names."""
    match = _BEST.match(name)
    with contextlib.suppress(ValueError):  # not every text of digits and points is a number
        return (match[1], float(match[2]), int(match[3])) if match else None
    return None


def _has_checkpoint_files(folder: Path) -> bool:
    """Returns whether a folder has one of a checkpoint's files; True for a folder without access rights."""
    try:
        return any((folder / name).is_file() for name in CHECKPOINT_FILES)
    except OSError:
        return True


def step_in_name(name: str) -> int | None:
    """Returns the step in the name of a regular checkpoint or a best model; None for other names."""
    best = _BEST.match(name)
    return int(best[3]) if best else regular_step(name)


def may_be_checkpoint(entry: Path) -> bool:
    """Whether a run may have made a folder; an empty one may be left of a checkpoint."""
    if entry.is_symlink() or not entry.is_dir():
        return False
    names = os.listdir(entry)
    return not names or any(name in names for name in CHECKPOINT_FILES)


def list_checkpoints(folder: str | os.PathLike[str], best: bool = False) -> list[Path]:
    """Returns the checkpoints in a folder, the one of the highest step first.

    One whose files have been damaged or removed is among them; reading it says what is wrong.

    Args:
      folder: holds ``model.ckpt-<step>`` folders, or with ``best`` those named
        ``<metric>=<value>-step-<step>``.
      best: which of the two names to look for.
    """
    found = []
    with contextlib.suppress(OSError):
        for entry in Path(folder).iterdir():
            step = step_in_name(entry.name) if bool(_BEST.match(entry.name)) == best else None
            if step is not None and _has_checkpoint_files(entry):
                found.append((step, entry.name, entry))
    return [entry for _, _, entry in sorted(found, reverse=True)]


def find_checkpoint(folder: str | os.PathLike[str], restore_best: bool = False) -> Path | None:
    """Returns the checkpoint that a folder offers: the best, the newest, or the folder itself; None without one.

    Raises:
      CheckpointError: a folder in it is a link, which could lead anywhere.
    """
    found = find_checkpoints(folder, restore_best)
    return found[0] if found else None


def find_checkpoints(folder: str | os.PathLike[str], restore_best: bool = False) -> list[Path]:
    """Returns the checkpoint of ``find_checkpoint``, and those that could replace it, the preferred one first."""
    folder = Path(folder)
    refuse_links(folder)
    best = list_checkpoints(folder / BEST_MODELS, best=True) if restore_best else []
    if best:
        return best
    if (folder / STATE).is_file():
        return [folder.resolve() if folder.is_symlink() else folder]  # the user's own link
    return list_checkpoints(folder)


def refuse_links(folder: Path) -> None:
    """Raises CheckpointError when a folder that a run reads or writes below another one is a link out of it."""
    for name in ALL_FOLDERS:
        if (folder / name).is_symlink():
            raise CheckpointError(f"{folder / name} is a link, but a logdir holds its folders itself: put the folder "
                                  "in its place.")
