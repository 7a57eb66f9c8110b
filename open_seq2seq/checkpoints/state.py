"""File names and checksums of a checkpoint, and its ``state.json``, which is read and checked."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.parts.randomness import LARGEST_SEED
from open_seq2seq.utils.errors import CheckpointAccessError, CheckpointError
from open_seq2seq.utils.own_files import NotOwnFileError, read_own, sha256_of

WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
CONFIG = "config.yaml"
ASSETS = "assets"
# Key prefix of averaged weights in the optimizer's file.
AVERAGE = "ema/"
# Key prefix, in the same file, of the states that a model carries from batch to batch.
CARRIED = "carried/"
# Key, in a checkpoint's state, of the name of the run that wrote it. A run never removes checkpoints of other runs.
RUN = "run"
# Keys, in a checkpoint's state, of the metrics of its evaluation, and of a string that identifies the learning-rate
# schedule (``MixedPrecisionOptimizer.rates``).
METRICS = "metrics"
RATES = "rates"
# Keys, in a checkpoint's state, of the name of the processor or GPU, and of the seconds of training before it.
PROCESSOR = "processor"
SECONDS = "seconds"
UPDATES = "updates"  # number of updates made, without skipped ones and those that a recovery has undone
STATE_CHECKSUM = "state_sha256"
FORMAT_VERSION = 1
CHECKSUMS = "sha256"
_MOST_BYTES = 1 << 22
_MOST_STEPS = 2 ** 50
_RESUMED = ("step", "random_seed", "micro_batch")


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 checksum of a file."""
    with open(path, "rb") as file:
        return sha256_of(file)


def state_checksum(state: Mapping[str, Any]) -> str:
    """Returns the checksum of a state after a JSON round trip, without the entry for this checksum."""
    rest = json.loads(json.dumps({key: value for key, value in state.items() if key != STATE_CHECKSUM}))
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_state(path: Path) -> dict[str, Any]:
    """Returns the content of a checkpoint's ``state.json``, after verifying the checksum in it.

    Raises:
      CheckpointError: the file is missing, altered, of another format, or has invalid values.
    """
    state = _load(path)
    if not isinstance(state, dict) or type(state.get("format")) is not int:
        raise CheckpointError(f"The folder {path} is not a checkpoint of this package: its {STATE} has no format "
                              "number.")
    if state["format"] > FORMAT_VERSION:
        raise CheckpointError(f"The checkpoint {path} was written by a newer version: update this package.")
    if state.pop(STATE_CHECKSUM, None) != state_checksum(state):
        raise CheckpointError(f"The checkpoint {path} is damaged: {STATE} is truncated or altered.")
    del state["format"]
    for problem in _problems(state):
        raise CheckpointError(f"The checkpoint {path} is damaged: in {STATE}, {problem}.")
    return state


def state_if_intact(path: Path) -> dict[str, Any] | None:
    """Returns the content of a checkpoint's ``state.json``; None if it cannot be used."""
    try:
        return read_state(path)
    except CheckpointError:
        return None


def files_of(path: Path, run: str | None = None) -> list[str] | None:
    """Returns the names of a checkpoint's files, as listed in its verified state, in the order of removal.

    The folder of the assets is among them, and may be removed if it is then empty.

    Args:
      path: the folder of the checkpoint.
      run: name of the run that the checkpoint must belong to; None for any run.

    Returns:
      The names, or None if the folder has no intact ``state.json`` of this package, or belongs to another run.
    """
    state = state_if_intact(path)
    if state is None or (run is not None and state.get(RUN, "") != run):
        return None
    # Weights first and the state last: without weights, a removal has begun; with the state, it can be continued. The
    # folder of the assets is listed, too, because it is empty if the model has none.
    assets = [name for name in state[CHECKSUMS] if name.startswith(f"{ASSETS}/")]
    return [WEIGHTS, OPTIMIZER, CONFIG, *assets, ASSETS, STATE]


def unreadable(path: Path, error: OSError) -> CheckpointError:
    """Returns the exception to raise for a checkpoint with an unreadable file."""
    reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
    if isinstance(error, PermissionError):
        return CheckpointAccessError(f"The checkpoint {path} cannot be read ({reason}): change the access rights.")
    return CheckpointError(f"The checkpoint {path} is damaged: {reason}.")


