"""Names of the folders and checkpoints in a log directory, and functions that find checkpoints."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from open_seq2seq.checkpoints.state import CONFIG, OPTIMIZER, STATE, WEIGHTS
from open_seq2seq.utils.errors import CheckpointError

BEST_MODELS = "best_models"
AVERAGED = "averaged_models"
LOGS = "logs"
# Copies of files that inference needs; see checkpoints.kept_files.
KEPT_FILES = "language_models"
SAMPLES = "samples"
DIVERGENCE = "divergence"
ALL_FOLDERS = (BEST_MODELS, AVERAGED, LOGS, KEPT_FILES, DIVERGENCE, SAMPLES)

# A folder with any of these files is a checkpoint, possibly a damaged one.
CHECKPOINT_FILES = (STATE, WEIGHTS, OPTIMIZER, CONFIG)
_REGULAR = re.compile(r"model\.ckpt-(\d+)$")
_BEST = re.compile(r"(.+)=([-+]?[\d.]+(?:e[-+]?\d+)?|nan|inf|-inf)-step-(\d+)$")


def regular_name(step: int | str) -> str:
    """Returns the folder name of a regular checkpoint; for the step ``"*"``, a glob pattern for all of them."""
    return f"model.ckpt-{step}"


def regular_step(name: str) -> int | None:
    """Returns the step in the folder name of a regular checkpoint, or None for other names."""
    match = _REGULAR.match(name)
    return int(match[1]) if match else None


def best_name(metric: str, value: float, step: int) -> str:
    """Returns the folder name of a best model."""
    return f"{metric}={value:.4f}-step-{step}"


def best_parts(name: str) -> tuple[str, float, int] | None:
    """Returns (metric, value, step) from the folder name of a best model, or None for other names."""
    match = _BEST.match(name)
    with contextlib.suppress(ValueError):  # the pattern also matches invalid numbers, such as 1.2.3
        return (match[1], float(match[2]), int(match[3])) if match else None
    return None


def _has_checkpoint_files(folder: Path) -> bool:
    """Returns whether a folder has any of a checkpoint's files; True if access to the folder is denied."""
    try:
        return any((folder / name).is_file() for name in CHECKPOINT_FILES)
    except OSError:
        return True


def step_in_name(name: str) -> int | None:
    """Returns the step in the folder name of a regular checkpoint or a best model, or None for other names."""
    best = _BEST.match(name)
    return int(best[3]) if best else regular_step(name)


def may_be_checkpoint(entry: Path) -> bool:
    """Returns whether a run may have made this folder: it has a checkpoint's files, or is empty, as after a crash."""
    if entry.is_symlink() or not entry.is_dir():
        return False
    names = os.listdir(entry)
    return not names or any(name in names for name in CHECKPOINT_FILES)


def list_checkpoints(folder: str | os.PathLike[str], best: bool = False) -> list[Path]:
    """Returns the checkpoints in a folder, in descending order of steps.

    Damaged and incomplete checkpoints are included; reading them reports what is wrong.

    Args:
      folder: folder to search.
      best: if False, regular checkpoints are listed, named ``model.ckpt-<step>``; if True, best models, named
        ``<metric>=<value>-step-<step>``.
    """
    steps = []
    with contextlib.suppress(OSError):
        for entry in Path(folder).iterdir():
            step = step_in_name(entry.name) if bool(_BEST.match(entry.name)) == best else None
            if step is not None and _has_checkpoint_files(entry):
                steps.append((step, entry.name, entry))
    return [entry for _, _, entry in sorted(steps, reverse=True)]


def find_checkpoints(folder: str | os.PathLike[str], restore_best: bool = False) -> list[Path]:
    """Returns the checkpoint to use in a folder, followed by those to use if it is damaged.

    With ``restore_best``, these are the best models, if there are any. Otherwise, it is the folder itself, if that is a
    checkpoint, or the regular checkpoints in the folder, the newest first.

    Raises:
      CheckpointError: a subfolder that runs use is a symbolic link.
    """
    folder = Path(folder)
    refuse_links(folder)
    best = list_checkpoints(folder / BEST_MODELS, best=True) if restore_best else []
    if best:
        return best
    if (folder / STATE).is_file():
        return [folder.resolve() if folder.is_symlink() else folder]  # a link that the user named is followed
    return list_checkpoints(folder)


def checkpoint_folder(logdir: Path, in_logs: bool = False) -> Path:
    """Returns the folder in which a log directory has its checkpoints: the directory itself, or its subfolder ``logs``.

    Args:
      logdir: the log directory.
      in_logs: whether to return the subfolder if both folders have checkpoints or neither does; True for runs with
        ``--enable_logs``.
    """
    inner = logdir / LOGS
    has, inner_has = _has_checkpoints(logdir), not inner.is_symlink() and _has_checkpoints(inner)
    return inner if (in_logs if has == inner_has else inner_has) else logdir


def _has_checkpoints(folder: Path) -> bool:
    return bool((folder / STATE).is_file() or list_checkpoints(folder)
                or list_checkpoints(folder / BEST_MODELS, best=True))


def refuse_links(folder: Path) -> None:
    """Raises CheckpointError if a subfolder that a run reads or writes is a symbolic link."""
    for name in ALL_FOLDERS:
        if (folder / name).is_symlink():
            raise CheckpointError(f"{folder / name} is a link, which is not followed: replace it with the folder "
                                  "itself.")
