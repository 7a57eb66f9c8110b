"""Dumps of logits on disk, written by inference and read by ``scripts/decode.py``."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from open_seq2seq.utils.data_files import opened_data
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles
from open_seq2seq.utils.pickled_arrays import load_arrays

_PICKLES = (".pickle", ".pkl")
_PROTOCOL = 3

_UNICODE_FORMS = (None, "NFC", "NFD", "NFKC", "NFKD")


class LogitsDump(NamedTuple):
    """The logits of a set of utterances.

    Attributes:
      logits: maps each utterance's name to logits ``[time, vocabulary]``, the blank last.
      labels: the alphabet without the blank.
      step_seconds: time between two frames of the logits, in seconds.
      normalization: the data layer's parameters (name to value) for normalising transcripts; empty if the file does not
        contain them.
    """

    logits: dict[str, np.ndarray]
    labels: list[str]
    step_seconds: float
    normalization: dict[str, Any]


class LogitsFile:
    """Writes a dump one utterance at a time; only the names of the utterances stay in memory.

    Args:
      file: binary file, open for writing; it need not be seekable.
      pickled: whether to write NVIDIA's pickled dict (see ``is_pickle``) instead of ``.npz``, which
        contains plain arrays.
    """

    def __init__(self, file: IO[bytes], pickled: bool) -> None:
        self._file = file
        self._names: list[str] = []
        self._archive = None if pickled else zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        if pickled:
            # Opcodes of an empty dict, the key "logits" and another empty dict as its value. Keys and values of the
            # inner dict follow, each the output of pickle.dumps without its first and last opcodes. In protocol 3, memo
            # entries have explicit numbers, so these pieces can be concatenated: each overwrites the memo of the
            # previous one.
            file.write(pickle.PROTO + bytes([_PROTOCOL]) + pickle.EMPTY_DICT + _pickled("logits") + pickle.EMPTY_DICT)

    def write(self, name: str, logits: np.ndarray) -> None:
        """Writes the logits ``[time, vocabulary]`` of one utterance; its name must be unique."""
        if self._archive is None:
            self._file.write(_pickled(name) + _pickled(np.asarray(logits)) + pickle.SETITEM)
            return
        self._store(f"logits_{len(self._names)}", logits)
        self._names.append(name)

    def finish(self, labels: Sequence[str], step_seconds: float,
               normalization: Mapping[str, Any] | None = None) -> None:
        """Writes the other fields of ``LogitsDump``. The file stays open."""
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
    """Returns whether a dump is a pickle, judged by its suffix: ``.pickle`` or ``.pkl``."""
    return path.endswith(_PICKLES)


def _pickled(value: Any) -> bytes:
    """Returns the opcodes that push a value onto an unpickler's stack."""
    return pickle.dumps(value, _PROTOCOL)[2:-1]


def write_logits(path: str, logits: Mapping[str, np.ndarray], labels: Sequence[str], step_seconds: float,
                 normalization: Mapping[str, Any] | None = None) -> None:
    """Writes logits to an ``.npz`` archive, or to a pickled dict as NVIDIA's OpenSeq2Seq does.

    Args:
      path: the file; a name that ends in ``.pickle`` or ``.pkl`` selects the pickled dict.
      logits, labels, step_seconds, normalization: see ``LogitsDump``.
    """
    with OutputFiles() as outputs:
        dump = LogitsFile(outputs.open(path, "wb"), is_pickle(path))
        for name, value in logits.items():
            dump.write(name, value)
        dump.finish(labels, step_seconds, normalization)


def read_logits(path: str, labels: Sequence[str] | None = None) -> LogitsDump:
    """Reads a dump written by ``write_logits`` or by NVIDIA's OpenSeq2Seq.

    Args:
      path: ``.npz`` file, or a pickle, which may contain only arrays, containers, text and numbers.
      labels: the alphabet, which replaces the one in the file; required if the file has none.

    Raises:
      DataError: the file cannot be read, is not a dump of logits, or does not fit the alphabet.
    """
    with opened_data(path, "The dump of logits") as file:
        try:
            dump = (_read_pickle if is_pickle(path) else _read_arrays)(file, labels)
            _check(dump)
        except OSError:
            raise
        except Exception as error:  # a damaged archive or pickle may raise any error
            raise DataError(f"{path} is not a valid dump of logits: {str(error) or type(error).__name__}.") from error
    for name, logits in dump.logits.items():
        if logits.ndim != 2 or logits.shape[1] != len(dump.labels) + 1:
            raise DataError(f"{path}: the logits of {name} have the shape {logits.shape}, but an alphabet of "
                            f"{len(dump.labels)} symbols needs {len(dump.labels) + 1} columns, the last one for the "
                            "blank; give the alphabet that the model was trained with.")
    return dump


def _check(dump: LogitsDump) -> None:
    if not isinstance(dump.normalization, dict):
        raise ValueError(f"its normalization must be a dict, got {dump.normalization!r}")
    form = dump.normalization.get("unicode_form")
    if form not in _UNICODE_FORMS:
        raise ValueError(f"its unicode_form must be one of {', '.join(map(str, _UNICODE_FORMS))}, got {form!r}")
    if not isinstance(dump.normalization.get("remove_characters", ""), str):
        raise ValueError("the characters to remove from references must be text, got "
                         f"{dump.normalization['remove_characters']!r}")
    if not all(isinstance(label, str) for label in dump.labels):
        raise ValueError("its alphabet contains values that are not text")
    if not 0 < dump.step_seconds < float("inf"):
        raise ValueError(f"the time between its frames must be positive, got {dump.step_seconds:g} seconds")
    for name, logits in dump.logits.items():
        if logits.dtype.kind not in "fiu":
            raise ValueError(f"the logits of {name} must be real numbers, got dtype {logits.dtype}")


def _read_arrays(dump: IO[bytes], labels: Sequence[str] | None) -> LogitsDump:
    with np.load(dump, allow_pickle=False) as file:
        names = [str(name) for name in file["names"]]
        if len(set(names)) < len(names):
            raise ValueError("two of its utterances have the same name")
        return LogitsDump({name: file[f"logits_{number}"] for number, name in enumerate(names)},
                          list(labels or (str(label) for label in file["labels"])), float(file["step_seconds"]),
                          json.loads(str(file["normalization"])) if "normalization" in file else {})


def _read_pickle(dump: IO[bytes], labels: Sequence[str] | None) -> LogitsDump:
    content = load_arrays(dump.read())
    logits = content.get("logits", content)
    vocab = content.get("vocab")
    found = list(labels) if labels else [vocab[number] for number in range(len(vocab))] if vocab else None
    if found is None:
        raise ValueError("it does not contain the alphabet; give the alphabet as a file")
    if not all(isinstance(value, np.ndarray) for value in logits.values()):
        raise ValueError("its logits are not arrays")
    return LogitsDump({str(name): np.asarray(value, np.float32) for name, value in logits.items()}, found,
                      float(content.get("step_size", 0.02)), json.loads(content.get("normalization", "{}")))