def check_resumable(path: Path, state: Mapping[str, Any]) -> None:
    """Raises CheckpointError if a state lacks an entry that is needed to resume training."""
    missing = [name for name in _RESUMED if name not in state]
    if missing:
        raise CheckpointError(f"The checkpoint {path} cannot be resumed: its {STATE} has no {', '.join(missing)}. "
                              "Start a new run from its weights with load_model.")


def _load(path: Path) -> Any:
    if path.is_symlink():
        raise CheckpointError(f"The checkpoint {path} is a link: give the folder that it points to.")
    try:
        return json.loads(read_own(path, STATE, _MOST_BYTES).decode("utf-8"))
    except NotOwnFileError as error:
        raise CheckpointError(f"The checkpoint {path} is damaged: {error}.") from error
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        reason = f"{STATE} is truncated or altered ({error})"
        raise CheckpointError(f"The checkpoint {path} is damaged: {reason}.") from error


def _problems(state: Mapping[str, Any]) -> list[str]:
    """Returns one clause for each invalid entry of a state."""
    sums = state.get(CHECKSUMS)
    if not isinstance(sums, dict) or not all(isinstance(value, str) for value in sums.values()):
        return [f"{CHECKSUMS} is not a table of checksums"]
    unlisted = [name for name in (WEIGHTS, OPTIMIZER, CONFIG) if name not in sums]
    if unlisted:
        return [f"{CHECKSUMS} has no checksum of {unlisted[0]}"]
    return [f"{name} must be {what}, got {state[name]!r:.100}" for name, (form, what) in _ENTRIES.items()
            if name in state and not _fits(state[name], form)]


def _fits(value: Any, form: Any) -> bool:
    """Returns whether a value has a form.

    Args:
      value: a value from JSON.
      form: a type; a range of integers; a tuple of alternatives; a list of the form of all items; or a dict of forms by
        key, in which ``?`` at the end marks a key that may be missing, and ``*`` is every key.
    """
    if isinstance(form, range):
        return type(value) is int and value in form
    if isinstance(form, tuple):
        return any(_fits(value, alternative) for alternative in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_fits(item, form[0]) for item in value)
    if not isinstance(form, dict):
        return type(value) is form
    if not isinstance(value, dict):
        return False
    if "*" in form:
        return all(_fits(item, form["*"]) for item in value.values())
    return all(_fits(value.get(key.removesuffix("?")), below) for key, below in form.items()
               if not key.endswith("?") or key.removesuffix("?") in value)


_COUNT, _NUMBER = range(_MOST_STEPS + 1), (int, float)
# Of ``data`` for each section; see ``inputs.describe_data``.
_FILE = {"path": str, "size": int, "mtime_ns": int, "sha256": str, "sampled": bool}
_DATA = {"files": {"*": _FILE}, "examples": int, "lengths": str, "contents": str, "params": str}
_DIVERGENCE = {"events?": [dict], "dtype?": (str, type(None)), "skipped_in_a_row?": _COUNT,
               "losses?": {"high_in_a_row?": _COUNT, "first?": [_NUMBER]}}
# Entries that a state may have: the form of the value, and its description for messages.
_ENTRIES: dict[str, tuple[Any, str]] = {
    RUN: (str, "a string"),
    "step": (_COUNT, "an integer from 0 to 2^50"),
    UPDATES: (_COUNT, "an integer from 0 to 2^50"),
    "micro_batch": (_COUNT, "an integer from 0 to 2^50"),
    "epoch": (_COUNT, "an integer from 0 to 2^50"),
    "world_size": (_COUNT[1:], "an integer from 1 to 2^50"),
    "random_seed": (range(LARGEST_SEED + 1), f"an integer from 0 to {LARGEST_SEED}"),
    METRICS: ({"*": _NUMBER}, "a table of numbers"),
    RATES: (str, "a string"),
    PROCESSOR: (str, "a string"),
    SECONDS: (_NUMBER, "a number"),
    "data": ({"*": _DATA}, "a table of fingerprints"),
    "divergence": (_DIVERGENCE, "a record of divergences"),
}
