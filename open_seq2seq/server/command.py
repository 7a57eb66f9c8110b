"""Starts the server: from the command line, or in a thread."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from open_seq2seq.config.overrides import Override, parse_overrides
from open_seq2seq.run.run import Run
from open_seq2seq.server.limits import Limits
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.environment import with_home
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser

_LOCAL = ("127.0.0.1", "localhost", "::1")
_KEY = "OPENSEQ2SEQ_API_KEY"
_GRACE_SECONDS = 30


class Server:
    """A running server.

    Args:
      app: the ASGI application.
      bound: the socket on which it listens; see ``bound_socket``.
      models: the models, which are closed at the end.
      seconds: how long clients may hesitate; see ``connections.impatient``.
      other: a server of another protocol.

    Attributes:
      url: its address.
      wyoming_uri: its address for clients of Wyoming; "" if there is none.
    """

    def __init__(self, app: Any, bound: socket.socket, models: Any, seconds: float = Limits.seconds, other: Any = None,
                 wyoming_uri: str = "") -> None:
        import uvicorn

        from open_seq2seq.server.connections import HttpServer, impatient

        self._models, self.wyoming_uri = models, wyoming_uri
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False,
                                timeout_graceful_shutdown=_GRACE_SECONDS, timeout_keep_alive=10,
                                ws_max_size=1 << 20, http=impatient(seconds))
        self._server = HttpServer(config, other)
        self._socket = bound
        self.url = f"http://{_address(bound)}"
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Answers requests until SIGINT or SIGTERM; requests in flight are answered first."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._models.close()

    def start(self) -> None:
        """Answers requests in a thread; returns when the server listens."""
        self._thread = threading.Thread(target=self.run, name="server", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends a server that ``start`` has begun, after the requests in flight."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()


def bound_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """Returns a socket that is reserved, but does not listen yet.

    Args:
      host, port: the address; 0 for a free port.
      option: the option that chooses the port.

    Raises:
      UserError: the address cannot be used.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        with _naming_port(host, port, option):
            bound.bind((host, port))
    except UserError:
        bound.close()
        raise
    return bound


@contextlib.contextmanager
def _naming_port(host: str, port: int, option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError) as error:
        raise UserError(f"The server cannot listen on {host}, port {port} ({error}): choose another {option}, or 0 for "
                        "a free one.") from error


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def make_server(logdirs: Mapping[str, Any], host: str = "127.0.0.1", port: int = 8000, api_key: str = "",
                limits: Limits | None = None, log: bool = True, wyoming_port: int | None = None,
                load: Callable[[str, Any], Any] | None = None) -> Server:
    """Loads models and returns the server, which does not run yet; see ``serve``.

    Args:
      load: function from the name of a model and its log directory to the loaded model.

    Raises:
      UserError: FastAPI or wyoming is missing, a model cannot be loaded, or an address cannot be used.
    """
    if host not in _LOCAL and not api_key:
        raise UserError(f"The server would listen on {host}, where others can reach it, without a key: give one as "
                        f"api_key (on the command line, --api_key names a file with it), or set {_KEY}.")
    app = _module("app", "The server needs FastAPI, uvicorn and others", "serve")
    ports, wyoming, chosen = [(host, port, "--port")], None, limits or Limits()
    if wyoming_port is not None:
        wyoming = _module("wyoming_api", "A server of Wyoming needs the package wyoming", "wyoming")
        ports.append((_LOCAL[0], wyoming_port, "--wyoming_port"))
    with contextlib.ExitStack() as stack:  # a port that is taken is reported before models are loaded
        bound = [stack.enter_context(bound_socket(*one)) for one in ports]
        models = _models(logdirs, chosen, load or _loaded)
        for one, place in zip(bound, ports, strict=True):
            with _naming_port(*place):  # which another program has taken meanwhile
                one.listen()
        hosts = () if api_key else tuple(dict.fromkeys((*_LOCAL, host)))
        other = None if wyoming is None else wyoming.WyomingServer(bound[1], models, chosen, log)
        server = Server(app.make_app(models, chosen, api_key, log, hosts), bound[0], models, chosen.seconds, other,
                        "" if wyoming is None else f"tcp://{_address(bound[1])}")
        stack.pop_all()
        return server


