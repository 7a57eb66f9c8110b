"""Learning-rate policies: functions of the number of updates made so far.

A policy is any function ``(global_step, learning_rate, …) -> rate`` that uses TensorFlow operations. ``global_step`` is
an int64 scalar, 0 at the first update; the formulas below call it ``step``. The rate is an FP32 scalar. All numbers of
steps are numbers of updates. In a config, ``lr_policy`` selects one of the policies below or a user's function, and
``lr_policy_params`` sets the arguments other than ``global_step``.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.names import register, resolve_name, with_package
from open_seq2seq.config.params import Param, check_arguments, check_value, coerce, shown
from open_seq2seq.utils.errors import ConfigError, did_you_mean

Schedule = Callable[[tf.Tensor], tf.Tensor]

# Numbers of updates at which schedules are compared: powers of the root of 2, rounded down, from 1 to 2^23.5.
_COMPARED = sorted({int(2 ** (place / 2)) for place in range(2 * 24)})
# Number of intervals in which ``has_jump`` searches, and the smallest change in one update that counts as a jump, as a
# fraction of the largest rate. Gradual policies change much less in one update.
_INTERVALS = 64
_JUMP = 0.3
_LARGEST_EXPONENT = 37  # of a power of ten in FP32, with a margin


def fixed_lr(global_step: tf.Tensor, learning_rate: float) -> tf.Tensor:
    """Returns ``learning_rate`` at every step."""
    return tf.constant(learning_rate, tf.float32)


def piecewise_constant(global_step: tf.Tensor, learning_rate: float, boundaries: Sequence[float],
                       decay_rates: Sequence[float], steps_per_epoch: int | None = None) -> tf.Tensor:
    """Sets the rate to ``learning_rate · decay_rates[i]`` after step ``boundaries[i]``.

    Args:
      global_step: int64 scalar.
      learning_rate: the rate up to and including the first boundary.
      boundaries: increasing list, in epochs if ``steps_per_epoch`` is given, otherwise in steps.
      decay_rates: factors of ``learning_rate``, one per boundary.
      steps_per_epoch: number of updates per epoch; set by the toolkit in runs measured in epochs.

    Raises:
      ConfigError: the boundaries are not in increasing order, or their number differs from that of the decay rates.
    """
    if len(boundaries) != len(decay_rates):
        raise ConfigError([f"'lr_policy_params' have {len(boundaries)} boundaries and {len(decay_rates)} decay_rates: "
                           "give one decay rate for each boundary."])
    if list(boundaries) != sorted(boundaries):
        raise ConfigError([f"'lr_policy_params/boundaries' must be in increasing order, got {list(boundaries)!r}."])
    # An integer step is greater than a fractional boundary if and only if it is greater than its integer part.
    steps = [math.floor(b * (steps_per_epoch or 1)) for b in boundaries]
    passed = tf.reduce_sum(tf.cast(global_step > tf.constant(steps, tf.int64), tf.int32))
    return tf.gather(tf.constant([learning_rate * rate for rate in (1.0, *decay_rates)], tf.float32), passed)


def exp_decay(global_step: tf.Tensor, learning_rate: float, decay_steps: int, decay_rate: float,
              use_staircase_decay: bool, begin_decay_at: int = 0, min_lr: float = 0.0,
              warmup_steps: int = 0) -> tf.Tensor:
    """Multiplies the rate by ``decay_rate`` every ``decay_steps`` steps from ``begin_decay_at`` on.

    The rate is ``max(min_lr, learning_rate · decay_rate^(t / decay_steps))`` with ``t = step - begin_decay_at``. With
    ``use_staircase_decay``, the exponent is rounded down; because ``1 / decay_steps`` is rounded, too, the rate may
    fall one step later. During the first ``warmup_steps`` the rate is ``learning_rate · step / warmup_steps``.
    """
    # Not divided, because TensorFlow replaces a division by this product in graphs, which would then differ.
    exponent = _as_float(global_step - begin_decay_at) * tf.constant(1.0 / decay_steps, tf.float32)
    if use_staircase_decay:
        exponent = tf.floor(exponent)
    decayed = tf.maximum(min_lr, learning_rate * tf.pow(tf.constant(decay_rate, tf.float32), exponent))
    rate = tf.where(global_step < begin_decay_at, learning_rate, decayed)
    if warmup_steps > 0:
        rate = tf.where(global_step < warmup_steps, learning_rate * _as_float(global_step) / warmup_steps, rate)
    return rate


def poly_decay(global_step: tf.Tensor, learning_rate: float, decay_steps: int, power: float = 1.0,
               begin_decay_at: int = 0, min_lr: float = 0.0, warmup_steps: int = 0,
               warmup_share: float = 0.0, decay_in_warmup: bool = False) -> tf.Tensor:
    """Lowers the rate to ``min_lr`` along a polynomial, after a linear warm-up.

    The rate is ``(learning_rate - min_lr) · (1 - t/decay_steps)^power + min_lr`` with
    ``t = step - max(begin_decay_at, warmup_steps)``, and ``min_lr`` from ``t = decay_steps`` on. During the first
    ``warmup_steps`` it is ``learning_rate · step / warmup_steps``, and then ``learning_rate`` until ``t = 0``. A config
    can give ``warmup_share`` instead: the warm-up then takes this share of the run's updates, however many there are.
    With ``decay_in_warmup``, ``t = step - begin_decay_at``, and from there on the rate of the warm-up takes the place
    of ``learning_rate`` in the formula, as in NVIDIA's OpenSeq2Seq.
    """
    def decay(rate: Any, progress: tf.Tensor) -> tf.Tensor:
        return (rate - min_lr) * tf.pow(1.0 - progress, power) + min_lr

    return _warm_up_and_decay(global_step, learning_rate, decay_steps, begin_decay_at, warmup_steps, decay_in_warmup,
                              decay)


def cosine_decay(global_step: tf.Tensor, learning_rate: float, decay_steps: int, power: float = 1.0,
                 begin_decay_at: int = 0, min_lr: float = 0.0, warmup_steps: int = 0,
                 warmup_share: float = 0.0, decay_in_warmup: bool = False) -> tf.Tensor:
    """Lowers the rate along half a cosine (Loshchilov & Hutter 2017), after a linear warm-up.

    The rate is ``learning_rate · ((1 - min_lr) · (1 + cos(π t/decay_steps)) / 2 + min_lr)``. Here, ``min_lr`` is a
    *fraction* of ``learning_rate``, as in NVIDIA's OpenSeq2Seq. t and the other arguments are as in ``poly_decay``;
    ``power`` has no effect.
    """
    def decay(rate: Any, progress: tf.Tensor) -> tf.Tensor:
        return rate * ((1.0 - min_lr) * 0.5 * (1.0 + tf.cos(math.pi * progress)) + min_lr)

    return _warm_up_and_decay(global_step, learning_rate, decay_steps, begin_decay_at, warmup_steps, decay_in_warmup,
                              decay)


def transformer_policy(global_step: tf.Tensor, learning_rate: float, d_model: int, warmup_steps: int,
                       max_lr: float | None = None, coefficient: float = 1.0,
                       dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Raises the rate linearly for ``warmup_steps``, then lowers it as 1/sqrt(step) (Vaswani et al. 2017, section 5.3).

    The rate is ``learning_rate · coefficient · d_model^-0.5 · min(s · warmup_steps^-1.5, s^-0.5)`` with
    ``s = step + 1``, limited to ``max_lr``. It is always FP32; ``dtype`` is accepted for old configs and has no effect.
    """
    step = _as_float(global_step) + 1.0
    rate = learning_rate * coefficient * d_model**-0.5 * tf.minimum(step * warmup_steps**-1.5, tf.math.rsqrt(step))
    return rate if max_lr is None else tf.minimum(max_lr, rate)


