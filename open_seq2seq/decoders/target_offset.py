"""Inputs of decoders and checks of losses, for targets that may or may not begin with the start symbol."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError


def targets_begin_with_start(model: Any) -> bool:
    """Returns ``use_start_token`` of the data layer: whether targets begin with the start symbol; True if unknown."""
    params = getattr(getattr(model, "data_layer", None), "params", {})
    return params.get("use_start_token", True)


def decoder_inputs(ids: tf.Tensor, start_id: int, begin_with_start: bool) -> tf.Tensor:
    """Returns a decoder's inputs for teacher forcing, ``[batch, time]``, made from target ids ``[batch, time]``.

    If the targets begin with the start symbol, they are used as inputs, and position t predicts target t + 1. Otherwise
    the start symbol is put before the targets, the last position is dropped, and position t predicts target t.
    """
    return ids if begin_with_start else tf.pad(ids, [[0, 0], [1, 0]], constant_values=start_id)[:, :-1]


def check_loss_of_same_positions(model: Any, decoder: str) -> None:
    """Checks that a model's loss compares position t of the logits with target t.

    Decoders call this function if they predict target t at position t even if targets begin with the start symbol.

    Args:
      model: the model, or None.
      decoder: name of the decoder, for the message.

    Raises:
      ConfigError: the loss compares position t with target t + 1.
    """
    loss = getattr(model, "loss", None)
    if getattr(loss, "offsets_targets", False):
        raise ConfigError([f"{decoder} predicts target t at position t, but {type(loss).__name__} compares position t "
                           "with target t + 1: set loss_params/offset_target_by_one and "
                           "data_layer_params/use_start_token to False."])


def check_loss(model: Any, begin_with_start: bool, decoder: str) -> None:
    """Checks that a model's loss compares the decoder's logits with the targets that they predict.

    Losses without the attribute ``offsets_targets`` are not checked.

    Args:
      model: the model, or None.
      begin_with_start: whether targets begin with the start symbol.
      decoder: name of the decoder, for the message.

    Raises:
      ConfigError: the loss compares logits with targets other than those that they predict.
    """
    loss = getattr(model, "loss", None)
    offset = getattr(loss, "offsets_targets", None)
    if offset is None or offset == begin_with_start:
        return
    name = type(loss).__name__
    raise ConfigError([
        f"'data_layer_params/use_start_token' is True, so {decoder} predicts target t + 1 at position t, but "
        f"{name} compares position t with target t: set use_start_token to False, or 'loss' to "
        "BasicSequenceLoss with loss_params/offset_target_by_one: True." if begin_with_start else
        f"'data_layer_params/use_start_token' is False, so {decoder} predicts target t at position t, but "
        f"{name} compares position t with target t + 1: set use_start_token to True, or "
        "loss_params/offset_target_by_one to False."])
