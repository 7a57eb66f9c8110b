"""What a data layer says of its arrays, and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data import DataLayer
from open_seq2seq.data.fields import Field, fields_of, flatten, signature_of, timed_groups
from open_seq2seq.data.static_shapes import EMPTY_ID, StaticBatches, StaticShape, pad_batch
from open_seq2seq.utils.errors import ConfigError

LENGTHS, IDS = Field(tf.int32, (None,)), Field(tf.int64, (None,))
# As of synthesis: a spectrogram and what ends it share lengths; a prior of their alignment is as wide as both sides.
SYNTHESIS = {
    "source_tensors": [Field(tf.int32, (None, None), time=1, lengths=1), LENGTHS],
    "target_tensors": [Field(tf.float32, (None, 5, None), time=2, lengths=2),
                       Field(tf.float32, (None, None), time=1, lengths=2), LENGTHS,
                       Field(tf.int32, (None, None), time=1, lengths="source_tensors/1"),
                       Field(tf.float32, (None, 9))],
    "ids": IDS,
}


def synthesis_batch(rows=2, source=4, target=6):
    return {"source_tensors": [np.ones([rows, source], np.int32), np.full(rows, source, np.int32)],
            "target_tensors": [np.ones([rows, 5, target], np.float32), np.ones([rows, target], np.float32),
                               np.full(rows, target, np.int32), np.ones([rows, source], np.int32),
                               np.ones([rows, 9], np.float32)],
            "ids": np.arange(rows)}


def specs(signature):
    return {path: (spec.dtype, tuple(spec.shape)) for path, spec in flatten(signature)}


def test_the_signature_follows_from_the_fields():
    assert specs(signature_of(SYNTHESIS)) == {path: (f.dtype, f.shape) for path, f in flatten(SYNTHESIS)}


def test_arrays_with_the_same_lengths_are_one_width_and_sources_come_first():
    groups = timed_groups({"ids": IDS, "target_tensors": SYNTHESIS["target_tensors"],
                           "source_tensors": SYNTHESIS["source_tensors"]})
    assert groups == [{"source_tensors/0": 1, "target_tensors/3": 1}, {"target_tensors/0": 2, "target_tensors/1": 1}]


def test_each_array_is_padded_along_its_own_axis():
    padded = pad_batch(synthesis_batch(), StaticShape(3, (7, 8)), SYNTHESIS)
    assert {path: array.shape for path, array in flatten(padded)} == {
        "source_tensors/0": (3, 7), "source_tensors/1": (3,), "target_tensors/0": (3, 5, 8), "target_tensors/1": (3, 8),
        "target_tensors/2": (3,), "target_tensors/3": (3, 7), "target_tensors/4": (3, 9), "ids": (3,)}
    assert padded["ids"][-1] == EMPTY_ID
    for (_, old), (path, new) in zip(flatten(synthesis_batch()), flatten(padded), strict=True):
        assert new.dtype == old.dtype and (path == "ids" or new.sum() == old.sum())


def test_an_array_as_wide_as_time_by_chance_is_left_alone():
    """The 9 numbers of each example are no time, though the batch may be 9 wide."""
    padded = pad_batch(synthesis_batch(target=9), StaticShape(2, (4, 12)), SYNTHESIS)
    assert padded["target_tensors"][4].shape == (2, 9) and padded["target_tensors"][1].shape == (2, 12)


class Plain:
    fields = SYNTHESIS

    def __init__(self, batch):
        self.batch = batch

    def make_batch(self, examples):
        return self.batch


def test_uneven_widths_are_named():
    batch = synthesis_batch()
    batch["target_tensors"][1] = np.ones([2, 5], np.float32)
    with pytest.raises(ConfigError, match="with Plain: target_tensors/0 is 6 wide and target_tensors/1 is 5 wide"):
        StaticBatches(Plain(batch), [StaticShape(4, (9, 9))]).make_batch(np.arange(2))


def test_pictures_have_rows_alone():
    layer = Plain({"source_tensors": [np.ones([2, 8, 8, 3])], "ids": np.arange(2)})
    layer.fields = {"source_tensors": [Field(tf.float64, (None, 8, 8, 3))], "ids": IDS}
    padded = StaticBatches(layer, [StaticShape(2, (1,)), StaticShape(5, (1,))]).make_batch(np.arange(2))
    assert padded["source_tensors"][0].shape == (2, 8, 8, 3)
    layer.batch = {"source_tensors": [np.ones([3, 8, 8, 3])], "ids": np.arange(3)}
    assert StaticBatches(layer, [StaticShape(2, (1,)), StaticShape(5, (1,))]).make_batch(0)["ids"].shape == (5,)


@pytest.mark.parametrize(("shape", "other", "timed"), [
    ((None, None), (None, None), True), ((None, None, 3), (None, 4), True), ((None, 7), (None, None), False),
    ((None, 32, 32, 3), (None,), False), ((None,), (None,), False)])
def test_fields_follow_from_a_signature_by_convention(shape, other, timed):
    fields = fields_of({"source_tensors": [tf.TensorSpec(shape, tf.float32), tf.TensorSpec([None], tf.int32),
                                           tf.TensorSpec(other, tf.int32)],
                        "ids": tf.TensorSpec([None], tf.int64)})
    values, lengths, more = fields["source_tensors"]
    assert (values.time, values.lengths) == ((1, 1) if timed else (None, None))
    assert lengths == LENGTHS and fields["ids"] == IDS
    assert (more.time == 1) == (timed and other[1:] == (None,))


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_time_is_an_axis_of_the_array(axis):
    with pytest.raises(ConfigError, match="an axis after the batch axis, from 1 to 1"):
        Field(tf.float32, (None, None), time=axis)


class Declaring(DataLayer):
    @property
    def fields(self):
        return {"source_tensors": [Field(tf.int32, (None, None), 1, 1), LENGTHS], "ids": IDS}


class OldStyle(Declaring):
    """Written when there was input_signature alone."""

    @property
    def input_signature(self):
        return {**super().input_signature, "target_tensors": [tf.TensorSpec([None, 3], tf.int32)]}


class NewAgain(OldStyle):
    @property
    def fields(self):
        return {**super().fields, "speaker": LENGTHS}


@pytest.mark.parametrize(("layer_class", "paths"), [
    (Declaring, ["ids", "source_tensors/0", "source_tensors/1"]),
    (OldStyle, ["ids", "source_tensors/0", "source_tensors/1", "target_tensors/0"]),
    (NewAgain, ["ids", "source_tensors/0", "source_tensors/1", "speaker", "target_tensors/0"])])
def test_of_fields_and_signature_each_class_s_own_decides(layer_class, paths):
    layer = layer_class({})
    assert sorted(specs(layer.input_signature)) == sorted(path for path, _ in flatten(layer.fields)) == paths
    assert timed_groups(layer.fields) == [{"source_tensors/0": 1}]


def test_plain_attributes_of_a_class_will_do():
    class Fields(DataLayer):
        fields = SYNTHESIS

    class Signature(DataLayer):
        input_signature = signature_of(SYNTHESIS)

    assert specs(Fields({}).input_signature) == specs(Signature({}).input_signature)
    assert Signature({}).fields["source_tensors"] == SYNTHESIS["source_tensors"]


@pytest.mark.parametrize("name", ["fields", "input_signature"])
def test_a_layer_without_either_says_so(name):
    with pytest.raises(NotImplementedError, match="must define the property fields"):
        getattr(DataLayer({}), name)
