"""The formats of exports, by name. Importing this module imports none of them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from open_seq2seq.utils.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from open_seq2seq.models.serving import ServingFunction

# Name of the format → where it is described: module of this package, name in it, and the packages and the extra of
# setup.py that writing it needs.
_MODULES: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "savedmodel": ("saved_model", "FORMAT", (), ""),
    "litert": ("converted", "LITERT", ("ai_edge_litert",), "litert"),
    "litert_float16": ("converted", "LITERT_FLOAT16", ("ai_edge_litert",), "litert"),
    "litert_int8": ("converted", "LITERT_INT8", ("ai_edge_litert", "ai_edge_quantizer"), "litert"),
    "onnx": ("converted", "ONNX", ("tf2onnx", "onnxruntime"), "onnx"),
    "sherpa": ("sherpa", "FORMAT", ("tf2onnx", "onnxruntime"), "onnx"),
    "ctranslate2": ("ctranslate2", "FORMAT", ("ctranslate2",), "ctranslate2"),
    "ctranslate2_float16": ("ctranslate2", "FLOAT16", ("ctranslate2",), "ctranslate2"),
    "ctranslate2_int8": ("ctranslate2", "INT8", ("ctranslate2",), "ctranslate2"),
    "argos": ("ctranslate2", "ARGOS", ("ctranslate2",), "ctranslate2"),
    "huggingface": ("hugging_face", "FORMAT", (), ""),
}

FORMATS = tuple(_MODULES)
"""The names of all formats."""


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
      name: its name on the command line, which is also its name in ``outside.RUNTIMES``.
      title: its name in messages.
      holds_raw: whether it holds functions of raw inputs; if not, it holds cores only.
      write: writes the functions of a model into a folder; returns the functions that it could not write, and why, or
        None if it has written all. Raises UserError if it has written none.
      loading: returns lines of Python that load the folder and call a function, without this package; the arguments
        are the function and the name of the folder.
      needs: the line that installs what ``loading`` needs.
      least_equal: smallest share of equal results with which an export passes its check.
      most_difference: largest difference of numbers with which an export passes its check.
      functions: returns what a model can do in this format; by default, what the model declares.
      search: returns the values of inference, by path, with which the results of an export are compared; by default
        those of the model.
      runtime: packages of the runtime that the check needs if they are not those that writing needs. Without them, the
        export is written without a check.
      head: lines before the README.
    """

    name: str
    title: str
    holds_raw: bool
    write: Callable[[Any, Sequence[ServingFunction], Path], Mapping[str, str] | None]
    loading: Callable[[ServingFunction, str], list[str]]
    needs: str
    least_equal: float = 1.0
    most_difference: float = 1e-3
    functions: Callable[[Any], Sequence[ServingFunction]] = lambda model: model.serving_functions()
    search: Callable[[Any], Mapping[str, Any]] = lambda model: {}
    runtime: tuple[str, ...] = ()
    head: tuple[str, ...] = ()

    @property
    def missing_runtime(self) -> str:
        """The packages of the runtime that cannot be imported, for messages; an empty string if there are none."""
        return " and ".join(_missing(self.runtime))


def _missing(packages: Sequence[str]) -> list[str]:
    return [package.replace("_", "-") for package in packages if importlib.util.find_spec(package) is None]


def check_format(name: str) -> None:
    """Raises UserError if no format has this name, or if packages that it needs are not installed."""
    if name not in _MODULES:
        raise UserError(f"--export_format is {name!r} but has to be one of {', '.join(FORMATS)}."
                        f"{did_you_mean(name, FORMATS)}")
    _, _, packages, extra = _MODULES[name]
    if missing := _missing(packages):
        raise UserError(f"The format {name} needs {' and '.join(missing)}, which cannot be imported: run `pip install "
                        f"'open-seq2seq[{extra}]'`.")


def format_of(name: str) -> Format:
    """Returns the format with this name."""
    check_format(name)
    module, variable, *_ = _MODULES[name]
    return getattr(importlib.import_module(f"open_seq2seq.export.{module}"), variable)
