"""Runs a function in a new process, so that its memory, caches and settings are separate."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_DIED = "its process ended without a message; it may have been killed for lack of memory"


class Failure(Exception):
    """An error in another process.

    Attributes:
      out_of_memory: whether the process ran out of memory.
      mistake: whether the error is the user's mistake.
    """

    def __init__(self, reason: str, out_of_memory: bool = False, mistake: bool = False) -> None:
        super().__init__(reason)
        self.out_of_memory, self.mistake = out_of_memory, mistake

    def __reduce__(self) -> Any:
        return Failure, (str(self), self.out_of_memory, self.mistake)


def start(function: Callable[..., Any], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Starts ``function(pipe, *arguments)`` in a new process; returns the process and this end of the pipe."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=body, args=(function, there, *arguments), daemon=True)
    process.start()
    there.close()
    return process, here


def receive(pipe: Connection) -> Any:
    """Returns the next message from a process.

    Raises:
      Failure: the process reported an error or died.
    """
    try:
        message = pipe.recv()
    except (EOFError, ConnectionResetError):
        message = Failure(_DIED, out_of_memory=True)
    if isinstance(message, Failure):
        raise message
    return message


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns ``function(*arguments)``, computed in a new process.

    Raises:
      Failure: the function raised an exception, or its process died.
    """
    process, pipe = start(_send_result, function, *arguments)
    try:
        return receive(pipe)
    except BaseException:
        process.kill()  # it may not have ended, if the time for it is over
        raise
    finally:
        process.join()


def _send_result(pipe: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    pipe.send(function(*arguments))


def body(function: Callable[..., Any], pipe: Connection, *arguments: Any) -> None:
    """Runs ``function(pipe, *arguments)`` as the body of this process; errors are sent as a ``Failure``."""
    # Several processes share a GPU, and peak memory should be the memory used, not the memory reserved.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    from open_seq2seq.utils.tensorflow_import import import_tensorflow

    import_tensorflow()  # suppresses TensorFlow's log
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            function(pipe, *arguments)
    except (EOFError, BrokenPipeError):  # the parent has closed the pipe
        raise SystemExit(1) from None
    except Exception as error:
        pipe.send(_failure(error))
        raise SystemExit(1) from None


def _failure(error: Exception) -> Failure:
    import tensorflow as tf

    from open_seq2seq.utils.errors import UserError

    if isinstance(error, UserError):
        return Failure(str(error), mistake=True)
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return Failure("the device ran out of memory", out_of_memory=True)
    return Failure(traceback.format_exc())
