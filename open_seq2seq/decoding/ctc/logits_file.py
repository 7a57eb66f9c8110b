"""Logits on disk: what inference dumps and ``scripts/decode.py`` reads."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from open_seq2seq.utils.data_files import opened_data
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

_PICKLES = (".pickle", ".pkl")
_PROTOCOL = 3


class LogitsDump(NamedTuple):
    """The logits of a set of utterances.

    Attributes:
      logits: utterance's name → ``[time, vocabulary]``, the blank last.
      labels: the alphabet without the blank.
      step_seconds: time between two frames of the logits.
      normalization: what the data layer does to references: its parameters' names and values; empty in old files.
    """

    logits: dict[str, np.ndarray]
    labels: list[str]
    step_seconds: float
    normalization: dict[str, Any]


class LogitsFile:
    """Writes a dump, one utterance's logits after another; of those written before, the names alone stay in memory.

    Args:
      file: opened for writing bytes; it need not be seekable.
      pickled: whether it is to be the original's pickled dict, for names that ``is_pickle`` says so of; else ``.npz``,
        which holds plain arrays.
    """

    def __init__(self, file: IO[bytes], pickled: bool) -> None:
        self._file = file
        self._names: list[str] = []
        self._archive = None if pickled else zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        if pickled:
            # The opcodes of an empty dict, and of another one named "logits" in it. Keys and values follow, each
            # as pickle.dumps gives it, without its first and last opcodes. Protocol 3 numbers what it remembers itself,
            # so that such pieces can follow one another: each overwrites what the one before remembered.
            file.write(pickle.PROTO + bytes([_PROTOCOL]) + pickle.EMPTY_DICT + _pickled("logits") + pickle.EMPTY_DICT)

    def write(self, name: str, logits: np.ndarray) -> None:
        """Writes the logits ``[time, vocabulary]`` of one utterance; each has a name of its own."""
        if self._archive is None:
            self._file.write(_pickled(name) + _pickled(np.asarray(logits)) + pickle.SETITEM)
            return
        self._store(f"logits_{len(self._names)}", logits)
        self._names.append(name)

    def finish(self, labels: Sequence[str], step_seconds: float,
               normalization: Mapping[str, Any] | None = None) -> None:
        """Writes what goes with all of them; see ``LogitsDump``. The file stays open."""
        text = json.dumps(dict(normalization or {}))
        if self._archive is None:
            rest = {"vocab": dict(enumerate(labels)), "step_size": float(step_seconds), "normalization": text}
            items = b"".join(_pickled(name) + _pickled(value) + pickle.SETITEM for name, value in rest.items())
            self._file.write(pickle.SETITEM + items + pickle.STOP)
            return
        self._store("names", np.array(self._names, np.str_))
        self._store("labels", np.array(list(labels), np.str_))
        self._store("step_seconds", np.float64(step_seconds))
        self._store("normalization", np.array(text))
        self._archive.close()

    def _store(self, name: str, array: Any) -> None:
        assert self._archive is not None
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def is_pickle(path: str) -> bool:
    """Whether a dump of this name is a pickle: ``.pickle`` or ``.pkl``."""
    return path.endswith(_PICKLES)


def _pickled(value: Any) -> bytes:
    """The opcodes that put a value on the stack of an unpickler."""
    return pickle.dumps(value, _PROTOCOL)[2:-1]


def write_logits(path: str, logits: Mapping[str, np.ndarray], labels: Sequence[str], step_seconds: float,
                 normalization: Mapping[str, Any] | None = None) -> None:
    """Writes a dump: ``.npz``, which holds plain arrays; or ``.pickle`` or ``.pkl``, the original's pickled dict."""
    with OutputFiles() as outputs:
        dump = LogitsFile(outputs.open(path, "wb"), is_pickle(path))
        for name, value in logits.items():
            dump.write(name, value)
        dump.finish(labels, step_seconds, normalization)


