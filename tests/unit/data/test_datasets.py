"""Batches that a data layer makes by ``tf.data``: the same, in the same places, as those made one by one."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import open_seq2seq
from open_seq2seq.data import DataLayer
from open_seq2seq.data.batch_loader import LoaderGroup, Wanted
from open_seq2seq.data.batching import BatchLoader, BatchStream, evaluation_batches
from open_seq2seq.data.datasets import elements_of
from open_seq2seq.data.fields import Field
from open_seq2seq.data.static_shapes import EMPTY_ID, StaticBatches
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.randomness import example_seeds, next_seed
from open_seq2seq.utils.errors import ConfigError, DataError

COUNT = 30


class Vectors(DataLayer):
    """Rows of unequal length with noise in training; each fails where it is asked to."""

    lengths = np.random.default_rng(0).integers(1, 9, COUNT)
    num_examples = COUNT
    bad = -1

    def __init__(self, **params):
        super().__init__({"batch_size": 4, **params})
        self.seed = 5

    @property
    def fields(self):
        return {"source_tensors": [Field(tf.float32, (None, None), 1, 1), Field(tf.int32, (None,))],
                "ids": Field(tf.int64, (None,))}

    def describe_example(self, example):
        return f"vectors.csv:{example + 1}"

    def make_dataset(self, plan, training):
        return plan.map(lambda wanted: self.batch(wanted["examples"], wanted["epoch"], training), num_parallel_calls=4)

    def batch(self, examples, epoch, training):
        good = tf.debugging.assert_none_equal(examples, tf.constant(self.bad, tf.int64), message="It is broken.")
        with tf.control_dependencies([good] if good is not None else []):
            lengths = tf.gather(tf.constant(self.lengths, tf.int32), examples)
        mask = tf.sequence_mask(lengths, dtype=tf.float32)
        values = tf.cast(examples, tf.float32)[:, tf.newaxis] * mask
        if training:
            seeds = example_seeds(self.seed, examples, epoch)
            noise = tf.map_fn(lambda s: tf.random.stateless_uniform([9], s), seeds, fn_output_signature=tf.float32)
            values += noise[:, :tf.shape(values)[1]] * mask
        return {"source_tensors": (values, lengths), "ids": examples}


class ByHand(Vectors):
    """The same, one batch after another."""

    def make_batch(self, examples):
        return self._made(examples, 0, False)

    def make_training_batch(self, examples, epoch):
        return self._made(examples, epoch, True)

    def _made(self, examples, epoch, training):
        made = self.batch(tf.constant(examples, tf.int64), tf.constant(epoch, tf.int64), training)
        return {"source_tensors": [array.numpy() for array in made["source_tensors"]], "ids": made["ids"].numpy()}


def stream(**options):
    return BatchStream(Vectors.lengths, batch_size=4, seed=1, **options)


def training_loader(layer, source=None, start=0):
    return BatchLoader(layer, (source or stream()).by_rank(start)[0], training=True)


def take(loader, count):
    with contextlib.closing(loader):
        return [next(loader) for _ in range(count)]


def assert_same(made, expected):
    for one, other in zip(made, expected, strict=True):
        tf.nest.assert_same_structure(one, other)
        for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            assert isinstance(a, np.ndarray) and a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("start", [0, 5, 11])
def test_batches_are_those_made_one_by_one_from_any_place(start):
    """Over the end of an epoch too, where other noise is drawn."""
    loader = training_loader(Vectors(), start=start)
    assert_same(take(loader, 20), take(training_loader(ByHand(), start=start), 20))
    assert loader.index == start + 19


def test_noise_is_another_one_in_each_epoch():
    by_epoch = [{int(i): row.sum() for batch in take(training_loader(Vectors(), start=8 * epoch), 8)
                 for i, row in zip(batch["ids"], batch["source_tensors"][0], strict=True)} for epoch in (0, 1)]
    assert len(by_epoch[0]) == COUNT and all(by_epoch[0][i] != by_epoch[1][i] for i in range(COUNT))


def test_replicas_have_data_sets_of_their_own():
    def group(layer):
        return LoaderGroup(layer, stream(world_size=2, replicas=2).by_rank(6))

    assert_same(take(group(Vectors()), 14), take(group(ByHand()), 14))


@pytest.mark.parametrize(("world", "rank"), [(1, 0), (3, 2)])
def test_evaluation_is_the_same_too(world, rank):
    with contextlib.closing(evaluation_batches(Vectors(), world_size=world, rank=rank)) as made:
        batches = list(made)
        assert len(batches) == len(made)
    with contextlib.closing(evaluation_batches(ByHand(), world_size=world, rank=rank)) as expected:
        assert_same(batches, list(expected))


def test_static_shapes_pad_what_the_data_set_makes():
    source = stream(max_shapes=2)
    batches = [take(training_loader(StaticBatches(layer, source.shapes), source), 16)
               for layer in (Vectors(), ByHand())]
    assert_same(*batches)
    assert len({batch["source_tensors"][0].shape for batch in batches[0]}) <= 2
    ids = np.concatenate([batch["ids"] for batch in batches[0]])
    assert sorted(ids[ids != EMPTY_ID]) == sorted([*range(COUNT)] * 2)


def test_single_batches_come_from_the_data_set():
    examples = np.array([3, 17])
    assert_same([Vectors().make_batch(examples), Vectors().make_training_batch(examples, 4)],
                [ByHand().make_batch(examples), ByHand().make_training_batch(examples, 4)])


def test_a_layer_may_use_a_data_set_in_training_alone():
    class Mixed(ByHand):
        def make_dataset(self, plan, training):
            return super().make_dataset(plan, training) if training else None

        def make_batch(self, examples):
            return {**super().make_batch(examples), "by_hand": True}

    assert_same(take(training_loader(Mixed()), 3), take(training_loader(Vectors()), 3))
    with contextlib.closing(evaluation_batches(Mixed())) as batches:
        assert next(batches)["by_hand"]


def test_make_batch_of_a_derived_class_comes_before_the_data_set_of_its_base():
    class Derived(Vectors):
        def make_batch(self, examples):
            return {**super().make_batch(examples), "more": True}

    assert all(batch["more"] for batch in take(training_loader(Derived()), 3))


def test_an_error_names_the_example_at_its_place_and_stays():
    layer, source = Vectors(), stream()
    place = 6
    layer.bad = int(source.examples(place)[2])
    loader = training_loader(layer, source)
    assert_same([next(loader) for _ in range(place)], take(training_loader(ByHand()), place))
    for _ in range(2):
        with pytest.raises(DataError, match=rf"^vectors.csv:{layer.bad + 1} cannot be read: .*It is broken\."):
            next(loader)
    with pytest.raises(DataError, match=f"^vectors.csv:{layer.bad + 1} cannot be read"):
        layer.make_batch(np.arange(COUNT))


def failing(function):
    class Failing(Vectors):
        def make_dataset(self, plan, training):
            return plan.map(lambda wanted: {**self.batch(wanted["examples"], wanted["epoch"], training),
                                            "ids": function(wanted["examples"])})

    return Failing()


def raising(error):
    def python(examples):
        raise error

    return lambda examples: tf.ensure_shape(tf.py_function(python, [examples], tf.int64), [None])


@pytest.mark.parametrize(("function", "words"), [
    (raising(DataError("The list is empty.")), "The list is empty"), (raising(ValueError("7 is odd")), "7 is odd"),
    (lambda examples: tf.cast(tf.strings.length(tf.io.read_file("gone.png")), tf.int64) + examples,
     "gone.png; No such file or directory"),
    (lambda examples: tf.strings.to_number(tf.strings.as_string(examples) + "x", tf.int64), "StringToNumberOp.*"),
])
def test_errors_are_in_the_words_of_what_failed(function, words):
    with pytest.raises(DataError) as caught:
        failing(function).make_batch(np.array([4]))
    assert re.fullmatch(rf"vectors.csv:5 cannot be read: {words}\. Correct or remove it\.", str(caught.value))


def test_a_mistake_in_python_is_no_fault_of_the_data():
    with pytest.raises(tf.errors.OpError, match="KeyError"):
        failing(raising(KeyError("x"))).make_batch(np.array([4]))


def test_an_error_of_the_stream_arrives_as_it_is():
    def broken():
        yield Wanted(0, np.array([1, 2]))
        raise DataError("The plan is gone.")

    loader = BatchLoader(Vectors(), broken())
    next(loader)
    with pytest.raises(DataError, match="^The plan is gone.$"):
        next(loader)


@pytest.mark.parametrize("change", [
    lambda data: data.take(2), lambda data: data.skip(1), lambda data: data.shuffle(100, seed=1),
    lambda data: data.filter(lambda batch: batch["ids"][0] % 2 == 0)])
def test_batches_that_are_not_the_plan_s_are_refused(change):
    class Other(Vectors):
        def make_dataset(self, plan, training):
            return change(super().make_dataset(plan, training))

    with contextlib.closing(evaluation_batches(Other())) as batches, pytest.raises(
            ConfigError, match="make one batch of each element"):
        list(batches)


def test_batches_of_another_form_are_refused():
    class Other(Vectors):
        def make_dataset(self, plan, training):
            def changed(batch):
                return {**batch, "source_tensors": (tf.cast(batch["source_tensors"][0], tf.float64),)}

            return super().make_dataset(plan, training).map(changed)

    with pytest.raises(ConfigError) as caught:
        Other().make_batch(np.arange(2))
    first, second = caught.value.problems
    assert "source_tensors/0: Other.make_dataset makes float64 (None, None), but the layer's fields declare" in first
    assert "source_tensors/1: Other.make_dataset makes nothing" in second


def test_iterators_do_not_wait_for_a_thread_that_tunes():
    dataset = tf.data.Dataset.range(5).map(lambda number: {"square": number * number})
    assert [made["square"] for made in elements_of(dataset)] == [0, 1, 4, 9, 16]
    package = Path(open_seq2seq.__file__).parent
    others = [path.relative_to(package).as_posix() for path in package.rglob("*.py")
              if "as_numpy_iterator" in path.read_text(encoding="utf-8")]
    assert others == ["data/datasets.py"]


def test_a_layer_without_any_way_to_make_a_batch_says_so():
    with pytest.raises(NotImplementedError, match="make_batch"):
        DataLayer({}).make_batch(np.arange(2))


def test_seeds_are_of_one_example_in_one_epoch_and_one_draw():
    examples = tf.range(50, dtype=tf.int64)
    found = [example_seeds(seed, examples, tf.constant(epoch, tf.int64), draw).numpy()
             for seed in (0, 1, 77) for epoch in (0, 1, 9) for draw in (0, 1)]
    with forward_pass(1, tf.constant(3)):
        others = [next_seed().numpy() for _ in range(4)]
    rows = {tuple(row) for row in np.concatenate([*found, np.stack(others)])}
    assert len(rows) == 50 * 18 + 4
    assert example_seeds(3, tf.constant([[1, 2]]), tf.constant(0)).shape == (1, 2, 2)