def _module(name: str, needs: str, extra: str) -> Any:
    """Returns a file of the server that needs packages of an extra."""
    try:
        return importlib.import_module(f"open_seq2seq.server.{name}")
    except ImportError as error:
        raise UserError(f"{needs}: run `pip install 'open-seq2seq[{extra}]'`.") from error


def _models(logdirs: Mapping[str, Any], limits: Limits, load: Callable[[str, Any], Any]) -> Any:
    """Loads models, and lets each answer once."""
    from open_seq2seq.server.served import Models, Served

    loaded = {name: load(name, logdir) for name, logdir in logdirs.items()}
    models = Models([Served(name, model, about_logdir(logdirs[name], model), limits) for name, model in loaded.items()])
    for one in models.by_name.values():
        one.warm()
    return models


def _loaded(name: str, logdir: Any) -> Any:
    return Run(logdir=logdir).load() if isinstance(logdir, (str, os.PathLike)) else logdir


def about_logdir(logdir: Any, trained: Any) -> dict[str, str]:
    """Returns what the pages say about a model, by name; {} for a model that was loaded before."""
    if not isinstance(logdir, (str, os.PathLike)):
        return {}
    from open_seq2seq.checkpoints.packed import unpacked
    from open_seq2seq.report.content import read_content

    path = Path(logdir).expanduser()
    try:
        content = read_content(Path(unpacked(str(path))))
    except UserError:  # a checkpoint instead of a folder of a run
        return {}
    # Clients need not know the folders of this machine.
    data = ", ".join(f"{title}: {Path(file).name}" for title, file in content.data_files().items())
    facts = {**content.facts(), "Data": data, "Precision": trained.model.precision.label}
    if path.exists():
        newest = max(file.stat().st_mtime for file in [*path.glob("*")] or [path])
        facts["Date"] = time.strftime("%Y-%m-%d", time.localtime(newest))
    return {name: text for name, text in facts.items() if text}


def serve(models: Mapping[str, Any] | str | os.PathLike[str], port: int = 0, host: str = "127.0.0.1",
          api_key: str = "", log: bool = False, wyoming_port: int | None = None, **limits: float) -> Server:
    """Serves models in a thread, as for a notebook.

    >>> server = open_seq2seq.serve({"en-de": "my_run"})  # doctest: +SKIP
    >>> server.url  # doctest: +SKIP
    'http://127.0.0.1:41173'
    >>> server.stop()  # doctest: +SKIP

    Args:
      models: log directories or loaded models by name, or one log directory.
      port: port; 0 for a free one.
      host: address to listen on; others than those of this machine need a key.
      api_key: key that requests must have; "" for the environment's OPENSEQ2SEQ_API_KEY, or none.
      log: whether to print a line for each request to standard error.
      wyoming_port: port for clients of Wyoming on this machine; 0 for a free one, None for none.
      **limits: other values of the attributes of ``server.limits.Limits``.

    Raises:
      UserError: a model cannot be loaded, or an argument cannot be used.
    """
    known = {field.name for field in fields(Limits)}
    if unknown := sorted({*limits} - known):
        raise UserError(f"There is no limit {unknown[0]!r}: use {', '.join(sorted(known))}.")
    if isinstance(models, (str, os.PathLike)):
        from open_seq2seq.server.served import name_of

        models = {name_of(models): models}
    server = make_server(models, host, port, api_key or parse_key(None), Limits(**limits), log, wyoming_port)  # type: ignore[arg-type]
    server.start()
    return server


