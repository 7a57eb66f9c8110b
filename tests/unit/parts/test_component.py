"""Variables are named by attribute path, initialised by seed, and cast once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers import resolve_dtype
from open_seq2seq.parts.component import (
    Component,
    Module,
    SharedVariable,
    creating_variables,
    has_unbuilt_layers,
    named_variables,
    regularized_variables,
    share_variables,
)
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.randomness import next_seed
from open_seq2seq.utils.errors import ConfigError


class Dense(Module):
    def __init__(self, regularizer=None):
        super().__init__()
        self.kernel = self.weight([2, 3], regularizer=regularizer)
        self._bias = self.weight([3], "zeros", trainable=False)


class Tree(Component):
    @staticmethod
    def get_required_params():
        return {"size": Param(int, doc="A number.")}

    def __init__(self, params, model=None, name="tree", mode="train"):
        super().__init__(params, model, name, mode)
        self.layers = [Dense(tf.nn.l2_loss), Dense()]
        self.by_name = {"left": Dense()}
        self.tied = self.layers[0].kernel
        self.keras = tf.keras.layers.Dense(4)


def make_tree(seed=0):
    with creating_variables(seed):
        return Tree({"size": 1})


def test_names_are_attribute_paths():
    names = set(named_variables(make_tree()))
    assert names == {"layer_0/kernel", "layer_0/bias", "layer_1/kernel", "layer_1/bias", "by_name/left/kernel",
                     "by_name/left/bias"}


def test_keras_layers_are_collected_once_built():
    tree = make_tree()
    assert has_unbuilt_layers(tree)
    tree.keras.build((None, 2))
    assert not has_unbuilt_layers(tree)
    assert {"keras/kernel", "keras/bias"} <= set(named_variables(tree))


def test_shared_variables_are_the_owners():
    owner = make_tree()
    owner.keras.build((None, 2))
    with creating_variables(shared=True):
        sharing = Tree({"size": 1})
    assert isinstance(sharing.layers[1].kernel, SharedVariable)
    with pytest.raises(ConfigError, match="is a placeholder: call share_variables first"):
        named_variables(sharing)
    share_variables(sharing, owner)
    assert sharing.tied is owner.layers[0].kernel and sharing.keras is owner.keras
    assert named_variables(sharing).keys() == named_variables(owner).keys()


def test_regularized_variables_come_with_their_function():
    tree = make_tree()
    (variable, function), = regularized_variables(tree)
    assert variable is tree.layers[0].kernel and function is tf.nn.l2_loss


def test_configured_initializers_and_regularizers():
    tree = Tree({"size": 1, "initializer": "constant", "initializer_params": {"value": 2.0},
                 "regularizer": "l2", "regularizer_params": {"l2": 0.5}})
    assert float(tree.make_initializer()((1,))[0]) == 2.0
    assert float(tree.make_regularizer()(tf.ones([4]))) == pytest.approx(2.0)
    assert Tree({"size": 1}).make_initializer("zeros") == "zeros"


def test_a_weight_is_cast_once_in_a_scope_and_its_gradient_is_fp32():
    variable = tf.Variable([1.0, 2.0])
    with forward_pass(), tf.GradientTape() as tape:
        first, second = (cast_weight(variable, tf.bfloat16) for _ in range(2))
        total = tf.reduce_sum(first) + tf.reduce_sum(second)
    assert first is second
    gradient = tape.gradient(total, variable)
    assert gradient.dtype == tf.float32 and (gradient.numpy() == 2.0).all()
    assert cast_weight(variable, tf.float32).dtype == tf.float32


def test_seeds_differ_by_draw_batch_and_run_and_repeat():
    def draws(seed, batch):
        with forward_pass(seed, tf.constant(batch)):
            return [tuple(next_seed().numpy()) for _ in range(3)]

    everything = [draw for seed in (0, 1) for batch in (0, 1) for draw in draws(seed, batch)]
    assert len(set(everything)) == 12 and draws(1, 1) == everything[-3:]
    with pytest.raises(RuntimeError, match="forward_pass"):
        next_seed()
    np.testing.assert_array_equal(np.shape(everything[0]), (2,))


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="on GPUs mixed computes all kinds in float16")
def test_kinds_of_operations_have_the_models_types():
    model = SimpleNamespace(precision=resolve_dtype("mixed", ["convolution"]))
    part = Component({"dtype": tf.bfloat16}, model)
    assert part.dtype_of("convolution") == tf.bfloat16
    assert part.compute_dtype == part.dtype_of("product") == part.dtype_of("recurrence") == tf.float32
    assert part.keras_dtype_policy == "float32"


@pytest.mark.parametrize("model", [
    None, SimpleNamespace(), SimpleNamespace(precision=resolve_dtype("mixed", ["product"]))])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_component_with_a_type_of_its_own_keeps_it(model, dtype):
    part = Component({"dtype": dtype}, model)
    assert part.compute_dtype == part.dtype_of("recurrence") == tf.as_dtype(dtype)


@pytest.mark.parametrize("function", [len, lambda variable: variable, lambda variable: None])
def test_a_regularizer_that_makes_no_number_is_refused(function):
    with pytest.raises(ConfigError, match="'encoder_params/regularizer' is .* does not map a variable to a scalar"):
        Component({"regularizer": function}, name="encoder").make_regularizer()
