"""LiteRT (TensorFlow Lite): cores for phones and small computers, with built-in operations only."""

from __future__ import annotations

from open_seq2seq.export.converted import arguments_of, writer
from open_seq2seq.export.formats import Format
from open_seq2seq.models.serving import ServingFunction

_ENDING = ".tflite"


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that load the file of a function and call it."""
    return ["import numpy as np", "from ai_edge_litert.interpreter import Interpreter", "",
            f"interpreter = Interpreter('{folder}/{function.name}{_ENDING}', num_threads=1)",
            f"run = interpreter.get_signature_runner({function.name!r})",
            f"outputs = run(**{{{arguments_of(function)}}})",
            *(f"print(outputs[{name!r}])" for name in function.outputs)]


def _format(name: str, title: str, least_equal: float, most_difference: float) -> Format:
    return Format(name, title, False, writer(name, title, _ENDING), loading, "pip install ai-edge-litert numpy",
                  least_equal, most_difference)


FORMAT = _format("litert", "LiteRT", 1.0, 1e-3)
FLOAT16 = _format("litert_float16", "LiteRT in float16", 0.97, 0.05)
INT8 = _format("litert_int8", "LiteRT in int8", 0.9, 0.2)
