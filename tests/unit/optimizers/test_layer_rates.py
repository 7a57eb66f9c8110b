"""Learning rates by group of variables: as if each group had an optimizer of its own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import MixedPrecisionOptimizer, argument_problems, make_additions, make_optimizer
from open_seq2seq.utils.errors import ConfigError

NAMES = ("encoder/embedding", "encoder/layer_0/kernel", "decoder/kernel")


def trained(params, optimizer="Adam", updates=6, names=NAMES, rate=0.1):
    variables = {name: tf.Variable([1.0, -2.0]) for name in names}
    wrapper = MixedPrecisionOptimizer(make_optimizer(optimizer), lambda index: tf.constant(rate),
                                      **make_additions(params))
    wrapper.build(variables)
    history = []
    for number in range(updates):
        gradients = {name: tf.constant([1.0 + number, 0.3 * (place + 1)]) for place, name in enumerate(NAMES)
                     if name in names}
        wrapper.update(gradients, variables)
        history.append({name: variable.numpy() for name, variable in variables.items()})
    return history


@pytest.mark.parametrize("decay", [{}, {"decoupled_weight_decay": 0.1}])
def test_a_factor_is_a_smaller_rate(decay):
    found = trained({"lr_factors": {"encoder/layer": 0.5, "encoder": 0.1}, **decay})
    for name, factor in zip(NAMES, (0.1, 0.5, 1.0), strict=True):
        alone = trained(decay, rate=0.1 * factor)
        np.testing.assert_allclose(found[-1][name], alone[-1][name], rtol=1e-5)


def test_frozen_variables_begin_to_change_at_their_update():
    found = trained({"unfreeze_at": {"encoder/layer": 2, "encoder": 4}})
    for name, start in zip(NAMES, (4, 2, 0), strict=True):
        changed = [not np.array_equal(values[name], [1.0, -2.0]) for values in found]
        assert changed == [number >= start for number in range(6)]


BAD = {"unused": ({"lr_factors": {"speller": 0.1}}, "no variable's name starts with a match"),
       "regex": ({"lr_factors": {"(": 0.1}}, "not a valid regular expression"),
       "negative": ({"lr_factors": {"encoder": -1.0}}, "at least 0"),
       "words": ({"unfreeze_at": {"encoder": "later"}}, "'later' but has to be an integer"),
       "fraction": ({"unfreeze_at": {"encoder": 0.5}}, "the number of updates after which")}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_named(name):
    params, expected = BAD[name]
    with pytest.raises(ConfigError, match=expected):
        trained(params)
    if name != "unused":  # known before any variable is
        assert expected in argument_problems(params)[0]


def test_keras_optimizers_are_refused():
    with pytest.raises(ConfigError, match="Keras optimizers"):
        trained({"lr_factors": {"encoder": 0.1}}, "tf.keras.optimizers.Lion")
