"""Base class of decoders, the decoder of models whose encoder has the outputs, limits, and offsets of targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.observation import observe
from open_seq2seq.utils.errors import ConfigError


class Decoder(Component):
    """Base of decoders: subclasses implement ``_decode``.

    Attributes:
      tells_times: whether ``outputs`` contain the start, end and confidence of each symbol, as in
        ``FullyConnectedCTCDecoder``.
    """

    tells_times = False

    def decode(self, input_dict: dict[str, Any], training: bool = False) -> dict[str, Any]:
        """Decodes a batch; autoregressive decoders use teacher forcing if there are ``target_tensors``, else a search.

        Args:
          input_dict: a dict with ``encoder_output`` (the encoder's result) and, if a loss will be computed,
            ``target_tensors`` (``[values, lengths, …]``); see ``parts.keys.DecoderInput`` for other keys.
          training: whether to apply dropout and similar operations. ``_decode`` reads it as ``self.training``.

        Returns:
          A dict with keys of ``parts.keys.DecoderOutput``: ``logits`` for the loss, None after a search, and
          ``outputs``, a list of tensors such as ids and lengths, or None.
        """
        with self.in_training(training):
            result = self._decode(input_dict)
        observe(result.get("logits"), "logits", self)
        return result

    def _encoder_size(self, name: str) -> tuple[Any, list[str]]:
        """Returns a size that a parameter gives, by default the encoder's output_size; and a sentence if both lack."""
        size = self.params[name] or getattr(getattr(self.model, "encoder", None), "output_size", None)
        return size, [] if size is not None else [
            f"'{self.params_path}/{name}' is missing: set it, because the encoder has no output_size."]

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("A decoder must implement _decode(input_dict).")


def limits_by_factor(lengths: tf.Tensor, factor: float) -> tf.Tensor:
    """Returns maximum lengths of outputs ``[batch]`` int32: lengths of sources ``[batch]`` × factor, rounded up."""
    # In FP32, 25 × 1.2 is above 30. The factor is reduced by slightly more than its rounding and that of the product.
    return tf.cast(tf.math.ceil(tf.cast(lengths, tf.float32) * (factor * (1.0 - 2e-7))), tf.int32)


class FakeDecoder(Decoder):
    """Passes the encoder's output on, with ``outputs`` renamed to ``outputs_of_encoder``.

    The decoder's own ``outputs`` are computed from the logits: the likeliest ids ``[batch, time]`` if the logits have a
    time axis, otherwise the probabilities of the classes ``[batch, classes]``.
    """

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = dict(input_dict["encoder_output"])
        logits = encoded.get("logits")
        if logits is None and "projection" not in encoded:
            raise ConfigError(["'decoder' is FakeDecoder, but the encoder computes no logits: set 'decoder' to a "
                               "class that computes them, or 'encoder' to one such as LMEncoder."])
        result = {**encoded, "outputs_of_encoder": encoded.get("outputs"), "outputs": None}
        if logits is not None:
            result["outputs"] = [tf.argmax(logits, -1, tf.int32) if logits.shape.rank == 3 else tf.nn.softmax(logits)]
        return result


def _data_layer_params(model: Any) -> Mapping[str, Any]:
    """Returns the parameters of a model's data layer; {} if there is none."""
    return getattr(getattr(model, "data_layer", None), "params", {})


def targets_begin_with_start(model: Any) -> bool:
    """Returns ``use_start_token`` of the data layer: whether targets begin with the start symbol; True if unknown.

    Transcripts of speech, whose layers have no such parameter, end with a symbol, but do not begin with one.
    """
    params = _data_layer_params(model)
    return params.get("use_start_token", "autoregressive" not in params)


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
        inner = "seq_loss_params/" if "seq_loss_params" in getattr(loss, "params", {}) else ""
        names = [f"loss_params/{inner}offset_target_by_one"]
        if "use_start_token" in _data_layer_params(model):
            names.append("data_layer_params/use_start_token")
        raise ConfigError([f"{decoder} predicts target t at position t, but {type(loss).__name__} compares position t "
                           f"with target t + 1: set {' and '.join(names)} to False."])


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
    if offset and "use_start_token" not in _data_layer_params(model):
        check_loss_of_same_positions(model, decoder)
    name = type(loss).__name__
    raise ConfigError([
        f"'data_layer_params/use_start_token' is True, so {decoder} predicts target t + 1 at position t, but "
        f"{name} compares position t with target t: set use_start_token to False, or 'loss' to "
        "BasicSequenceLoss with loss_params/offset_target_by_one: True." if begin_with_start else
        f"'data_layer_params/use_start_token' is False, so {decoder} predicts target t at position t, but "
        f"{name} compares position t with target t + 1: set use_start_token to True, or "
        "loss_params/offset_target_by_one to False."])
