"""The model of NVIDIA's OpenSeq2Seq that is a language model or a classifier, depending on its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import SAY, Param
from open_seq2seq.decoders.decoder import FakeDecoder
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.lm.language_model import PENALTIES, LanguageModel
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.serving import ServingFunction
from open_seq2seq.models.text2label import Text2Label
from open_seq2seq.parts.adaptive_softmax import AdaptiveProjection
from open_seq2seq.parts.cross_entropy import SoftTargets
from open_seq2seq.parts.output_layer import OutputProjection


def next_token_loss(projection: OutputProjection | AdaptiveProjection, ids: tf.Tensor, lengths: tf.Tensor,
                    weight: float) -> LossTerm:
    """Returns a loss term: ``weight`` times the mean cross-entropy of each text's tokens after the first.

    See https://arxiv.org/abs/1902.10547, where the weight falls during training; here it is constant.

    Args:
      projection: the encoder's hidden states ``[batch, time, channels]`` and the matrix of the logits of tokens.
      ids: the texts, ``[batch, time]`` int32.
      lengths: ``[batch]`` int32, in tokens.
      weight: factor of the term.
    """
    hidden = projection.hidden[:, :-1]
    predicted = tf.sequence_mask(tf.maximum(lengths - 1, 0), tf.shape(hidden)[1], tf.float32)
    total = projection.cross_entropy(tf.reshape(hidden, [-1, hidden.shape[-1]]), tf.reshape(ids[:, 1:], [-1]),
                                     tf.reshape(predicted, [-1]), SoftTargets(1.0, 0.0))
    return LossTerm(total, tf.reduce_sum(predicted), weight, "token", "loss of next tokens")


class LSTMLM(LanguageModel, Text2Label):
    """A language model or, if the data layer has classes, a classifier on a language model's encoder.

    With ``load_model``, training starts from the weights of a language model; see ``LanguageModel.adapted_weights``.
    Most methods call the method of the same name of ``Text2Label`` or ``LanguageModel``, depending on the data layer.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **LanguageModel.get_optional_params(),
            "lm_loss_weight": Param(float, 0.0, "For classification with a decoder other than FakeDecoder: weight of "
                                    "the language model's loss on the texts, per token, in the training loss, "
                                    "against overfitting to few texts. Set weight_tied and adaptive_softmax as in the "
                                    "language model.",
                                    minimum=0.0, on_change=SAY),
        }

    @property
    def _task(self) -> type[EncoderDecoderModel]:
        return Text2Label if hasattr(self.data_layer, "num_classes") else LanguageModel

    @property
    def verb(self) -> str | None:  # type: ignore[override]
        """What the model does: ``classify`` or ``generate``; see ``Model.verb``."""
        return self._task.verb

    @classmethod
    def use_of(cls, params: Mapping[str, Any]) -> tuple[str | None, str | None]:
        task = LanguageModel if str(params.get("data_layer")).endswith("WKTDataLayer") else Text2Label
        return task.verb, task.hub_task

    @property
    def _classifies(self) -> bool:
        return self._task is Text2Label

    def derived_params(self, part: str) -> dict[str, Any]:
        if not self._classifies:
            return LanguageModel.derived_params(self, part)
        layer: Any = self.data_layer
        # FakeDecoder computes no logits, so the encoder must.
        head = "classes" if self._is_fake else "loss" if self.params["lm_loss_weight"] else "none"
        return {**Text2Label.derived_params(self, part), "vocab_size": layer.source_vocab_size,
                "end_token": layer.end_id, "head": head}

    @property
    def _is_fake(self) -> bool:
        return issubclass(self.params["decoder"], FakeDecoder)

    def part_problems(self) -> list[str]:
        return self._task.part_problems(self) + (
            self._problems_of_classifier() if self._classifies else self._problems_of_language_model())

    def _problems_of_language_model(self) -> list[str]:
        return ["'lm_loss_weight' applies only to classification, and this is a language model, because its data layer "
                "has no classes: leave 'lm_loss_weight' out."] if self.params["lm_loss_weight"] else []

    def _problems_of_classifier(self) -> list[str]:
        params = self.params
        idle = {"infer_task": params["infer_task"] == "score",
                "neural_cache": params["neural_cache"] is not None and self.mode in ("train", "eval")}
        problems = [f"'{name}' applies only to language models, and this model classifies, because its data layer has "
                    f"classes: leave '{name}' out." for name, is_set in idle.items() if is_set]
        if self.mode == "train" and not issubclass(params["encoder"], LanguageEncoder):
            problems += [f"'{name}' needs an encoder of language models, such as LMEncoder, but 'encoder' is "
                         f"{params['encoder'].__name__}: leave '{name}' out."
                         for name in (*PENALTIES, "lm_loss_weight") if params[name]]
        elif params["lm_loss_weight"] and self._is_fake:
            problems.append("'lm_loss_weight' needs a decoder that computes the classes, but with FakeDecoder the "
                            "encoder does: set 'decoder' to SoftmaxDecoder, or leave 'lm_loss_weight' out.")
        return problems

    def connect(self) -> None:
        self._task.connect(self)

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        return self._task.loss_terms(self, batch, training)

    def penalties(self, encoded: dict[str, Any], batch: dict[str, Any]) -> list[LossTerm]:
        """Returns the penalties of ``LanguageModel`` and, for ``lm_loss_weight``, the loss of the next tokens."""
        terms, weight = super().penalties(encoded, batch), self.params["lm_loss_weight"]
        if not weight:
            return terms
        ids, lengths = batch["source_tensors"][:2]
        return [*terms, next_token_loss(encoded["projection"], ids, lengths, weight)]

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        return self._task.evaluation_outputs(self, batch, terms, decoded)

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        return self._task.predict(self, batch)

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts tokens without padding."""
        return self._task.num_objects(self, batch)

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        self._task.report_sample(self, batch, outputs, reporter)

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> Any:
        return self._task.evaluate(self, input_values, output_values)

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        return self._task.finalize_evaluation(self, results_per_batch, training_step)

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        self._task.report_evaluation(self, results_per_batch, reporter)

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Any]]:
        return self._task.infer(self, input_values, output_values)

    def serving_functions(self) -> list[ServingFunction]:
        return self._task.serving_functions(self)

    def answer(self, result: Any) -> str:
        return self._task.answer(self, result)

    def open_results(self, output_file: str) -> ResultWriter:
        return self._task.open_results(self, output_file)
