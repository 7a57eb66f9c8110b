"""Operations of a graph are counted once, by the part of the update that they belong to."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from benchmarks.launches import count, count_step, nodes_of
from open_seq2seq.optimizers.clipping import global_norm


def optimized(function, *arguments):
    """Returns the ``GraphDef`` of a function, as it was traced."""
    return tf.function(function).get_concrete_function(*arguments).graph.as_graph_def()


def test_operations_count_by_part_and_shapes_do_not():
    weights = tf.Variable(tf.ones([3, 3]))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.reshape(tf.sin(x @ weights), [tf.size(x) // 3, 3]))
        gradient = tape.gradient(loss, weights)
        with tf.name_scope("optimizer"):
            weights.assign_sub(tf.cast(tf.cast(gradient, tf.float64) * 0.1, tf.float32))

    counted = count(optimized(step, tf.TensorSpec([None, 3])))
    # MatMul, Sin and Sum; Tile, Cos, Mul and MatMul; Cast, Mul, Cast and the assignment.
    assert counted == {"forward": 3, "backward": 4, "random numbers": 0, "casts": 0, "optimizer": 4}


def test_a_function_counts_once_wherever_it_is_called():
    @tf.function
    def inner(x):
        return tf.sin(x)

    graph = optimized(lambda x: inner(inner(x)), tf.TensorSpec([None]))
    assert sum(node.op == "Sin" for node in nodes_of(graph)) == 1


@pytest.mark.parametrize("variables", [10, 200])
def test_the_norm_of_small_gradients_needs_the_same_number_of_operations(variables):
    gradients = {str(number): tf.TensorSpec([7, 3]) for number in range(variables)}
    assert sum(count(optimized(global_norm, gradients)).values()) < 20


def test_only_operations_of_the_step_count():
    def decode(x):
        start = tf.sin(x) @ tf.ones([3, 3])
        _, last = tf.while_loop(lambda step, _: step < 5,
                                lambda step, y: (step + 1, tf.nn.softmax(tf.cos(tf.reshape(y, [-1, 3])))),
                                (tf.constant(0), start), shape_invariants=(tf.TensorShape([]), start.shape),
                                name="search")
        return tf.exp(last)

    run = tf.function(decode)
    context.context().enable_graph_collection()
    run(tf.ones([2, 3]))
    graphs = [one.post_optimization_graph for one in context.context().export_run_metadata().function_graphs]
    context.context().disable_graph_collection()
    assert count_step(max(graphs, key=lambda graph: graph.ByteSize())) == {
        "products": 0, "choice of ids": 1, "moved data": 0, "element by element, sums": 1}