def inv_poly_decay(global_step: tf.Tensor, learning_rate: float, decay_steps: int, min_lr: float,
                   power: float = 1.0, begin_decay_at: int = 0, warmup_steps: int = 0) -> tf.Tensor:
    """Lowers the rate as ``learning_rate / (1 + k·step)^power``, with k such that it is ``min_lr`` at ``decay_steps``.

    The rate goes on falling afterwards. ``min_lr`` is clipped to the range from 1e-8 to ``learning_rate``.
    ``begin_decay_at`` and ``warmup_steps`` only reduce the default of ``decay_steps`` (see ``make_schedule``).

    Raises:
      ConfigError: the power is not positive, or so small that k is infinite in FP32.
    """
    if power <= 0.0:
        raise ConfigError([f"'lr_policy_params/power' must be positive, got {power!r}."])
    ratio = learning_rate / min(max(min_lr, 1e-8), learning_rate) if learning_rate else 1.0
    least_power = math.log10(ratio) / _LARGEST_EXPONENT
    if power < least_power:
        raise ConfigError([f"'lr_policy_params/power' is {power!r} but must be at least "
                           f"{math.ceil(100 * least_power) / 100} for the rate to fall to 1/{ratio:,.0f} of "
                           "its start."])
    slope = (ratio ** (1.0 / power) - 1.0) / decay_steps
    return learning_rate / tf.pow(1.0 + slope * _as_float(global_step), power)


def _as_float(step: tf.Tensor) -> tf.Tensor:
    return tf.cast(step, tf.float32)


