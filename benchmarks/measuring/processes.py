"""Running a function in a process of its own, so that memory, caches and settings are its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_DIED = "its process ended without a word; was it killed for memory?"


class Failure(Exception):
    """What went wrong in a process, for the person at the keyboard.

    Attributes:
      out_of_memory: whether it was memory.
      mistake: whether it was a user's mistake.
    """

    def __init__(self, reason: str, out_of_memory: bool = False, mistake: bool = False) -> None:
        super().__init__(reason)
        self.out_of_memory, self.mistake = out_of_memory, mistake

    def __reduce__(self) -> Any:
        return Failure, (str(self), self.out_of_memory, self.mistake)


def start(function: Callable[..., Any], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Starts ``function(pipe, *arguments)`` in a new process; returns it and this end of the pipe."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=body, args=(function, there, *arguments), daemon=True)
    process.start()
    there.close()
    return process, here


def receive(pipe: Connection) -> Any:
    """Returns the next message.

    Raises:
      Failure: what the process reported, or that it died.
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
      Failure: it raised, or its process died.
    """
    process, pipe = start(_send_result, function, *arguments)
    try:
        return receive(pipe)
    finally:
        process.join()


def _send_result(pipe: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    pipe.send(function(*arguments))


def body(function: Callable[..., Any], pipe: Connection, *arguments: Any) -> None:
    """Runs ``function(pipe, *arguments)`` as all there is of this process; what goes wrong is sent as a ``Failure``."""
    # Several processes share a GPU, and peaks are those of what is used, not of what is reserved.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    from open_seq2seq.cli import import_tensorflow

    import_tensorflow()  # without its chatter
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            function(pipe, *arguments)
    except (EOFError, BrokenPipeError):  # whoever asked has gone
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
