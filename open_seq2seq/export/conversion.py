"""Converts a SavedModel to another format: a program of its own, because converters leak memory and can abort.

usage: python -P conversion.py KIND SAVEDMODEL FUNCTION FILE [FUNCTION FILE …]

KIND is one of ``KINDS``. Each file gets one function. The program imports TensorFlow and the converter only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPSET = 18
BEGIN = "Converting the function "
"""Beginning of the line that is printed before a function is converted."""
_STANDARD_DOMAINS = ("", "ai.onnx")


def litert(saved: str, function: str, optimize: Callable[[Any], None] = lambda converter: None) -> bytes:
    """Returns the contents of a LiteRT file, which has built-in operations only."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=[function])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    optimize(converter)
    return converter.convert()


def litert_float16(saved: str, function: str) -> bytes:
    """Returns the contents of a LiteRT file whose weights are stored in float16."""
    import tensorflow as tf

    def optimize(converter: Any) -> None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]

    return litert(saved, function, optimize)


def litert_int8(saved: str, function: str) -> bytes:
    """Returns the contents of a LiteRT file with int8 weights, whose activations are quantized when it runs.

    What lies in the name scope ``front_end`` stays as it is: quantized mel filters would spoil the features.
    """
    from ai_edge_quantizer import qtyping, quantizer

    quantized = quantizer.Quantizer(float_model=bytearray(litert(saved, function)))
    quantized.add_dynamic_config(regex=r"^(?!.*front_end).*", operation_name=qtyping.TFLOperationName.ALL_SUPPORTED,
                                 num_bits=8)
    return bytes(quantized.quantize().quantized_model)


def onnx(saved: str, function: str) -> bytes:
    """Returns the contents of an ONNX file, which has operations of the standard domain only."""
    import onnx as library
    import tensorflow as tf
    from tf2onnx import tf_loader
    from tf2onnx.convert import _convert_common

    graph, inputs, outputs, tables, names = tf_loader.from_saved_model(
        saved, None, None, "serve", [function], return_initialized_tables=True, return_tensors_to_rename=True)
    with tf.device("CPU:0"):
        model, _ = _convert_common(graph, name=function, opset=OPSET, input_names=inputs, output_names=outputs,
                                   tensors_to_rename=names, initialized_tables=tables)
    strange = sorted({node.op_type for node in _nodes(model.graph) if node.domain not in _STANDARD_DOMAINS})
    if strange:
        raise ValueError(f"Custom ops: {', '.join(strange)}")
    library.checker.check_model(model)
    return model.SerializeToString()


def _nodes(graph: Any) -> list[Any]:
    """Returns the nodes of a graph, and those of the graphs inside of them."""
    inside = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return [*graph.node, *(node for one in inside for node in _nodes(one))]


KINDS: dict[str, Callable[[str, str], bytes]] = {
    "litert": litert, "litert_float16": litert_float16, "litert_int8": litert_int8, "onnx": onnx}


def main(kind: str, saved: str, *functions_and_files: str) -> None:
    """Converts functions, and writes a file for each."""
    for function, target in zip(functions_and_files[::2], functions_and_files[1::2], strict=True):
        print(f"{BEGIN}{function}", flush=True)
        contents = KINDS[kind](saved, function)
        with Path(target).open("xb") as file:
            file.write(contents)


if __name__ == "__main__":
    main(*sys.argv[1:])
