"""The check, before anything is built, of what a config says of the optimizer and of what goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.larc import Larc
from open_seq2seq.optimizers.loss_scaling import make_loss_scaler
from open_seq2seq.optimizers.lr_policies import make_schedule
from open_seq2seq.optimizers.registry import make_optimizer
from open_seq2seq.optimizers.weight_average import WeightAverage
from open_seq2seq.optimizers.weight_decay import WeightDecay
from open_seq2seq.utils.errors import ConfigError


def argument_problems(params: Mapping[str, Any]) -> list[str]:
    """Returns what training would find wrong with the arguments of optimizer, policy, scaler and additions.

    Args:
      params: the model's, their types checked; what is absent or None is not looked at.
    """
    problems: list[str] = []
    for make in _makers(params):
        try:
            # In a graph of its own: an operation that runs would take the devices before the processes have met.
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
        # How long the run is follows from the data; no policy refuses a length.
        yield lambda: make_schedule(params["lr_policy"], arguments("lr_policy_params"), params.get("max_steps") or 1,
                                    1 if params.get("num_epochs") else None)
    if params.get("larc_params") is not None:
        yield lambda: Larc(**arguments("larc_params"))
    if params.get("decoupled_weight_decay") is not None:
        yield lambda: WeightDecay(params["decoupled_weight_decay"], params.get("decoupled_weight_decay_exclude"))
    if params.get("ema_decay") is not None:
        yield lambda: WeightAverage(params["ema_decay"])
    if params.get("loss_scaling") is not None:
        yield lambda: make_loss_scaler(params["loss_scaling"], arguments("loss_scaling_params"), tf.float16)
