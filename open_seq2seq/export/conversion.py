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
    return _each_once(quantized.quantize(enable_progress_report=False).quantized_model)


def _each_once(contents: bytearray) -> bytes:
    """Returns a LiteRT file that stores equal constants once: quantizing copies a table that several functions read."""
    from ai_edge_litert.tools import flatbuffer_utils

    model = flatbuffer_utils.read_model_from_bytearray(contents)
    first: dict[bytes, int] = {}
    kept = {number: first.setdefault(bytes(buffer.data), number) for number, buffer in enumerate(model.buffers)
            if buffer.data is not None and len(buffer.data)}
    tensors = [tensor for subgraph in model.subgraphs for tensor in subgraph.tensors]
    for user in [*tensors, *(model.metadata or ())]:
        user.buffer = kept.get(user.buffer, user.buffer)
    for number in (number for number, same in kept.items() if same != number):
        model.buffers[number].data = None
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


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


def without_new_axes(saved: str) -> None:
    """Replaces the slices of a SavedModel that only insert axes, such as ``x[:, tf.newaxis]``, by ``ExpandDims``.

    LiteRT has such slices only for tensors with at most one size that is not fixed.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    path = Path(saved) / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for function in model.meta_graphs[0].graph_def.library.function:
        by_name = {node.name: node for node in function.node_def}
        for node in list(function.node_def):
            if node.op == "StridedSlice" and (axes := _new_axes(node, by_name)):
                _expand(function, node, axes)
    path.write_bytes(model.SerializeToString())


def _new_axes(node: Any, by_name: dict[str, Any]) -> list[int]:
    """Returns the axes to insert one after the other; none for a slice that does anything else."""
    import tensorflow as tf

    # Attributes with default values are not stored, and reading them would store empty ones.
    masks = {name: node.attr[f"{name}_mask"].i if f"{name}_mask" in node.attr else 0
             for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    strides = by_name.get(node.input[3].partition(":")[0])
    if masks["shrink_axis"] or strides is None or strides.op != "Const":
        return []
    steps = tf.make_ndarray(strides.attr["value"].tensor)
    bits = range(len(steps))
    whole = masks["begin"] & masks["end"] | masks["new_axis"] | masks["ellipsis"]
    if (steps != 1).any() or whole != (1 << len(steps)) - 1:
        return []
    new = [bit for bit in bits if masks["new_axis"] >> bit & 1]
    dots = next((bit for bit in bits if masks["ellipsis"] >> bit & 1), len(steps))
    return [bit for bit in new if bit < dots] + [bit - len(steps) for bit in reversed(new) if bit > dots]


def _expand(function: Any, node: Any, axes: list[int]) -> None:
    """Makes ``node`` insert axes: the last itself, the others by new nodes before it."""
    import tensorflow as tf

    source, *others = node.input
    controls = [name for name in others if name.startswith("^")]
    for number, axis in enumerate(axes):
        constant = function.node_def.add(name=f"{node.name}_axis_{number}", op="Const")
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(axis, tf.int32))
        constant.attr["dtype"].type = tf.int32.as_datatype_enum
        is_last = number == len(axes) - 1
        one = node if is_last else function.node_def.add(name=f"{node.name}_expanded_{number}")
        kind = node.attr["T"].type
        one.ClearField("attr")
        one.op = "ExpandDims"
        one.attr["T"].type, one.attr["Tdim"].type = kind, tf.int32.as_datatype_enum
        del one.input[:]
        one.input.extend([source, f"{constant.name}:output:0", *(controls if is_last else ())])
        source = f"{one.name}:output:0"


KINDS: dict[str, Callable[[str, str], bytes]] = {
    "litert": litert, "litert_float16": litert_float16, "litert_int8": litert_int8, "onnx": onnx}


def main(kind: str, saved: str, *functions_and_files: str) -> None:
    """Converts functions, and writes a file for each."""
    without_new_axes(saved)
    for function, target in zip(functions_and_files[::2], functions_and_files[1::2], strict=True):
        print(f"{BEGIN}{function}", flush=True)
        contents = KINDS[kind](saved, function)
        with Path(target).open("xb") as file:
            file.write(contents)


if __name__ == "__main__":
    main(*sys.argv[1:])