def serve_command(words: Sequence[str]) -> int:
    """Serves models until it is ended: ``serve [NAME=]LOGDIR ... [--key=value ...]``."""
    parser = _make_parser()
    chosen, leftover = parser.parse_known_args([with_home(word) for word in words])
    overrides = parse_overrides(leftover, parser.options)
    from open_seq2seq.server.served import parse_names

    limits = Limits(**{field.name: getattr(chosen, field.name) for field in fields(Limits)})
    logdirs = parse_names(chosen.models)

    def load(name: str, logdir: str) -> Any:
        values = [*values_of(overrides, name, logdirs), Override(None, ("logdir",), logdir, logdir)]
        return Run.of_command(None, values, chosen.trust_code, parser.options).load()

    server = make_server(logdirs, chosen.host, chosen.port, parse_key(chosen.api_key), limits, not chosen.quiet,
                         chosen.wyoming_port, load)
    wyoming = f", and Wyoming on {server.wyoming_uri}" if server.wyoming_uri else ""
    deco_print(f"Serving on {server.url} (pages, APIs; /openapi.json lists them){wyoming}; Ctrl+C ends it")
    sys.stdout.flush()
    server.run()
    return 0


def _make_parser() -> ScriptParser:
    parser = ScriptParser("Serves trained models on this machine: pages to try them, and the APIs of OpenAI,\n"
                          "LibreTranslate and Piper (docs/serving.md). Values of the config can be replaced, such as\n"
                          "--dtype=float32 for all models, or --en-de/dtype=float32 for that of this name.")
    parser.prog, parser.usage = "serve", "open_seq2seq serve [NAME=]LOGDIR ... [--port PORT] [--key=value ...]"
    add = parser.add_argument
    add("models", nargs="+", metavar="[NAME=]LOGDIR", help="models and their names; a name such as en-de says from "
        "which language into which a model translates")
    add("--port", type=int, default=8000, help="port; 0 for a free one (default: %(default)s)")
    add("--host", default="127.0.0.1", help="address to listen on; others than those of this machine need a key "
        "(default: %(default)s)")
    add("--api_key", metavar="FILE", help=f"file with a key that requests must have; or set {_KEY}")
    add("--wyoming_port", type=int, metavar="PORT", help="port for voice assistants on this machine that speak "
        "Wyoming, such as Home Assistant; 10300 is customary, 0 a free one (default: none)")
    add("--quiet", action="store_true", help="print no line for each request")
    add("--trust_code", action="store_true", help="let a config in a logdir import and run code from outside the "
        "package")
    for field in fields(Limits):
        kind = int if field.type == "int" else float
        add(f"--{field.name}", type=kind, default=field.default, metavar="N",
            help=f"{_MEANING[field.name]} (default: %(default)s)")
    return parser


def values_of(overrides: Sequence[Override], name: str, names: Collection[str]) -> list[Override]:
    """Returns the values of the command line for one model; those that begin with a model's name are for it alone.

    Args:
      overrides: the values.
      name: name of the model.
      names: names of all models.
    """
    own = [one for one in overrides if one.section is not None or one.keys[0] not in names or not one.keys[1:]]
    own += [replace(one, keys=one.keys[1:]) for one in overrides if one not in own and one.keys[0] == name]
    return own


_MEANING = {
    "megabytes": "largest body of a request, in MB", "audio_seconds": "longest recording of a request, in seconds",
    "characters": "most characters of the texts of a request",
    "spoken_characters": "most characters of the texts of a request that are spoken",
    "inputs": "most inputs of a request",
    "requests": "most requests at a time", "waiting": "most inputs that wait for a model",
    "seconds": "seconds in which a request has to arrive, and in which it is answered"}


def parse_key(file: str | None) -> str:
    """Returns the key in a file, or without a file that of the environment; "" if there is none.

    Raises:
      UserError: the file cannot be read, or is empty.
    """
    if file is None:
        return os.environ.get(_KEY, "").strip()
    try:
        key = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The file of the key, {file}, cannot be read ({error}): check --api_key.") from error
    if not key:
        raise UserError(f"The file of the key, {file}, is empty: write a key into it.")
    return key
