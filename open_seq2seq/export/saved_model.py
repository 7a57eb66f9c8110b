"""SavedModel: functions of raw inputs and cores, for TensorFlow without this package and for TensorFlow Serving."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from open_seq2seq.export.formats import Format
from open_seq2seq.export.tracing import for_any_number_of_rows, save
from open_seq2seq.models.serving import ServingFunction


def write(model: Any, functions: Sequence[ServingFunction], folder: Path) -> None:
    """Writes a SavedModel; see ``tracing.save``."""
    # A second search makes the file larger, so cores, which are meant for batches, have only one.
    save(model, [dataclasses.replace(function, function=for_any_number_of_rows(
        function.function, model.searches and not function.is_core)) for function in functions], str(folder))


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
