"""Number of threads that compute one operation on a CPU."""

from __future__ import annotations

import os

import tensorflow as tf

from open_seq2seq.utils.machine import cores_allowed, cores_of_launcher


def intra_op_threads() -> int:
    """Returns the number of threads per operation in this process."""
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    given = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    return threads or (int(given) if given.isdecimal() else 0) or cores_allowed()


def share_cores(shares: int, within_process: bool = False) -> int | None:
    """Limits each operation to one of so many equal shares of this host's cores.

    If the number of threads is already set, by ``TF_NUM_INTRAOP_THREADS`` or from Python, it is not changed. Call this
    before TensorFlow uses a device.

    Args:
      shares: number of shares.
      within_process: whether all shares are for this process, and not one for each of several processes.

    Returns:
      The number of threads per operation, or None if it was not changed.
    """
    threading = tf.config.threading
    if "TF_NUM_INTRAOP_THREADS" in os.environ or threading.get_intra_op_parallelism_threads():
        return None
    allowed = cores_allowed()
    # If a launcher has bound this process to its share of the launcher's cores, they need not be divided again.
    is_bound = not within_process and allowed <= cores_of_launcher() // shares
    threads = allowed if is_bound else max(1, allowed // shares)
    threading.set_intra_op_parallelism_threads(threads)
    return threads
