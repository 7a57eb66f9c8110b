"""ONNX: cores for ONNX Runtime, with operations of the standard domain only."""

from __future__ import annotations

from open_seq2seq.export.converted import arguments_of, writer
from open_seq2seq.export.formats import Format
from open_seq2seq.models.serving import ServingFunction

_ENDING = ".onnx"


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that load the file of a function and call it."""
    return ["import numpy as np", "import onnxruntime", "",
            f"session = onnxruntime.InferenceSession('{folder}/{function.name}{_ENDING}')",
            f"outputs = session.run({[*function.outputs]}, {{{arguments_of(function)}}})",
            "print(outputs)"]


FORMAT = Format("onnx", "ONNX", False, writer("onnx", "ONNX", _ENDING), loading, "pip install onnxruntime numpy")
