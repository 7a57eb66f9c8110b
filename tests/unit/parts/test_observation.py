"""Modules are seen by their paths while ``observing``, and not at all otherwise."""

import numpy as np
import tensorflow as tf

from open_seq2seq.parts.component import Module, named_modules
from open_seq2seq.parts.observation import observe, observing


class Scale(Module):
    def __init__(self, factor):
        super().__init__(name="scale")
        self.factor = self.weight([], tf.constant_initializer(factor))

    def __call__(self, x):
        observe({"half": x / 2.0, "count": tf.size(x), "none": None}, "parts")
        return x * self.factor


class Louder(Scale):
    def __call__(self, x):
        return super().__call__(x)


class Net(Module):
    def __init__(self):
        super().__init__(name="net")
        self.layers = [Scale(2.0), Louder(3.0)]
        self.first = self.layers[0]
        self.table = Scale(5.0)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        observe(self.table.factor + x, "looked_up", self.table)
        return self.layers[1](x)


def values(tensors):
    return {name: [float(t) for t in calls] for name, calls in tensors.items()}


def test_paths_name_every_module_once():
    net = Net()
    found = named_modules(net)
    assert sorted(found) == ["", "layer_0", "layer_1", "table"]
    assert found["layer_0"] is net.first and found[""] is net


def test_outputs_are_seen_by_path_each_tensor_once():
    net = Net()
    with observing(named_modules(net)) as seen:
        net(tf.constant(1.0))
    assert values(seen.tensors) == {
        "layer_0/parts": [0.5], "layer_0/output": [2.0], "layer_1/parts": [1.0, 3.0], "layer_1/output": [6.0, 18.0],
        "table/looked_up": [11.0]}
    net(tf.constant(1.0))
    assert len(seen.tensors["layer_0/output"]) == 1  # the context is over


def test_modules_of_another_model_are_not_seen():
    with observing(named_modules(Net())) as seen:
        Net()(tf.constant(1.0))
        observe(tf.constant(1.0), "nobody's")
    assert not seen.tensors


def test_traced_tensors_have_gradients_and_loops_keep_theirs():
    net = Net()
    modules = named_modules(net)

    @tf.function(autograph=False)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(net.table.factor)
            tape.watch(x)
            with observing(modules) as seen:
                y = net(x)
                looped = tf.while_loop(lambda i, _: i < 2, lambda i, z: (i + 1, net.table(z)), (0, y))[1]
            loss = looped * 1.0
        assert "table/output" not in seen.tensors
        return tape.gradient(loss, seen.tensors["layer_0/output"])

    np.testing.assert_allclose(run(tf.constant(1.0)), [9.0 * 25.0])


def test_nothing_is_traced_outside_of_the_context():
    net = Net()
    traced = tf.function(net.first.__call__, autograph=False).get_concrete_function(tf.TensorSpec([]))
    bare = tf.function(lambda x: x * net.first.factor, autograph=False).get_concrete_function(tf.TensorSpec([]))
    count = [len([op for op in f.graph.get_operations() if op.type == "Mul"]) for f in (traced, bare)]
    assert count == [1, 1]
    assert net.first.__call__.__doc__ is None and type(net.first).__call__.__name__ == "__call__"
