"""Runs each command in a fork of a process that has imported the toolkit but not used it yet.

``python -m tests.hostile.server 5 6`` serves the sockets inherited as file descriptors 5 and 6 in parallel, until they
are closed. A request is a line of JSON (``Request``). It is answered by two lines of JSON: the process id, and how the
process ended.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from typing import IO, Any, NoReturn

# Memory limit of a command: enough for any case, but not enough to exhaust the machine.
_MOST_BYTES = 8 << 30
_DUMP_SECONDS = 5.0


@dataclass
class Request:
    """A command to run.

    Attributes:
      arguments: arguments of ``run.py``.
      folder: working directory of the command.
      environment: all environment variables of the command.
      streams: files for stdin, stdout and stderr.
      timeout: seconds after which the command is killed and the stacks of its threads are written to stderr.
      shell: a line of bash that runs ``"$@"`` in a new process; None for a fork.
      ordinary: whether to enforce file permissions even for root.
    """

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: tuple[str, str, str]
    timeout: float
    shell: str | None = None
    ordinary: bool = False


def send(stream: IO[str], message: Any) -> None:
    """Sends a line of JSON."""
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def _serve(connection: socket.socket) -> None:
    with connection.makefile("r") as requests, connection.makefile("w") as answers:
        for line in requests:
            request, start = Request(**json.loads(line)), time.monotonic()
            sys.stdout.flush()
            process = os.fork()
            if process == 0:
                connection.close()
                _become(request)
            send(answers, process)
            hung = not _ends_within(process, request.timeout)
            if hung:
                _end(process, signal.SIGABRT)
            with contextlib.suppress(ProcessLookupError):  # processes of its session that are still running
                os.killpg(process, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            send(answers, {"code": code, "hung": hung, "seconds": time.monotonic() - start})


def _ends_within(process: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(process)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _end(process: int, signum: int) -> None:
    """Sends a signal to all processes of a command, so that they dump their stacks, and gives them time to do so."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signum)
        _ends_within(process, _DUMP_SECONDS)


def _become(request: Request) -> NoReturn:
    """Turns this fork into the command's process."""
    code = 1
    try:
        os.setsid()
        for number, path in enumerate(request.streams):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            descriptor = os.open(path, flags, 0o666)
            os.dup2(descriptor, number)
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(request.folder)
        if request.ordinary and os.geteuid() == 0:
            _obey_access_rights()
        if request.shell is not None:
            program = [sys.executable, "-X", "faulthandler", "-c", "import sys; from open_seq2seq.cli import main; "
                       "sys.argv[0] = 'run.py'; sys.exit(main())"]
            os.execve("/bin/bash", ["bash", "-c", request.shell, "bash", *program, *request.arguments],
                      request.environment)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
        os.environ.clear()
        os.environ.update(request.environment)
        code = _call(request.arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _obey_access_rights() -> None:
    """Drops root's capabilities to bypass file permissions (``capset(2)``, ``capabilities(7)``)."""
    version, dac_override, dac_read_search = 0x20080522, 1, 2
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(version, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, 32 bits of each, then the next 32
    if libc.capget(header, sets) == 0:
        for number in range(3):
            sets[number] &= ~(1 << dac_override | 1 << dac_read_search)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _call(arguments: list[str]) -> int:
    """Calls the command as ``run.py`` does, and shuts down like the interpreter, but without freeing its memory."""
    from open_seq2seq.cli import main

    faulthandler.enable()
    sys.argv = ["run.py", *arguments]
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    tempfile.tempdir = None  # to be determined again from the new environment
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are still writing
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _import_the_toolkit() -> None:
    from open_seq2seq.utils.tensorflow_import import import_tensorflow

    import_tensorflow()  # without its log
    import open_seq2seq.models
    import open_seq2seq.run.dry_run
    import open_seq2seq.run.resolution
    import open_seq2seq.run.session  # noqa: F401


def main() -> None:
    """Serves the sockets whose file descriptors are the arguments; with ``--bare``, without importing the toolkit."""
    bare = sys.argv[1] == "--bare"
    connections = [socket.socket(fileno=int(number)) for number in sys.argv[1 + bare:]]
    if not bare:
        _import_the_toolkit()
    gc.collect()
    gc.freeze()
    servers = []
    for own in connections:
        servers.append(os.fork())
        if servers[-1] == 0:
            for connection in connections:
                if connection is not own:
                    connection.close()
            _serve(own)
            os._exit(0)
    for connection in connections:
        connection.close()
    for server in servers:
        os.waitpid(server, 0)


if __name__ == "__main__":
    main()
