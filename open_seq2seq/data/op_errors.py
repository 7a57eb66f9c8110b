"""Errors of TensorFlow's operations on data, in words for the user."""

from __future__ import annotations

import re

import tensorflow as tf

from open_seq2seq.utils.errors import DataError

# What TensorFlow puts before an error's message (function, iterator, error class, assertion) and after it (condition of
# the assertion, node, traceback).
_BEFORE = re.compile(r"^(?:\{\{function_node [^}]*\}\}\s*)?(?:Error in user-defined function .*? iterator: \S+: )?"
                     r"(?:\w+Error: |\w+Exception: )?(?:assertion failed: \[)?")
_AFTER = re.compile(r"(?:\]\s*\[|\s*)Condition x == y did not hold.*|"
                    r"\s*(?:\[\[\{\{|\[Op:|\nTraceback \(most recent).*", re.DOTALL)


class UnusableDataError(DataError):
    """None of the examples can be used.

    If a data layer raises this error in its data set, the error is reported as it is, whereas other errors are taken
    for errors about one example.
    """


def reason(error: tf.errors.OpError) -> str:
    """Returns why an operation failed, without TensorFlow's additions and the final full stop."""
    words = error.message or str(error)
    return " ".join(_AFTER.sub("", _BEFORE.sub("", words)).split()).rstrip(". ")
