"""Allocates a model's carried states, whose size depends on the batch."""

from __future__ import annotations

import math

from open_seq2seq.data.contiguous import contiguous_problems
from open_seq2seq.models.model import Model
from open_seq2seq.models.size_check import check_carried
from open_seq2seq.parts.component import carried_states
from open_seq2seq.utils.errors import ConfigError


def allocate_carried_states(model: Model) -> None:
    """Creates the variables of a model's carried states.

    In training, each replica has ``iter_size`` copies of each state, one for each of its micro-batches in an update. In
    other modes, it has one copy.

    Raises:
      ConfigError: the data layer, one of its parameters or ``xla_buckets`` does not allow the model to carry state, or
        the states do not fit into memory.
    """
    layer, states = model.data_layer, carried_states(model)
    name, training = type(layer).__name__, model.mode == "train"
    if layer.contiguous:
        problems = contiguous_problems(layer, model.params["xla_buckets"] if training else None)
    elif states and model.mode != "interactive_infer":
        problems = [f"The model carries state from batch to batch ({', '.join(states)}), but the examples of {name} do "
                    "not continue the previous ones: use a data layer whose attribute 'contiguous' is True."]
    else:
        problems = []
    if problems:
        raise ConfigError(problems)
    slots, rows = model.params["iter_size"] if training else 1, layer.params["batch_size"]
    check_carried(model, sum(slots * rows * math.prod(state.shape) * state.dtype.size for state in states.values()))
    for state in states.values():
        state.allocate(slots, rows)
