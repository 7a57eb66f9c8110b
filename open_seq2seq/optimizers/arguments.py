"""Checks the arguments of the optimizer and its additions before a model is built."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.combinations import ADDITIONS
from open_seq2seq.optimizers.loss_scaling import make_loss_scaler
from open_seq2seq.optimizers.lr_policies import make_schedule
from open_seq2seq.optimizers.registry import make_optimizer
from open_seq2seq.utils.errors import ConfigError


def argument_problems(params: Mapping[str, Any]) -> list[str]:
    """Returns the problems with the arguments of optimizer, policy, loss scaler, LARC, weight decay and moving average.

    Args:
      params: the model's parameters, whose types have been checked; parameters that are absent or None are skipped.
    """
    problems: list[str] = []
    for make in _makers(params):
        try:
            # In a separate graph, because executing an operation would initialise the devices before the
            # processes are connected.
            with tf.Graph().as_default():
                make()
        except ConfigError as error:
            problems += error.problems
    return problems


def _makers(params: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    def arguments(key: str) -> dict[str, Any]:
        return dict(params.get(key) or {})

    if params.get("optimizer") is not None:
        yield lambda: make_optimizer(params["optimizer"], arguments("optimizer_params"))
    if params.get("lr_policy") is not None:
        # The number of steps may not be known yet; 1 replaces it, because policies accept any number.
        yield lambda: make_schedule(params["lr_policy"], arguments("lr_policy_params"), params.get("max_steps") or 1,
                                    1 if params.get("num_epochs") else None)
    for parameter, make in ADDITIONS.values():
        if params.get(parameter) is not None:
            yield functools.partial(make, params)
    if params.get("loss_scaling") is not None:
        yield lambda: make_loss_scaler(params["loss_scaling"], arguments("loss_scaling_params"), tf.float16)
