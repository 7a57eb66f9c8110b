"""Conversion of cores in a process of its own, and why it fails."""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.export import conversion, converted, export, formats
from open_seq2seq.export.converted import reason
from open_seq2seq.export.export import check
from open_seq2seq.models.serving import Answer, ServingFunction
from open_seq2seq.parts.component import Module
from open_seq2seq.utils.errors import UserError


@pytest.mark.parametrize(("log", "named"), [
    ("Some ops\nTF Select ops: Conv2D, EuclideanNorm\nDetails:", "Conv2D, EuclideanNorm"),
    ("Tensorflow op [a/b: Bitcast] is not supported\nTensorflow op [c: Bitcast] is not supported", "Bitcast of"),
    ("error: 'tf.TensorListReserve' op requires element_shape to be static", "TensorListReserve"),
    ("Traceback\nMemoryError: no memory", "MemoryError: no memory"), ("", "the code 3"),
])
def test_the_reason_of_a_failure(log: str, named: str):
    assert named in reason(log, 3)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"tf2onnx and onnxruntime.*open-seq2seq\[onnx\]"):
        formats.check_format("onnx")


def test_a_full_disk_is_no_fault_of_the_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    said = f"{conversion.BEGIN}ids\nTraceback\nOSError: [Errno 28] {os.strerror(errno.ENOSPC)}"
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: subprocess.CompletedProcess(words, 1, said))
    with pytest.raises(OSError, match=r"No space left on device: .*ids\.onnx"):
        converted._converted("onnx", "saved", {"ids": str(tmp_path / "ids.onnx")})


def test_equal_constants_are_stored_once():
    library = pytest.importorskip("ai_edge_litert.tools.flatbuffer_utils", reason="needs the extra litert of setup.py")
    from ai_edge_litert import schema_py_generated as schema

    def places(numbers):
        return [schema.TensorT(buffer=number) for number in numbers]

    data = [None, b"ab", b"c", b"ab", b"ab"]
    model = schema.ModelT(buffers=[schema.BufferT(data=one and np.frombuffer(one, np.uint8)) for one in data],
                          subgraphs=[schema.SubGraphT(tensors=places(one), operators=[])
                                     for one in ([1, 2, 0], [3, 3, 4, 1])])
    contents = conversion._each_once(bytearray(library.convert_object_to_bytearray(model)))
    found = library.read_model_from_bytearray(bytearray(contents))
    assert [[bytes([] if (one := found.buffers[tensor.buffer].data) is None else one) for tensor in subgraph.tensors]
            for subgraph in found.subgraphs] == [[b"ab", b"c", b""], [b"ab"] * 4]
    assert sum(buffer.data is not None for buffer in found.buffers) == 2


class Scaled(Module):
    """Has three weights."""

    def __init__(self) -> None:
        super().__init__(name="scaled")
        self.weights = self.weight([3], tf.keras.initializers.Constant([1.0, 2.0, 3.0]))


def core(module: Any, function: Any) -> ServingFunction:
    """Returns a core that scales vectors by the module's weights."""
    def answers(outputs: Any) -> list[Answer]:
        return [Answer((), tuple(map(float, row))) for row in outputs["scaled"]]

    return ServingFunction("scaled", lambda inputs: {"scaled": function(inputs["values"] * module.weights)},
                           {"values": tf.TensorSpec([None, 3], tf.float32)}, {"scaled": "vectors [batch, 3]"}, True,
                           lambda inputs, numbers: {"values": np.array(inputs, np.float32)}, answers,
                           lambda result: Answer((), tuple(result)))


@pytest.mark.long
@pytest.mark.parametrize("name", ["litert", "onnx"])
def test_a_core_is_converted_checked_and_refused(tmp_path: Path, name: str):
    for package in ("ai_edge_litert",) if name == "litert" else ("tf2onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"needs the extra {name} of setup.py")
    model = Scaled()
    chosen, function = formats.format_of(name), core(model, tf.identity)
    chosen.write(model, [function], tmp_path)
    reports = check(chosen, [function], tmp_path, lambda inputs: [np.array(row) * [1.0, 2.0, 3.0] for row in inputs],
                    [[1.0, 2.0, 3.0], [0.0, 1.0, 4.0]])
    assert reports["scaled"].largest_difference < 1e-6
    strange = dataclasses.replace(core(model, tf.math.erfinv), name="strange")
    with pytest.raises(UserError, match=r"strange, because it has no operation for .*Erfinv"):
        chosen.write(model, [strange], tmp_path / "other")
    assert not (tmp_path / "other").exists()
    (tmp_path / "other").mkdir()
    assert "Erfinv" in chosen.write(model, [strange, function], tmp_path / "other")["strange"]
    assert [path.stem for path in (tmp_path / "other").iterdir()] == ["scaled"]


@pytest.mark.parametrize(("rows", "refused"), [([1.5, 2.0, 3.0], None), ([np.nan, 2.0, 3.0], "nan"), ([1.0], "inf")])
def test_numbers_that_inference_does_not_return_are_compared_and_have_to_exist(monkeypatch, tmp_path, rows, refused):
    function = dataclasses.replace(core(None, None), expected=lambda result: Answer(()),
                                   numbers=lambda inputs: [np.array(row) for row in inputs])
    monkeypatch.setattr(export, "_run", lambda chosen, folder, calls: (
        [{"scaled": np.array([rows] * len(feed["values"]))} for _, feed in calls], np.ones(len(calls))))
    run = functools.partial(check, formats.format_of("savedmodel"), [function], tmp_path, list, [[1.0, 2.0, 3.0]] * 2)
    if refused:
        with pytest.raises(UserError, match=f"differ by {refused} from those of inference"):
            run()
    else:
        assert run()["scaled"].largest_difference == 0.5