def _warm_up_and_decay(global_step: tf.Tensor, learning_rate: float, decay_steps: int, begin_decay_at: int,
                       warmup_steps: int, decay_in_warmup: bool,
                       decay: Callable[[Any, tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Returns the rate: ``decay(rate before decay, share of decay_steps)`` from the beginning of the decay on."""
    begin = begin_decay_at if decay_in_warmup else max(begin_decay_at, warmup_steps)
    progress = tf.clip_by_value(_as_float(global_step - begin) / decay_steps, 0.0, 1.0)
    rate = decay(learning_rate, progress)
    if begin > 0:
        rate = tf.where(global_step < begin, learning_rate, rate)
    if warmup_steps > 0:
        warm = learning_rate * _as_float(global_step) / warmup_steps
        if decay_in_warmup:
            warm = tf.where(global_step < begin, warm, decay(warm, progress))
        rate = tf.where(global_step < warmup_steps, warm, rate)
    return rate


POLICIES: dict[str, Callable[..., tf.Tensor]] = {
    policy.__name__: policy for policy in (
        fixed_lr, piecewise_constant, exp_decay, poly_decay, cosine_decay, transformer_policy, inv_poly_decay)}

# Ranges of the policies' arguments.
_RANGES: dict[str, dict[str, float]] = {
    **dict.fromkeys(("learning_rate", "min_lr", "max_lr", "coefficient", "begin_decay_at", "warmup_steps", "power",
                     "boundaries", "decay_rates", "decay_rate"), {"minimum": 0}),
    **dict.fromkeys(("decay_steps", "d_model", "steps_per_epoch"), {"minimum": 1}),
    "warmup_share": {"minimum": 0, "below": 1},
}
_RANGES_OF = {"transformer_policy": {"warmup_steps": {"minimum": 1}}}  # the policy divides by warmup_steps


def make_schedule(policy: Callable[..., Any] | str, params: Mapping[str, Any], last_step: int,
                  steps_per_epoch: int | None = None, shift: tf.Variable | None = None) -> Schedule:
    """Binds a policy to its arguments.

    If ``params`` do not contain the policy's argument ``decay_steps``, it is set to the number of steps that remain
    after the beginning of the decay: ``begin_decay_at`` or ``warmup_steps``, whichever is later. ``warmup_share`` sets
    ``warmup_steps``, unless these are given, too. An argument ``steps_per_epoch`` is also filled in, if it is known.

    Args:
      policy: a function, a key of ``POLICIES``, ``package.module.function`` or ``path/to/file.py:function``.
      params: ``lr_policy_params``.
      last_step: number of updates in the run.
      steps_per_epoch: number of updates per epoch; None in runs measured in steps.
      shift: int64 variable ``[]`` that is added to the number of updates if the schedule depends on ``last_step`` or
        ``steps_per_epoch``; the sum counts as 0 if it is negative. None for no shift.

    Returns:
      Function from the number of updates made so far, an int64 scalar, to the learning rate, an FP32 scalar.

    Raises:
      ConfigError: the policy is unknown, or its arguments are invalid.
    """
    function = resolve_name(policy, "lr_policy", "lr_policy")
    arguments = inspect.signature(function).parameters
    filled, problems = _checked_arguments(function, arguments, dict(params))
    spans_run = "warmup_share" in filled or any(name in arguments and name not in filled
                                                for name in ("decay_steps", "steps_per_epoch"))
    if not problems and "warmup_share" in filled:
        filled.setdefault("warmup_steps", round(filled["warmup_share"] * last_step))
    if "decay_steps" in arguments and "decay_steps" not in filled and not problems:
        begins = [filled.get(name, 0) for name in ("begin_decay_at", "warmup_steps") if name in arguments
                  and not (name == "warmup_steps" and filled.get("decay_in_warmup"))]
        # At least 1, for a run that ends before the decay begins.
        filled["decay_steps"] = max(1, last_step - max(begins, default=0))
    if "steps_per_epoch" in arguments and steps_per_epoch is not None:
        filled.setdefault("steps_per_epoch", steps_per_epoch)
    problems += [f"'lr_policy_params/{name}' is missing: {function.__name__} needs it."
                 for name, argument in list(arguments.items())[1:]
                 if argument.default is argument.empty and argument.kind is argument.POSITIONAL_OR_KEYWORD
                 and name not in filled]
    if problems:
        raise ConfigError(problems)
    schedule = _bind(function, filled)
    schedule(tf.constant(0, tf.int64))  # raises the policy's errors now instead of during training
    if shift is None or not spans_run:
        return schedule
    return lambda global_step: schedule(tf.maximum(global_step + shift.read_value(), 0))


def scaled_schedule(schedule: Schedule, factor: int) -> Schedule:
    """Returns a schedule with ``factor`` times the rates, for linear scaling (Goyal et al. 2017, arXiv 1706.02677)."""
    return schedule if factor == 1 else lambda global_step: schedule(global_step) * float(factor)


def _bind(function: Callable[..., Any], arguments: dict[str, Any]) -> Schedule:
    return lambda global_step: tf.cast(function(tf.cast(global_step, tf.int64), **arguments), tf.float32)


def _checked_arguments(function: Callable[..., Any], arguments: Mapping[str, inspect.Parameter],
                       params: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Checks a policy's arguments, and converts them to the declared types, because YAML reads 1e-3 as a string.

    Args:
      function: the policy.
      arguments: the parameters of the policy's signature, by name.
      params: ``lr_policy_params``.

    Returns:
      (converted values by name, messages about problems); values that are None are left out.
    """
    names = list(arguments)[1:]  # the first argument is the step
    takes_any = any(a.kind is a.VAR_KEYWORD for a in arguments.values())
    hints = typing.get_type_hints(function) if function in POLICIES.values() else {}
    checked: dict[str, Any] = {}
    problems = []
    for name, value in params.items():
        if name not in names and not takes_any:
            problems.append(f"Unknown parameter 'lr_policy_params/{name}' of {function.__name__}."
                            + did_you_mean(name, names))
            continue
        kinds = _numeric_kinds(hints.get(name))
        if value is None:  # None means not given
            continue
        path = f"lr_policy_params/{name}"
        if typing.get_origin(hints.get(name)) is Sequence:
            value, fits = _coerce_list(value)
            if not fits:
                problems.append(f"'{path}' must be a list of numbers, got {shown(value)}.")
                continue
            kinds = (list,)
        own = _RANGES_OF.get(function.__name__, {}).get(name, {})
        bounds: dict[str, Any] = {**_RANGES.get(name, {}), **own} if hints else {}
        if not kinds:
            checked[name] = value
            problems += check_arguments({name: value}, "lr_policy_params")
            continue
        checked[name], problem = check_value(value, Param(kinds, **bounds), path)
        problems += [problem] if problem else []
    return checked, problems


def _coerce_list(values: Any) -> tuple[Any, bool]:
    if not isinstance(values, (list, tuple)):
        return values, False
    pairs = [coerce(value, Param(float, 0.0)) for value in values]
    return [value for value, _ in pairs], all(fits for _, fits in pairs)


def _numeric_kinds(hint: Any) -> tuple[type, ...]:
    """Returns the types that a type hint allows if all are numbers, Booleans or None; otherwise ()."""
    kinds = typing.get_args(hint) or (hint,)
    return tuple(kinds) if hint is not None and all(k in (int, float, bool, type(None)) for k in kinds) else ()


register("lr_policy", lambda: with_package(POLICIES, "open_seq2seq.optimizers"),
         wanted=f"a function or one of {', '.join(POLICIES)}")


def checksum_of_rates(schedule: Schedule) -> str:
    """Returns a checksum of a schedule's rates at fixed numbers of updates; equal schedules have equal checksums."""
    rates = []
    for step in (0, *_COMPARED):
        try:
            rates.append(f"{_rate(schedule, step):.5g}")
        except Exception:  # a user's policy may be undefined after the end of the run
            rates.append("undefined")
    return hashlib.sha256(" ".join(rates).encode()).hexdigest()[:16]


def has_jump(schedule: Schedule, first: int, last: int) -> bool:
    """Returns whether the rate jumps from one update to the next, as at a boundary of ``piecewise_constant``.

    Args:
      schedule: the schedule.
      first, last: numbers of updates, such as those of two checkpoints. The updates after ``first`` and up to ``last``
        are examined, and compared with the update before them.
    """
    start = max(first - 1, 0)  # the last update of the checkpoint at ``first``
    steps = np.unique(np.linspace(start, max(start, last - 1), _INTERVALS + 1).astype(np.int64)).tolist()
    rates = {step: _rate(schedule, step) for step in steps}
    least = _JUMP * max(rates.values())
    return any(_jumps_within(schedule, before, after, least) for before, after in itertools.pairwise(steps)
               if abs(rates[before] - rates[after]) > least)


def _jumps_within(schedule: Schedule, before: int, after: int, least: float) -> bool:
    """Searches for the largest change by bisection; returns whether it exceeds ``least`` in a single update."""
    while after - before > 1:
        middle = (before + after) // 2
        low, mid, high = (_rate(schedule, step) for step in (before, middle, after))
        before, after = (before, middle) if abs(mid - low) >= abs(high - mid) else (middle, after)
    return abs(_rate(schedule, after) - _rate(schedule, before)) > least


def _rate(schedule: Schedule, step: int) -> float:
    return float(schedule(tf.constant(step, tf.int64)))
