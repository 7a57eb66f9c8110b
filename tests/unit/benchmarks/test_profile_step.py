"""Operations are told apart by type and scope, and found in profiles of CPUs and GPUs."""

from __future__ import annotations

import pytest

from benchmarks.profile_step import (
    CATEGORIES,
    OTHER,
    Event,
    Profile,
    categorize,
    format_table,
    operation_events,
    summarize,
)

xplane_pb2 = pytest.importorskip("tensorflow.tsl.profiler.protobuf.xplane_pb2")


@pytest.mark.parametrize("name, kind, category", [
    ("encoder/MatMul", "_MklMatMul", "matrix products"),
    ("gradient_tape/MatMul_1", "_MklNativeFusedMatMul", "matrix products"),
    ("x/conv", "Conv2DBackpropFilter", "matrix products"),
    ("optimizer/cond/then/_1/optimizer/mul", "Mul", "optimizer"),
    ("optimizer/MatMul", "MatMul", "optimizer"),
    ("gradient_tape/norm_3/MatMul", "MatMul", "normalisation"),
    ("norm/Mean", "Mean", "normalisation"),
    ("normal/Mean", "Mean", "sums"),
    ("y", "FusedBatchNormV3", "normalisation"),
    ("Softmax", "_MklSoftmax", "softmax"),
    ("u", "StatelessRandomUniformFullIntV2", "random numbers"),
    ("c", "Cast", "casts"),
    ("t", "_MklTranspose", "data movement"),
    ("g", "GatherV2", "data movement"),
    ("a", "_MklNativeAddV2", "element-wise"),
    ("s", "ResourceStridedSliceAssign", "data movement"),
    ("z", "Unheard", OTHER),
])
def test_categories(name, kind, category):
    assert categorize(Event(name, kind, 1.0)) == category and category in CATEGORIES


def add_event(plane, line, name, display, microseconds, tf_op=None):
    number = len(plane.event_metadata) + 1
    plane.event_metadata[number].name, plane.event_metadata[number].display_name = name, display
    event = line.events.add(metadata_id=number, duration_ps=int(microseconds * 1e6))
    if tf_op is not None:
        plane.stat_metadata[1].name = "tf_op"
        event.stats.add(metadata_id=1, str_value=tf_op)


def cpu_plane(space):
    plane = space.planes.add(name="/host:CPU")
    line = plane.lines.add(name="tf_Compute/1")
    add_event(plane, line, "ExecutorState::Process", "", 50)
    add_event(plane, line, "a/MatMul:_MklMatMul", "_MklMatMul", 30)
    add_event(plane, line, "loop:While", "While", 100)
    add_event(plane, plane.lines.add(name="tf_Compute/2"), "a/add:AddV2", "AddV2", 10)


def test_operations_of_a_cpu():
    space = xplane_pb2.XSpace()
    cpu_plane(space)
    events = list(operation_events(space))
    assert [(e.name, e.type, round(1e6 * e.seconds)) for e in events] == [("a/MatMul", "_MklMatMul", 30),
                                                                         ("a/add", "AddV2", 10)]


def test_kernels_of_a_gpu_count_instead_of_the_host():
    space = xplane_pb2.XSpace()
    cpu_plane(space)
    plane = space.planes.add(name="/device:GPU:0")
    stream = plane.lines.add(name="Stream #13(Compute)")
    add_event(plane, stream, "sm90_gemm_f16", "", 20, tf_op="a/MatMul:MatMul")
    add_event(plane, stream, "MemcpyH2D", "", 5)
    add_event(plane, plane.lines.add(name="TensorFlow Ops"), "a/MatMul", "", 20, tf_op="a/MatMul:MatMul")
    by_category = summarize(operation_events(space), steps=5)
    assert by_category["matrix products"] == pytest.approx(4e-6)
    assert by_category["data movement"] == pytest.approx(1e-6) and sum(by_category.values()) == pytest.approx(5e-6)


def test_the_table_has_shares_and_ratios():
    def profile(products, casts, seconds):
        by_category = {**dict.fromkeys(CATEGORIES, 0.0), "matrix products": products, "casts": casts}
        return Profile(by_category, seconds, seconds)

    profiles = {"float32": profile(0.09, 0.01, 0.08), "mixed": profile(0.03, 0.01, 0.04)}
    rows = [line.strip("| ").split(" | ") for line in format_table(profiles).splitlines()]
    assert rows[0] == ["part of the step", "float32 ms", "share", "mixed ms", "share", "quicker"]
    assert rows[2] == ["matrix products", "90.0", "90.0%", "30.0", "75.0%", "3.00×"]
    assert [row[0] for row in rows[3:]] == ["casts", "all operations", "a step, without the profiler"]
    assert rows[-1][-1] == "2.00×"
