"""Scores of given targets, such as translations, under a trained model."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.models.model import Model
from open_seq2seq.parts.precision import weight_cast_scope
from open_seq2seq.runners.runner import Runner
from open_seq2seq.utils.errors import UserError


class ScoringPass:
    """Computes the scores of given targets, one batch at a time.

    Args:
      model: a model built for ``interactive_infer``, with restored weights.
      runner: runner of one device.

    Raises:
      UserError: the model cannot score targets.
    """

    def __init__(self, model: Model, runner: Runner) -> None:
        if not model.can_score:
            raise UserError(f"This {type(model).__name__} cannot score given targets: use a text-to-text model with an "
                            "autoregressive decoder.")
        self._model = model
        self._step = runner.compile(self._score, [model.data_layer.scoring_signature])

    def _score(self, batch: Any) -> list[tf.Tensor]:
        with weight_cast_scope():
            return self._model.score(batch)

    def score(self, batch: dict[str, Any]) -> list[Any]:
        """Returns the result of ``Model.target_scores`` for each row of a batch from ``make_scoring_batch``."""
        outputs = self._step([batch])[0]
        return self._model.target_scores([np.asarray(output) for output in outputs])
