"""Measures a server of a translation model under load, with batching and one request at a time.

    python benchmarks/serving.py LOGDIR --text=test.en

Clients send lines of a text, one line a request, each client as soon as it has its last answer. The server, the clients
and the reference each have their own process. "One by one" is the same server, which never waits and computes the input
of one request at a time. Answers are compared with those of ``infer``, which gets the lines one at a time. Resident
memory is read early and at the end of the load. Prints a Markdown table and saves nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring import processes
from benchmarks.measuring.programs import describe_machine, make_parser, markdown_table, run_program
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import UserError

_NAME = "xx-yy"
_TIMEOUT = 120.0  # seconds that a client waits for an answer


class Load(NamedTuple):
    """What the clients saw.

    Attributes:
      latencies: seconds of each answered request.
      answers: each pair of a line and an answer to it that came.
      failed: number of requests without an answer of status 200, by what came instead.
      seconds: duration of the load, until the last answer.
      own_seconds: processor time of the clients.
    """

    latencies: list[float]
    answers: set[tuple[str, str]]
    failed: dict[str, int]
    seconds: float
    own_seconds: float


def percentile(values: list[float], share: float) -> float:
    """Returns the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(-int(-share * len(values) // 1) - 1, 0)]


def resident_megabytes(process: int) -> float:
    """Returns the resident memory of a process in MB, as Linux counts it."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3 * 1.024


def serve(pipe: Connection, logdir: str, values: dict[str, Any], batching: bool) -> None:
    """Serves a model in this process until it is ended; sends the port first."""
    from open_seq2seq.run.run import load
    from open_seq2seq.server.app import make_app
    from open_seq2seq.server.command import Server, bound_socket
    from open_seq2seq.server.limits import Limits
    from open_seq2seq.server.served import Batcher, Models, Served

    limits = Limits()
    served = Served(_NAME, load(logdir, **values), {}, limits)
    if not batching:
        served.batcher = Batcher(1, limits.waiting)
    served.warm()
    models = Models([served])
    server = Server(make_app(models, limits, log=False), bound_socket("127.0.0.1", 0), models)
    pipe.send(int(server.url.rsplit(":", 1)[1]))
    server.run()


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> tuple[int, Any]:
    """Sends a request on a connection that stays open; returns the status and the values of the answer."""
    body = json.dumps({"q": line, "source": "xx", "target": "yy"}).encode()
    writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.split("content-length:")[1].split("\r\n")[0])
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def _client(port: int, lines: list[str], end: float, load: Load) -> None:
    """Sends lines until the end; a failure closes the connection, and the next request opens another."""
    streams = None
    while time.perf_counter() < end:
        line = lines[len(load.latencies) % len(lines)]
        try:
            streams = streams or await asyncio.open_connection("127.0.0.1", port)
            start = time.perf_counter()
            status, answer = await asyncio.wait_for(_asked(*streams, line), _TIMEOUT)
            failure = "" if status == 200 else f"status {status}"
        except (OSError, EOFError, TimeoutError, ValueError, IndexError) as error:
            failure = type(error).__name__
        if not failure:
            load.latencies.append(time.perf_counter() - start)
            load.answers.add((line, answer["translatedText"]))
            continue
        load.failed[failure] = load.failed.get(failure, 0) + 1
        if streams:
            streams[1].close()
        streams = None
        await asyncio.sleep(0.1)
    if streams:
        streams[1].close()


def make_load(pipe: Connection, port: int, lines: list[str], clients: int, seconds: float) -> None:
    """Lets clients ask the server for some time, and sends the ``Load``."""
    load = Load([], set(), {}, 0.0, 0.0)

    async def together() -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(_client(port, random.Random(number).sample(lines, len(lines)), end, load)
                               for number in range(clients)))

    start = time.perf_counter()
    asyncio.run(together())
    used = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send(load._replace(seconds=time.perf_counter() - start, own_seconds=used.ru_utime + used.ru_stime))


def reference(logdir: str, values: dict[str, Any], lines: list[str]) -> dict[str, str]:
    """Returns the translation of each line, computed alone."""
    from open_seq2seq.run.run import load

    model = load(logdir, **values)
    return {line: model.translate(line) for line in lines}


def _values(options: Any) -> dict[str, Any]:
    """Returns the values by which the model differs from the logdir's."""
    return {"dtype": options.dtype} if options.dtype else {}


def measure(options: Any, lines: list[str], batching: bool) -> tuple[Load, float, float]:
    """Returns the load, and the resident memory of the server in MB early and at the end."""
    server, pipe = processes.start(serve, options.logdir, _values(options), batching)
    try:
        port = processes.receive(pipe)
        clients, answer = processes.start(make_load, port, lines, options.clients, options.seconds)
        time.sleep(min(options.early, options.seconds))
        early = resident_megabytes(server.pid or 0)
        load = processes.receive(answer)
        late = resident_megabytes(server.pid or 0)
        clients.join()
    finally:
        server.terminate()
        server.join()
    return load, early, late


def _row(name: str, measured: tuple[Load, float, float], expected: dict[str, str], first: float) -> list[str]:
    load, early, late = measured
    if not load.latencies:
        raise processes.Failure(f"No request was answered {name}: {load.failed}.")
    speed = len(load.latencies) / load.seconds
    wrong = sum(expected[line] != answer for line, answer in load.answers)
    return [name, f"{len(load.latencies):,}", f"{sum(load.failed.values())}", f"{wrong} of {len(load.answers):,}",
            f"{speed:.1f}", f"{speed / (first or speed):.2f}", f"{percentile(load.latencies, 0.5):.2f}",
            f"{percentile(load.latencies, 0.95):.2f}", f"{early:,.0f}", f"{late:,.0f} ({late / early - 1:+.1%})",
            f"{load.own_seconds:.1f}"]


def main(words: list[str]) -> None:
    """Measures both servers and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("logdir", help="log directory of a trained translation model")
    parser.add_argument("--text", required=True, help="file whose lines are translated")
    parser.add_argument("--dtype", help="dtype of the model (default: that of its config)")
    parser.add_argument("--lines", type=int, default=256, help="most lines of it (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=64, help="clients at a time (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=120.0, help="duration of a load (default: %(default)s)")
    parser.add_argument("--early", type=float, default=30.0, help="seconds until memory is read for the first time "
                        "(default: %(default)s)")
    options = parser.parse_args(words)
    lines = [line for line in dict.fromkeys(read_lines(options.text)) if line.strip()][:options.lines]
    if not lines or options.clients < 1 or options.seconds <= 0:
        raise UserError(f"There is nothing to ask: check --clients, --seconds, and the lines of {options.text}.")
    expected = processes.call(reference, options.logdir, _values(options), lines)
    alone = measure(options, lines, batching=False)
    together = measure(options, lines, batching=True)
    first = len(alone[0].latencies) / alone[0].seconds
    print(f"{describe_machine()[0]}; {options.dtype or 'dtype of the config'}; {options.clients} clients for "
          f"{options.seconds:g} s each\n")
    print(markdown_table(
        ["", "answers", "failed", "unlike `infer`", "answers/s", "speed", "median s", "p95 s",
         f"MB at {options.early:g} s",
         "MB at the end", "processor s of the clients"],
        [_row("one by one", alone, expected, 0.0), _row("batching", together, expected, first)]))


if __name__ == "__main__":
    run_program(main)
