"""Ensembles of text-to-text models, which translate together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder, Member
from open_seq2seq.models.encoder_decoder import encoder_input
from open_seq2seq.utils.errors import UserError

_SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The other models of an ensemble, whose first model reads the texts and searches.

    It is no ``tf.Module``, so that their variables are not taken for those of the first model.

    Attributes:
      others: the models.
    """

    others: tuple[Any, ...]

    def members(self, layer: Any, batch: Mapping[str, Any]) -> list[Member]:
        """Returns the decoders of the models with the encoded sources of a batch, which ``layer`` has made."""
        return [Member(model.decoder, model.encoder.encode(encoder_input(as_read(batch, layer, model.data_layer)),
                                                           False)) for model in self.others]


def as_read(batch: Mapping[str, Any], layer: Any, other: Any) -> dict[str, Any]:
    """Returns a batch of tensors as another data layer would make it: with or without the start token before texts.

    Args:
      batch: the batch.
      layer: the data layer that has made it.
      other: the other data layer, which has the same tokenizers.
    """
    more = other.num_special - layer.num_special
    names = [name for name in ("source_tensors", "target_tensors") if batch.get(name) is not None and more]
    return {**batch, **{name: (_with_start if more > 0 else _without_start)(*batch[name][:2]) for name in names}}


def _with_start(ids: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
    return [tf.pad(ids, [[0, 0], [1, 0]], constant_values=int(SpecialTextTokens.S_ID)), lengths + 1]


def _without_start(ids: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
    return [ids[:, 1:], lengths - 1]


def check_joins(first: Any, other: Any, name: str) -> None:
    """Raises UserError unless two models can translate together.

    Args:
      first: the first model of the ensemble, a ``Text2Text``.
      other: another one.
      name: the log directory of the other, for messages.
    """
    for model, whose in ((first, "the first model"), (other, f"the model of {name}")):
        if problem := _refusal(model):
            raise UserError(f"The models cannot be an ensemble, because {whose} {problem}: an ensemble needs "
                            "models that translate one text into one language by a search.")
    layers = first.data_layer, other.data_layer
    for side, (one, another) in zip(_SIDES, zip(*(layer.tokenizers for layer in layers), strict=True), strict=True):
        if (one.fingerprint, one.vocab_size) != (another.fingerprint, another.vocab_size):
            raise UserError(f"The model of {name} has another vocabulary of the {side} than the first model, or "
                            "another tokenizer: an ensemble needs models of the same ones.")
    if first.decoder.params.get("coverage_penalty") and layers[0].num_special != layers[1].num_special:
        raise UserError("A coverage penalty needs the same positions in all models, but 'use_start_token' of the data "
                        f"layer differs in the first model and in that of {name}: give coverage_penalty=0.")


def _refusal(model: Any) -> str | None:
    decoder = getattr(model, "decoder", None)
    if model.verb != "translate" or not isinstance(decoder, AutoregressiveDecoder):
        return f"is a {type(model).__name__}" + (f" with {type(decoder).__name__}" if decoder is not None else "")
    layer = model.data_layer
    if not hasattr(layer, "tokenizers") or not hasattr(layer, "num_special"):
        return f"has a {type(layer).__name__}"
    return "reads several sources" if getattr(layer, "num_sources", 1) > 1 else None
