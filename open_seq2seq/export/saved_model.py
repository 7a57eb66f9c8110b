"""SavedModel: functions of raw inputs and cores, for TensorFlow without this package and for TensorFlow Serving."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from open_seq2seq.export.formats import Format
from open_seq2seq.export.tracing import bare_module, for_any_number_of_rows, traced
from open_seq2seq.models.serving import ServingFunction


def write(model: Any, functions: Sequence[ServingFunction], folder: Path) -> None:
    """Writes a SavedModel with one signature for each function; the first is also ``serving_default``."""
    module = bare_module(model, functions)
    signatures = {}
    for function in functions:
        # A second search makes the file larger, so cores, which are meant for batches, have only one.
        call = for_any_number_of_rows(function.function, model.searches and not function.is_core)
        signatures[function.name] = traced(call, function.inputs)
    tf.saved_model.save(module, str(folder), {"serving_default": signatures[functions[0].name], **signatures})


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that load the folder and call a function."""
    arguments = ", ".join(f"{name}=tf.constant({_example(spec)})" for name, spec in function.inputs.items())
    return ["import tensorflow as tf", "", f"model = tf.saved_model.load({folder!r})",
            f"outputs = model.signatures[{function.name!r}]({arguments})",
            *(f"print(outputs[{name!r}].numpy())" for name in function.outputs)]


def _example(spec: tf.TensorSpec) -> str:
    """Returns an expression for an example of an input."""
    value = '"…"' if spec.dtype == tf.string else "0.0" if spec.dtype.is_floating else "1"
    for _ in range(spec.shape.rank or 0):
        value = f"[{value}]"
    return value if spec.dtype == tf.string else f"{value}, tf.{spec.dtype.name}"


FORMAT = Format("savedmodel", "SavedModel", True, write, loading, "pip install tensorflow-cpu")
