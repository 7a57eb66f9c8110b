"""LiteRT and ONNX: formats that hold cores only, a file for each, which a converter writes in a process of its own.

Their files have built-in operations of LiteRT (TensorFlow Lite) only, or operations of ONNX' standard domain only.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from open_seq2seq.export import conversion
from open_seq2seq.export.formats import Format
from open_seq2seq.export.saved_model import save
from open_seq2seq.models.serving import EXAMPLES, ServingFunction
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError

# What converters say about operations that their format does not have.
_OPERATIONS = (r"TF Select ops: (.+)", r"Custom ops: (.+)", r"Tensorflow op \[[^\]]*: (\w+)\] is not supported",
               r"No Op registered for (\w+)", r"'tf\.(\w+)' op ", r"Lowering (tensor list ops)")
SAMPLING = "it has no operation for the random numbers of sampling: give sampling_temperature=None"
"""Why functions that sample are refused."""


def writer(kind: str, title: str, ending: str) -> Callable[[Any, Sequence[ServingFunction], Path], Mapping[str, str]]:
    """Returns the ``write`` of a ``Format``, which refuses the functions that the converter cannot convert.

    Args:
      kind: one of ``conversion.KINDS``.
      title: name of the format in messages.
      ending: the ending of its files, which are named after the functions.
    """
    def write(model: Any, functions: Sequence[ServingFunction], folder: Path) -> dict[str, str]:
        refused = {function.name: SAMPLING for function in functions if EXAMPLES in function.inputs}
        kept = [function for function in functions if function.name not in refused]
        for function in kept:
            if both := {*function.inputs} & {*function.outputs}:
                raise ValueError(f"inputs and outputs of {function.name} have the same name: {both}")
        if kept:
            targets = {function.name: str(folder / f"{function.name}{ending}") for function in kept}
            with tempfile.TemporaryDirectory() as place:
                saved = os.path.join(place, "model")
                # These runtimes have no Fourier transform, or only its absolute value.
                save(model, kept, saved, fourier_by_matrix=True)
                refused |= _converted(kind, saved, targets)
        if len(refused) == len(functions):
            raise UserError(f"The format {title} cannot hold the model: "
                            f"{'; '.join(f'{name}, because {why}' for name, why in refused.items())}. Nothing was "
                            "written.")
        return refused

    return write


def _converted(kind: str, saved: str, targets: Mapping[str, str]) -> dict[str, str]:
    """Runs the converter, again after a function at which it fails; returns these functions, and why it fails.

    The converter's messages about them are written to files in the folder of temporary files.

    Args:
      kind: see ``writer``.
      saved: the SavedModel.
      targets: the file to write for each function.

    Raises:
      OSError: the disk is full.
    """
    refused: dict[str, str] = {}
    left = list(targets)
    while left:
        words = [kind, saved, *(word for name in left for word in (name, targets[name]))]
        done = subprocess.run([sys.executable, "-P", conversion.__file__, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
        if not done.returncode:
            break
        log = os.path.join(tempfile.mkdtemp(prefix="export-"), f"{kind}.log")
        with open(log, "x", encoding="utf-8") as file:
            file.write(done.stdout)
        name, _, messages = done.stdout.rpartition(conversion.BEGIN)[2].partition("\n")
        failed = [name] if name in left else left  # all, if it failed before the first
        if (full := os.strerror(errno.ENOSPC)) in messages:
            raise OSError(errno.ENOSPC, full, targets[failed[0]])
        for one in failed:
            disk.remove_file(targets[one])  # a part of the file
        deco_print(f"The messages of the converter, which failed at {', '.join(failed)}, are in {log}")
        refused |= dict.fromkeys(failed, reason(messages, done.returncode))
        left = left[left.index(failed[-1]) + 1:]
    return refused


def reason(log: str, code: int) -> str:
    """Returns why a converter failed, from its messages and its exit code."""
    for pattern in _OPERATIONS:
        if names := re.findall(pattern, log):
            names = list(dict.fromkeys(name.strip() for line in names for name in line.split(",")))
            return f"it has no operation for {', '.join(names)} of TensorFlow, as this model uses it"
    lines = log.strip().splitlines()
    return f"its converter failed ({lines[-1]:.200})" if lines else f"its converter ended with the code {code}"


def _arguments_of(function: ServingFunction) -> str:
    """Returns the inputs of a function as the inside of a dict in Python, with examples for values."""
    return ", ".join(f"{name!r}: np.{'zeros' if spec.dtype.is_floating else 'ones'}("
                     f"{[1 if size is None else size for size in spec.shape.as_list()]}, np.{spec.dtype.name})"
                     for name, spec in function.inputs.items())


def _loading_of_litert(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that load the file of a function and call it."""
    return ["import numpy as np", "from ai_edge_litert.interpreter import Interpreter", "",
            f"interpreter = Interpreter('{folder}/{function.name}.tflite', num_threads=1)",
            f"run = interpreter.get_signature_runner({function.name!r})",
            f"outputs = run(**{{{_arguments_of(function)}}})",
            *(f"print(outputs[{name!r}])" for name in function.outputs)]


def _loading_of_onnx(function: ServingFunction, folder: str) -> list[str]:
    return ["import numpy as np", "import onnxruntime", "",
            f"session = onnxruntime.InferenceSession('{folder}/{function.name}.onnx')",
            f"outputs = session.run({[*function.outputs]}, {{{_arguments_of(function)}}})",
            "print(outputs)"]


def _litert(name: str, title: str, least_equal: float, most_difference: float) -> Format:
    return Format(name, title, False, writer(name, title, ".tflite"), _loading_of_litert,
                  "pip install ai-edge-litert numpy", least_equal, most_difference)


LITERT = _litert("litert", "LiteRT", 1.0, 1e-3)
LITERT_FLOAT16 = _litert("litert_float16", "LiteRT in float16", 0.97, 0.05)
LITERT_INT8 = _litert("litert_int8", "LiteRT in int8", 0.9, 0.2)
ONNX = Format("onnx", "ONNX", False, writer("onnx", "ONNX", ".onnx"), _loading_of_onnx,
              "pip install onnxruntime numpy")
