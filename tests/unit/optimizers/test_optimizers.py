"""Every optimizer against its formula in float64."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq import optimizers
from open_seq2seq.optimizers import make_optimizer
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref

STEPS = 50
SHAPES = {"encoder/kernel": (6, 5), "encoder/bias": (5,), "decoder/conv": (3, 4, 2)}


def problem(seed=0):
    rng = np.random.default_rng(seed)
    start = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    scale = {name: 10.0 ** rng.integers(-3, 2, shape) for name, shape in SHAPES.items()}
    grads = [{name: (rng.normal(size=shape) * scale[name]).astype(np.float32) for name, shape in SHAPES.items()}
             for _ in range(STEPS)]
    rates = (0.05 / np.sqrt(1.0 + np.arange(STEPS))).astype(np.float32)
    return start, grads, rates


def run(optimizer, start, grads, rates, begin=0, state=None):
    """Makes the updates from ``begin`` on, with this state of an optimizer; returns the weights."""
    variables = {name: tf.Variable(value) for name, value in start.items()}
    optimizer.build(variables)
    if state is not None:
        own = whole_state(optimizer)
        assert own.keys() == state.keys()
        for key, variable in own.items():
            variable.assign(state[key])

    @tf.function
    def step(gradients, rate, index):
        tf.cond(index >= 0, lambda: (optimizer.apply(gradients, variables, rate, index), True)[1], lambda: False)

    for index, (gradients, rate) in [*enumerate(zip(grads, rates, strict=True))][begin:]:
        step({n: tf.constant(g) if isinstance(g, np.ndarray) else g for n, g in gradients.items()},
             tf.constant(rate), tf.constant(index, tf.int64))
    assert step.experimental_get_tracing_count() == 1
    return {name: variable.numpy() for name, variable in variables.items()}


CASES = [
    ("SGD", {}, ref.sgd, {}),
    ("Momentum", {"momentum": 0.95}, ref.momentum, {"mu": 0.95}),
    ("Momentum", {"momentum": 0.8, "use_nesterov": True}, ref.momentum, {"mu": 0.8, "nesterov": True}),
    ("Adam", {}, ref.adam, {}),
    ("Adam", {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-4}, ref.adam, {"beta2": 0.997, "epsilon": 1e-4}),
    ("AdamW", {"weight_decay": 0.1}, ref.adam, {"weight_decay": 0.1}),
    ("LazyAdam", {"beta2": 0.98, "epsilon": 1e-9}, ref.adam, {"beta2": 0.98, "epsilon": 1e-9}),
    ("Nadam", {}, ref.adam, {"nesterov": True}),
    ("Adagrad", {"initial_accumulator_value": 0.2}, ref.adagrad, {"initial": 0.2}),
    ("RMSProp", {"momentum": 0.9}, ref.rmsprop, {"mu": 0.9}),
    ("RMSProp", {"decay": 0.95, "centered": True, "epsilon": 1e-3}, ref.rmsprop,
     {"decay": 0.95, "centered": True, "epsilon": 1e-3}),
    ("Ftrl", {}, ref.ftrl, {}),
    ("Ftrl", {"l1_regularization_strength": 0.01, "l2_regularization_strength": 0.1,
              "l2_shrinkage_regularization_strength": 0.02, "learning_rate_power": -0.4}, ref.ftrl,
     {"l1": 0.01, "l2": 0.1, "shrinkage": 0.02, "power": -0.4}),
    ("Adafactor", {}, ref.adafactor, {}),
    ("Adafactor", {"beta1": 0.9, "multiply_by_parameter_scale": False, "factored": False}, ref.adafactor,
     {"beta1": 0.9, "relative": False, "factored": False}),
    ("NovoGrad", {}, ref.novograd, {}),
    ("NovoGrad", {"beta2": 0.5, "weight_decay": 0.1, "grad_averaging": True, "epsilon": 1e-3}, ref.novograd,
     {"beta2": 0.5, "weight_decay": 0.1, "grad_averaging": True, "epsilon": 1e-3}),
    ("NovoGrad", {"beta1": 0.9, "weight_decay": 0.001, "compat_no_ema": True}, ref.novograd,
     {"beta1": 0.9, "weight_decay": 0.001, "ema": False}),
    ("Muon", {}, ref.muon_or_adam, {}),
    ("Muon", {"momentum": 0.9, "use_nesterov": False, "ns_steps": 3, "rms_rate": None, "adam_lr_ratio": 0.3,
              "adam_beta1": 0.8, "adam_beta2": 0.95, "adam_epsilon": 1e-10}, ref.muon_or_adam,
     {"momentum": 0.9, "nesterov": False, "steps": 3, "rms_rate": None, "adam_lr_ratio": 0.3, "adam_beta1": 0.8,
      "adam_beta2": 0.95, "adam_epsilon": 1e-10}),
    ("ScheduleFreeAdamW", {}, ref.schedule_free, {}),
    ("ScheduleFreeAdamW", {"beta1": 0.8, "beta2": 0.98, "epsilon": 1e-4, "weight_decay": 0.1, "warmup_steps": 20},
     ref.schedule_free, {"beta1": 0.8, "beta2": 0.98, "epsilon": 1e-4, "weight_decay": 0.1, "warmup": 20}),
]


def test_every_optimizer_has_a_reference():
    assert {case[0] for case in CASES} == set(optimizers.OPTIMIZERS)


@pytest.mark.parametrize("name,params,reference,arguments", CASES)
def test_follows_its_formula(name, params, reference, arguments):
    start, grads, rates = problem()
    result = run(make_optimizer(name, params), start, grads, rates)
    for variable, value in result.items():
        expected = ref.follow(reference(**arguments), start[variable], [g[variable] for g in grads], rates)
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)
        assert np.abs(value - start[variable]).max() > 1e-2


def test_novograd_waits_for_its_first_gradient():
    start, grads, rates = problem()
    zeros = [{name: np.zeros_like(g) for name, g in grads[0].items()}] * 3
    late = run(make_optimizer("NovoGrad"), start, zeros + grads[:5], rates[:8])
    prompt = run(make_optimizer("NovoGrad"), start, grads[:5], rates[3:8])
    for name in SHAPES:
        np.testing.assert_array_equal(late[name], prompt[name])


def sparse_problem(seed=1):
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(8, 3)).astype(np.float32)
    grads = []
    for _ in range(STEPS):
        indices = rng.integers(0, 7, 5)
        indices[1] = indices[0]  # always a repeated row; row 7 is never touched
        grads.append((rng.normal(size=(5, 3)).astype(np.float32), indices))
    return start, grads


def as_dense(values, indices, shape):
    dense = np.zeros(shape, np.float32)
    np.add.at(dense, indices, values)
    return dense


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "AdamW", "Nadam", "Adagrad", "RMSProp", "Ftrl",
                                  "Adafactor", "NovoGrad", "Muon", "ScheduleFreeAdamW"])
def test_repeated_rows_mean_their_sum(name):
    start, grads = sparse_problem()
    rates = np.full(STEPS, 0.05, np.float32)
    sparse = [{"e": tf.IndexedSlices(tf.constant(v), tf.constant(i), tf.constant([8, 3], tf.int64))}
              for v, i in grads]
    dense = [{"e": as_dense(v, i, start.shape)} for v, i in grads]
    a = run(make_optimizer(name), {"e": start}, sparse, rates)
    b = run(make_optimizer(name), {"e": start}, dense, rates)
    np.testing.assert_allclose(a["e"], b["e"], rtol=1e-5, atol=1e-6)


def test_lazy_adam_updates_only_rows_with_a_gradient():
    start, grads = sparse_problem()
    rates = np.full(STEPS, 0.05, np.float32)
    sparse = [{"e": tf.IndexedSlices(tf.constant(v), tf.constant(i), tf.constant([8, 3], tf.int64))}
              for v, i in grads]
    result = run(make_optimizer("LazyAdam"), {"e": start}, sparse, rates)["e"]
    expected = ref.lazy_adam(start.astype(np.float64), grads, rates)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(result[7], start[7])


def whole_state(optimizer):
    averages = {} if optimizer.average is None else optimizer.average.weights
    return {**optimizer.state(), **{f"ema/{name}": variable for name, variable in averages.items()}}


@pytest.mark.parametrize("name", sorted(optimizers.OPTIMIZERS))
def test_state_is_all_there_is_to_resume(name):
    start, grads, rates = problem()
    whole = run(make_optimizer(name), start, grads[:6], rates[:6])
    first = make_optimizer(name)
    weights = run(first, start, grads[:3], rates[:3])
    state = whole_state(first)
    assert all(key.partition("/")[2] in ("", *SHAPES) for key in state)
    resumed = run(make_optimizer(name), weights, grads[:6], rates[:6], begin=3, state=state)
    for n, value in resumed.items():
        np.testing.assert_array_equal(value, whole[n])


def test_ftrl_stands_still_at_rate_zero():
    start, grads, _ = problem()
    result = run(make_optimizer("Ftrl"), start, grads[:1], np.zeros(1, np.float32))
    np.testing.assert_array_equal(result["encoder/kernel"], start["encoder/kernel"])


def test_adam_kernel_equals_keras_adam_up_to_epsilon():
    start, grads, rates = problem()
    ours = run(make_optimizer("Adam", {"epsilon": 1e-12}), start, grads, rates)
    theirs = run(make_optimizer("tf.keras.optimizers.Adam", {"epsilon": 1e-12}), start, grads, rates)
    for name in SHAPES:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-4)


def test_keras_nadam_updates_as_keras_itself_does():
    start, grads, rates = problem()
    adapted = run(make_optimizer("tf.keras.optimizers.Nadam"), start, grads[:3], rates[:3])
    keras = tf.keras.optimizers.Nadam(0.0)
    variables = {name: tf.Variable(value) for name, value in start.items()}
    keras.build(list(variables.values()))
    for gradients, rate in zip(grads[:3], rates[:3], strict=True):
        keras.learning_rate.assign(rate)
        keras.apply_gradients([(tf.constant(gradients[name]), variables[name]) for name in SHAPES])
    for name in SHAPES:
        assert np.abs(adapted[name] - start[name]).max() > 1e-2
        np.testing.assert_allclose(adapted[name], variables[name].numpy(), rtol=1e-4, atol=1e-5)


def test_keras_optimizer_names_its_slots_and_resumes():
    start, grads, rates = problem()
    whole = run(make_optimizer(tf.keras.optimizers.Lion), start, grads[:4], rates[:4])
    first = make_optimizer("tf.keras.optimizers.Lion", {"beta_1": 0.9})
    assert first.num_state_values("encoder/kernel", (6, 5)) == 60  # an upper bound for most classes
    variables = {n: tf.Variable(v) for n, v in start.items()}
    first.build(variables)
    assert sorted(first.state()) == sorted(f"momentums/{name}" for name in SHAPES)
    for i in range(2):
        first.apply({n: tf.constant(g) for n, g in grads[i].items()}, variables, rates[i], i)
    second = make_optimizer("keras.optimizers.Lion")
    second.build(variables)
    for key, variable in second.state().items():
        variable.assign(first.state()[key])
    for i in range(2, 4):
        second.apply({n: tf.constant(g) for n, g in grads[i].items()}, variables, rates[i], i)
    for n, variable in variables.items():
        np.testing.assert_array_equal(variable.numpy(), whole[n])


@pytest.mark.parametrize("optimizer,params,message", [
    ("Adam", {"beta_1": 0.9}, "Did you mean 'beta1'"),
    ("Adam", {"learning_rate": 0.1}, "lr_policy_params"),
    ("Adam", {"beta1": "x"}, "optimizer_params/beta1"),
    ("adam", {}, "Did you mean 'Adam'"),
    ("Momentom", {}, "Did you mean 'Momentum'"),
    ("tf.keras.optimizers.Lyon", {}, "cannot be imported"),
    ("tf.keras.optimizers.Lion", {"beta9": 1}, "not valid arguments of Lion"),
    ("tf.keras.optimizers.Lion", {"learning_rate": 0.1}, "lr_policy_params"),
    ("tf.keras.optimizers.Lion", {"gradient_accumulation_steps": 2}, "set 'iter_size'"),
    ("tf.keras.optimizers.Lion", {"loss_scale_factor": 8.0}, "set 'loss_scaling'"),
    ("tf.keras.optimizers.Ftrl", {}, "as at the start of a warm-up: choose the toolkit's 'Ftrl'"),
    ("tf.keras.optimizers.Muon", {}, "choose the toolkit's 'Muon'"),
    (tf.keras.optimizers.ScheduleFreeAdamW, {}, "choose the toolkit's 'ScheduleFreeAdamW'"),
    ("no.such.module.Optimizer", {}, "cannot be imported"),
    (dict, {}, "has to be one of"),
])
def test_mistakes_are_explained(optimizer, params, message):
    with pytest.raises(ConfigError, match=message):
        make_optimizer(optimizer, params)


def test_numbers_may_be_strings_as_yaml_reads_them():
    assert make_optimizer("Adam", {"epsilon": "1e-9"}).params["epsilon"] == 1e-9


def test_a_class_of_the_user():
    class Sign(optimizers.Optimizer):
        def _update_dense(self, variable, gradient, slots, step):
            variable.assign_sub(step * tf.sign(gradient))

    result = run(make_optimizer(Sign), {"w": np.zeros(2, np.float32)}, [{"w": np.float32([3, -4])}],
                 np.float32([0.5]))
    np.testing.assert_allclose(result["w"], [-0.5, 0.5])


def test_frozen_variables():
    variables = {"encoder/a": tf.Variable(1.0), "encoder/b": tf.Variable(1.0), "decoder/encoder": tf.Variable(1.0),
                 "decoder/mean": tf.Variable(1.0, trainable=False)}
    train = optimizers.trainable_variables
    assert list(train(variables)) == ["encoder/a", "encoder/b", "decoder/encoder"]
    assert list(train(variables, "encoder")) == ["decoder/encoder"]
    for regex, message in [("ncoder", "'encoder/a'"), (".*", "freezes all 3 variables"), ("(", "not a valid regular")]:
        with pytest.raises(ConfigError, match=message):
            train(variables, regex)


def test_regularizers():
    w = tf.Variable([[1.0, -2.0], [3.0, 0.0]])
    with tf.GradientTape() as tape:
        penalty = optimizers.l2_regularizer(0.5)(w)
    assert float(penalty) == pytest.approx(0.5 * 14 / 2)
    np.testing.assert_allclose(tape.gradient(penalty, w), 0.5 * w.numpy())
    assert float(optimizers.l1_regularizer(0.5)(w)) == pytest.approx(3.0)