def read_logits(path: str, labels: Sequence[str] | None = None) -> LogitsDump:
    """Reads a dump of ``write_logits``, or of the original toolkit.

    Args:
      path: ``.npz``, or a pickle; of a pickle nothing but arrays, containers, text and numbers is accepted.
      labels: the alphabet, where the file does not hold it.

    Raises:
      DataError: the file cannot be read, holds something else, or does not fit the alphabet.
    """
    with opened_data(path, "The dump of logits") as file:
        try:
            dump = (_read_pickle if is_pickle(path) else _read_arrays)(file, labels)
            _check(dump)
        except OSError:
            raise
        except Exception as error:  # a damaged archive or pickle may end in any
            raise DataError(f"{path} is no whole dump of logits: {str(error) or type(error).__name__}.") from error
    for name, logits in dump.logits.items():
        if logits.ndim != 2 or logits.shape[1] != len(dump.labels) + 1:
            raise DataError(f"{path}: the logits of {name} have the shape {logits.shape}, but an alphabet of "
                            f"{len(dump.labels)} symbols needs {len(dump.labels) + 1} columns, the last one for the "
                            "blank: give the alphabet that the model was trained with.")
    return dump


def _check(dump: LogitsDump) -> None:
    if not isinstance(dump.normalization, dict):
        raise ValueError(f"what was done to transcripts is {dump.normalization!r}")
    if not all(isinstance(label, str) for label in dump.labels):
        raise ValueError("its alphabet has something else than text")
    if not 0 < dump.step_seconds < float("inf"):
        raise ValueError(f"the time between its frames is {dump.step_seconds:g} seconds")
    for name, logits in dump.logits.items():
        if logits.dtype.kind not in "fiu":
            raise ValueError(f"the logits of {name} are of the type {logits.dtype}")


def _read_arrays(dump: IO[bytes], labels: Sequence[str] | None) -> LogitsDump:
    with np.load(dump, allow_pickle=False) as file:
        names = [str(name) for name in file["names"]]
        if len(set(names)) < len(names):
            raise ValueError("it has two utterances of one name")
        return LogitsDump({name: file[f"logits_{number}"] for number, name in enumerate(names)},
                          list(labels or (str(label) for label in file["labels"])), float(file["step_seconds"]),
                          json.loads(str(file["normalization"])) if "normalization" in file else {})


def _read_pickle(dump: IO[bytes], labels: Sequence[str] | None) -> LogitsDump:
    content = _ArraysOnly(io.BytesIO(dump.read())).load()
    logits = content.get("logits", content)
    vocab = content.get("vocab")
    found = list(labels) if labels else [vocab[number] for number in range(len(vocab))] if vocab else None
    if found is None:
        raise ValueError("it does not hold the alphabet: give it as a file")
    if not all(isinstance(value, np.ndarray) for value in logits.values()):
        raise ValueError("its logits are no arrays")
    return LogitsDump({str(name): np.asarray(value, np.float32) for name, value in logits.items()}, found,
                      float(content.get("step_size", 0.02)), json.loads(content.get("normalization", "{}")))


def _empty_array(*_: Any) -> np.ndarray:
    """In the place of NumPy's own, which would make room for whatever shape a pickle names: the values come later."""
    return np.empty(0)


class _ArraysOnly(pickle._Unpickler):
    """Refuses whatever could run code: a pickle may name any function.

    It is Python's own unpickler, since the one in C makes room for 2 ** 32 objects where a damaged byte says so.
    """

    _ALLOWED = {("_reconstruct", "multiarray"), ("scalar", "multiarray"), ("ndarray", "numpy"), ("dtype", "numpy"),
                ("_frombuffer", "numeric"), ("OrderedDict", "collections"), ("encode", "_codecs")}

    def find_class(self, module: str, name: str) -> Any:
        root, last = module.split(".")[0], module.rsplit(".", 1)[-1]
        if (name, last) not in self._ALLOWED or root not in ("numpy", "collections", "_codecs"):
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not needed for logits")
        return {"_reconstruct": _empty_array, "ndarray": _empty_array}.get(name) or super().find_class(module, name)
