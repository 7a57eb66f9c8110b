"""Checks, before any data is loaded, that all ranks have joined and have the same code and config."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.metrics.trackers import flattened
from open_seq2seq.runners.runner import Runner
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.launcher import end_all, launched_as, say, who
from open_seq2seq.version import __version__

NETWORK_HINTS = (
    "check that all ranks have started (see their output above), that no firewall separates the hosts, and that all "
    "hosts have the same version of the code. If hosts have several networks, choose one with mpiexec --mca "
    "btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0, or with horovodrun --network-interfaces eth0 "
    "(HOROVOD_GLOO_IFACE=eth0)")
# Each rank waits this many seconds longer than the rank before it; from rank _MOST_TURNS on, all wait equally long.
_TURN_SECONDS = 0.5
_MOST_TURNS = 10
_SHOWN = 3  # number of differences that a message lists


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Context manager that limits the time for which ranks wait for one another.

    After the limit the process prints an error and exits, even if it is stuck in a library, where no exception could
    be raised.

    Args:
      seconds: the limit; None for no limit.
    """
    rank, size = launched_as()
    if seconds is None or size == 1:
        yield
        return

    def give_up() -> None:
        say(f"Error{who()}: not all of the {size} ranks joined within {seconds:g} s: {NETWORK_HINTS}. "
            "'connect_seconds' sets how long the ranks wait.\n")
        end_all(1)

    # The launcher ends all ranks when one of them exits. Higher ranks wait longer, so that few print the same error.
    timer = threading.Timer(seconds + min(rank, _MOST_TURNS) * _TURN_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_agreement(runner: Runner, config: Mapping[str, Any], dtype: str) -> list[str]:
    """Checks that all processes have the same code, libraries and config. All processes must call this together.

    Args:
      runner: the runner; only ``gather`` is used.
      config: everything that determines what is computed: nested dicts of plain values.
      dtype: name of the dtype in which the model computes.

    Returns:
      Log lines about differences that change results at most in their last digits.

    Raises:
      UserError: the processes would not compute the same; raised on all of them.
    """
    root, code = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        code.update(str(path.relative_to(root)).encode() + path.read_bytes())
    software = {"version of open_seq2seq": __version__, "code of open_seq2seq": code.hexdigest()[:12],
                "TensorFlow": tf.__version__, "Python": platform.python_version(), "dtype": dtype}
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    values = {f"'{path}'": repr(value) for path, value in flattened(config).items()}
    return compare(runner, {**software, **values}, {
        "device": "GPU" if tf.config.get_visible_devices("GPU") else "CPU", "processor": platform.machine(),
        "threads per operation": str(threads or "default")})


def compare(runner: Runner, required: Mapping[str, str], preferred: Mapping[str, str]) -> list[str]:
    """Compares values of this rank with those of the other ranks; see ``check_agreement``.

    Args:
      runner: the runner.
      required: values that must be the same on all ranks, by name.
      preferred: values that should be the same; a difference is not an error.

    Returns:
      A warning for each of the first differences in ``preferred``.

    Raises:
      UserError: the ranks differ in ``required``.
    """
    hosts, all_required, all_preferred = zip(*runner.gather([(socket.gethostname(), required, preferred)]), strict=True)
    if different := differences(all_required):
        words = "; ".join(f"{name} is {all_required[rank].get(name, 'absent')} on rank {rank} (host {hosts[rank]}) and "
                          f"{all_required[0].get(name, 'absent')} on rank 0 (host {hosts[0]})"
                          for rank, name in different[:_SHOWN])
        more = f"; and {len(different) - _SHOWN} more differences" if len(different) > _SHOWN else ""
        raise UserError(f"The ranks differ: {words}{more}. Start all ranks with the same code and libraries, the same "
                        "config file and the same command line.")
    return [f"WARNING: rank {rank} on host {hosts[rank]} differs from rank 0: {name} is {all_preferred[rank][name]} "
            f"instead of {all_preferred[0][name]}. Sums may be rounded differently on that rank, so the last digits of "
            "its results may differ. Make this equal on all ranks to avoid it."
            for rank, name in differences(all_preferred)[:_SHOWN]]


def check_data(runner: Runner, section: str, lengths: np.ndarray, costs: np.ndarray | None = None) -> None:
    """Checks that all ranks have the same examples, because each rank plans its own batches.

    All processes must call this together.

    Args:
      runner: the runner; only ``gather`` and ``num_processes`` are used.
      section: what the examples are for: ``train``, ``eval`` or ``infer``.
      lengths: ``DataLayer.lengths``, an integer array ``[examples]`` or ``[examples, columns]``.
      costs: ``DataLayer.costs``, an integer array ``[examples]``; None to compare only the lengths.

    Raises:
      UserError: the examples differ; raised on all ranks.
    """
    if runner.num_processes == 1:
        return
    summary = {"examples": str(len(lengths)), "lengths": _hash(lengths),
               "costs": "" if costs is None else _hash(costs)}
    hosts, summaries = zip(*runner.gather([(socket.gethostname(), summary)]), strict=True)
    for rank, name in differences(summaries):
        what = (f"{summaries[rank][name]} examples instead of {summaries[0][name]}" if name == "examples" else
                f"the same number of examples, but different {name}")
        raise UserError(f"Rank {rank} on host {hosts[rank]} differs from rank 0 on host {hosts[0]} in the data for "
                        f"{section}: {what}. All ranks need the same files.")


def _hash(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).ravel().data).hexdigest()


def differences(ranks: Sequence[Mapping[str, str]]) -> list[tuple[int, str]]:
    """Returns (rank, name) of every value that differs from rank 0's, in the order of the names.

    Args:
      ranks: for each rank, a mapping from name to value.
    """
    return [(rank, name) for rank, values in enumerate(ranks) for name in {**ranks[0], **values}
            if values.get(name) != ranks[0].get(name)]
