"""Decoupled weight decay beside any optimizer."""


import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import MixedPrecisionOptimizer, StaticScaler, WeightDecay, make_optimizer, make_schedule
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref

STEPS = 50


def run(optimizer, weight_decay, params=None, scale=1.0):
    rng = np.random.default_rng(0)
    start = {name: rng.normal(size=shape).astype(np.float32)
             for name, shape in (("layer/kernel", (4, 3)), ("layer/bias", (3,)))}
    grads = [{name: rng.normal(size=w.shape).astype(np.float32) for name, w in start.items()} for _ in range(STEPS)]
    variables = {name: tf.Variable(w) for name, w in start.items()}
    wrapper = MixedPrecisionOptimizer(
        make_optimizer(optimizer, params), make_schedule("poly_decay", {"learning_rate": 0.1}, STEPS),
        StaticScaler(scale), weight_decay=weight_decay)
    wrapper.build(variables)
    step = tf.function(lambda gradients: wrapper.update(gradients, variables))
    for gradients in grads:
        step({name: tf.constant(g * np.float32(scale)) for name, g in gradients.items()})
    rates = [0.1 * (1 - s / STEPS) for s in range(STEPS)]
    return start, grads, rates, {name: variable.numpy() for name, variable in variables.items()}


@pytest.mark.parametrize("optimizer,reference", [
    ("SGD", ref.sgd), ("Momentum", ref.momentum), ("Adam", ref.adam), ("RMSProp", ref.rmsprop),
    ("Adafactor", ref.adafactor), ("NovoGrad", ref.novograd), ("Muon", ref.muon_or_adam)])
def test_follows_its_formula(optimizer, reference):
    start, grads, rates, result = run(optimizer, WeightDecay(0.1, "bias$"), scale=8.0)
    for name in start:
        rule = ref.with_weight_decay(reference(), 0.0 if name.endswith("bias") else 0.1)
        expected = ref.follow(rule, start[name], [g[name] for g in grads], rates)
        np.testing.assert_allclose(result[name], expected, rtol=1e-5, atol=1e-5)


def test_with_adam_it_is_adamw():
    beside = run("Adam", WeightDecay(0.1))[3]
    within = run("AdamW", None, {"weight_decay": 0.1})[3]
    for name in beside:
        np.testing.assert_array_equal(beside[name], within[name])


def test_keras_optimizers_decay_too():
    plain, decayed = run("tf.keras.optimizers.SGD", None)[3], run("tf.keras.optimizers.SGD", WeightDecay(0.5))[3]
    assert np.linalg.norm(decayed["layer/kernel"]) != pytest.approx(np.linalg.norm(plain["layer/kernel"]), rel=1e-3)


@pytest.mark.parametrize("decay,exclude,message", [
    (0.0, None, "must be positive"),
    (-1.0, None, "must be positive"),
    (0.1, "(", "not a valid regular expression"),
    (0.1, "gamma", "matches no variable's name.*'layer/kernel'"),
    (0.1, ".", "excludes every variable"),
])
def test_mistakes_are_explained(decay, exclude, message):
    with pytest.raises(ConfigError, match=message):
        WeightDecay(decay, exclude).build(["layer/kernel", "layer/bias"])
