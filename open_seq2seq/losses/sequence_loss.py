"""Cross-entropy losses: for sequences of tokens, also with a sampled vocabulary, and for whole examples."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.cross_entropy import SoftTargets, weighted_cross_entropy
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.output_layer import OutputProjection
from open_seq2seq.parts.randomness import next_seed
from open_seq2seq.parts.row_selection import gather_rows, rows_to_compute
from open_seq2seq.utils.errors import ConfigError

_SMOOTHING = Param(float, 0.0, "Label smoothing: total probability of all ids other than the label, in equal shares; 0 "
                   "disables it.", minimum=0.0, below=1.0)


class BasicSequenceLoss(Loss):
    """Sum of the tokens' cross-entropies, divided by the number of examples or tokens.

    ``decoder_output["logits"]`` are ``[batch, time, vocabulary]``; ``target_tensors`` are ids ``[batch, time]`` and
    lengths ``[batch]`` in tokens. With ``offset_target_by_one``, targets start with the start symbol, and position t of
    the logits predicts target t + 1.
    """

    needs_logits = False

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Loss.get_required_params(),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
            "batch_size": Param(int, doc="Set by the model; has no effect.",
                                unit="examples", derived=True, minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "offset_target_by_one": Param(bool, True, "Whether targets start with the start symbol, which is not "
                                          "predicted."),
            "average_across_timestep": Param(bool, False, "Whether to divide by the number of tokens instead of "
                                             "examples."),
            "do_mask": Param(bool, True, "Whether to exclude padding from the loss."),
        }

    @property
    def unit(self) -> str:  # type: ignore[override]
        """What the loss is averaged over: ``"token"`` or ``"example"``."""
        return "token" if self.params["average_across_timestep"] else "example"

    @property
    def offsets_targets(self) -> bool:
        """Whether position t of the logits is compared with target t + 1."""
        return self.params["offset_target_by_one"]

    @property
    def is_exact(self) -> bool:
        """Whether, in evaluation, the sum of the loss term is minus the log likelihood of the targets.

        This is the case if padding is excluded and the loss has no parameter ``label_smoothing``.
        """
        return self.params["do_mask"] and type(self)._targets is BasicSequenceLoss._targets

    def _targets(self, vocab_size: int) -> SoftTargets:
        return SoftTargets(1.0, 0.0)

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        output = input_dict["decoder_output"]
        # If the output has a projection (hidden states and output matrix), the logits are computed from it in chunks,
        # because the logits of a whole batch take more memory than any other activation.
        projection = output.get("projection")
        values = output["logits"] if projection is None else projection.hidden
        ids, lengths = input_dict["target_tensors"][:2]
        if self.params["offset_target_by_one"]:
            values, ids, lengths = values[:, :-1], ids[:, 1:], lengths - 1
        _check_vocabulary(self, _num_ids(output), self.params["tgt_vocab_size"])
        # Logits and targets may be padded to different lengths.
        length = tf.minimum(tf.shape(values)[1], tf.shape(ids)[1])
        ids = ids[:, :length]
        if self.params["do_mask"]:
            weights = tf.sequence_mask(lengths, length, tf.float32)
        else:
            weights = tf.ones(tf.shape(ids))
        examples = example_weights(input_dict)
        weights *= examples[:, tf.newaxis]
        rows = tf.reshape(values[:, :length], [-1, values.shape[-1]])
        total = self._total(output, rows, tf.reshape(ids, [-1]), tf.reshape(weights, [-1]))
        return LossTerm(total, tf.reduce_sum(weights if self.unit == "token" else examples), unit=self.unit)

    def _total(self, output: Any, rows: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Returns the weighted sum of the rows' cross-entropies, an FP32 scalar.

        Args:
          output: the decoder's output.
          rows: hidden states ``[rows, hidden]`` if the output has a ``projection``, else logits
            ``[rows, vocabulary]``; one row for each position of the batch.
          labels: ``[rows]`` int32, ids in the vocabulary.
          weights: ``[rows]`` FP32.
        """
        targets, projection = self._targets(_num_ids(output)), output.get("projection")
        if projection is None:
            return weighted_cross_entropy(rows, labels, weights, targets)
        return projection.cross_entropy(rows, labels, weights, targets)


class CrossEntropyWithSmoothing(BasicSequenceLoss):
    """``BasicSequenceLoss`` with label smoothing, after Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, §7."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**BasicSequenceLoss.get_optional_params(), "label_smoothing": _SMOOTHING}

    def _targets(self, vocab_size: int) -> SoftTargets:
        return SoftTargets.of(self.params["label_smoothing"], vocab_size)


class PaddedCrossEntropyLossWithSmoothing(Loss):
    """Cross-entropy with label smoothing, averaged over the tokens that are not padding.

    ``decoder_output["logits"]`` are ``[batch, time, vocabulary]``. The first of the ``target_tensors`` contains ids
    ``[batch, time]``, where 0 is padding. Targets are not shifted, because the decoder shifts its inputs. Label
    smoothing is after Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, §7. The entropy of the smoothed targets is
    subtracted, so that a perfect model has loss 0.

    If the decoder returns ``projection`` (hidden states and output matrix), the logits are computed in chunks, because
    the logits of a whole batch take more memory than any other activation.

    Attributes:
      offsets_targets: whether position t of the logits is compared with target t + 1.
    """

    offsets_targets = False
    unit = "token"
    needs_logits = False

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "batch_size": Param(int, None, "Set by the model; has no effect.", "examples", derived=True, minimum=1),
            "tgt_vocab_size": Param(int, None, "Number of ids; set from the data layer.", "tokens", derived=True,
                                    minimum=1),
            "label_smoothing": _SMOOTHING,
            "pad_embeddings_2_eight": Param(bool, False, "Accepted for old configs; has no effect, because logits "
                                            "may always have more columns than there are ids."),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        output, ids = input_dict["decoder_output"], input_dict["target_tensors"][0]
        projection = output.get("projection")
        if projection is None:
            total, constant = self._from_logits(output["logits"], ids)
        else:
            total, constant = self._from_projection(projection, ids)
        tokens = tf.cast(tf.math.count_nonzero(ids), tf.float32)
        return LossTerm(total - constant * tokens, tokens, unit=self.unit)

    def _from_projection(self, projection: Any, ids: tf.Tensor) -> tuple[tf.Tensor, float]:
        targets = SoftTargets.of(self.params["label_smoothing"], projection.num_ids)
        flat = tf.reshape(projection.hidden, [-1, projection.hidden.shape[-1]])
        labels = tf.reshape(ids, [-1])
        if not current_pass().for_xla:  # XLA needs static shapes, so it computes the rows of padding, too
            rows = rows_to_compute(labels != 0)
            flat, labels = gather_rows(flat, rows), tf.gather(labels, rows)
        total = projection.cross_entropy(flat, labels, tf.cast(labels != 0, tf.float32), targets)
        return total, targets.entropy(projection.num_ids)

    def _from_logits(self, logits: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, float]:
        _check_vocabulary(self, logits.shape[-1], self.params["tgt_vocab_size"])
        vocab_size = logits.shape[-1]
        targets = SoftTargets.of(self.params["label_smoothing"], vocab_size)
        # If the logits are shorter than the targets, zeros (a uniform distribution) fill the missing positions.
        missing = tf.shape(logits)[1] - tf.shape(ids)[1]
        ids = tf.pad(ids, [[0, 0], [0, tf.maximum(missing, 0)]])
        if current_pass().for_xla:  # the gradient of a branch would make XLA take weights for constants
            logits = tf.pad(logits, [[0, 0], [0, tf.maximum(-missing, 0)], [0, 0]])
        else:
            logits = tf.cond(missing < 0, lambda: tf.pad(logits, [[0, 0], [0, -missing], [0, 0]]), lambda: logits)
        labels = tf.reshape(ids, [-1])
        total = weighted_cross_entropy(
            tf.reshape(logits, [-1, vocab_size]), labels, tf.cast(labels != 0, tf.float32), targets)
        return total, targets.entropy(vocab_size)


def _num_ids(output: Any) -> int:
    """Returns the number of columns of the logits of a decoder's output."""
    projection = output.get("projection")
    return output["logits"].shape[-1] if projection is None else projection.num_ids


def _check_vocabulary(loss: Loss, num_ids: int, vocab_size: int | None) -> None:
    if vocab_size is not None and num_ids < vocab_size:
        raise ConfigError([f"'{loss.params_path}/tgt_vocab_size' is {vocab_size}, but the decoder's logits have only "
                           f"{num_ids} columns: use the same vocabulary for both."])


class CrossEntropyLoss(Loss):
    """Cross-entropy between correct classes and logits, averaged over examples and computed in FP32.

    ``decoder_output["logits"]`` are ``[batch, classes]``. The first of the ``target_tensors`` contains either the
    indices of the correct classes, ``[batch]``, or the probabilities of the classes, ``[batch, classes]``, as with
    one-hot labels or mixup. Label smoothing is that of Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, §7, but
    the probability taken from the label is divided among the other classes only.
    """

    unit = "example"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "label_smoothing": Param(float, 0.0, "Label smoothing: total probability of all classes other than the "
                                     "label, in equal shares; 0 disables it.", minimum=0.0, below=1.0),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        targets = self._targets(input_dict["target_tensors"][0], logits.shape[-1])
        losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
        examples = example_weights(input_dict)
        losses = tf.where(examples > 0.0, losses, 0.0)
        return LossTerm(tf.reduce_sum(losses), tf.reduce_sum(examples), unit=self.unit)

    def _targets(self, targets: tf.Tensor, num_classes: int) -> tf.Tensor:
        """Returns the smoothed probabilities of the classes, FP32 ``[batch, num_classes]``.

        Classes that the targets lack have probability 0 before smoothing.

        Raises:
          ConfigError: the targets have more classes than the logits, or ``label_smoothing`` is set
            but there is only one class.
        """
        if targets.dtype.is_integer and targets.shape.rank == 1:
            targets = tf.one_hot(targets, num_classes)
        missing = num_classes - targets.shape[-1]
        if missing < 0:
            raise ConfigError([f"The data layer's labels have {targets.shape[-1]} classes, but the decoder's logits "
                               f"have only {num_classes}: set the same number of classes for both."])
        targets = tf.pad(tf.cast(targets, tf.float32), [[0, 0], [0, missing]])
        if not self.params["label_smoothing"]:
            return targets
        if num_classes < 2:
            raise ConfigError([f"'{self.params_path}/label_smoothing' needs at least two classes: set it to 0."])
        soft = SoftTargets.of(self.params["label_smoothing"], num_classes)
        return targets * (soft.on - soft.off) + soft.off


# Logit of ids that do not count.
_NEVER = -1e9


def log_uniform_ids(count: int, num_ids: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws ids ``[count]`` int32, with replacement, from the log-uniform distribution.

    Args:
      count: number of ids to draw.
      num_ids: size of the vocabulary.
      seed: int64 ``[2]``.
    """
    # In FP32, the rarest ids of a large vocabulary would be drawn too often or never.
    uniform = tf.random.stateless_uniform([count], seed, dtype=tf.float64, alg="philox")
    return tf.minimum(tf.cast(tf.exp(uniform * math.log(num_ids + 1.0)), tf.int32) - 1, num_ids - 1)


def log_inclusion(ids: tf.Tensor, count: int, num_ids: int) -> tf.Tensor:
    """Returns the log probability that each id is among ``count`` drawn ids, FP32 in the shape of ``ids``.

    Args:
      ids: int32 tensor of any shape.
      count: number of ids that are drawn.
      num_ids: size of the vocabulary.
    """
    share = tf.math.log1p(1.0 / (tf.cast(ids, tf.float32) + 1.0)) / math.log(num_ids + 1.0)
    return tf.math.log(-tf.math.expm1(count * tf.math.log1p(-share)))


def sampled_cross_entropy(hidden: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
                          num_sampled: int) -> tf.Tensor:
    """Returns the weighted sum of the rows' sampled cross-entropies, an FP32 scalar.

    All rows share one sample, drawn with the next seed of the forward pass. A drawn id that is a row's label
    does not count for that row a second time.

    Args:
      hidden: ``[rows, hidden]`` in the compute dtype.
      table: ``[vocabulary, hidden]`` FP32; the logits are ``hidden · tableᵀ``.
      labels: ``[rows]`` int32.
      weights: ``[rows]`` FP32.
      num_sampled: number of ids to draw.
    """
    num_ids = table.shape[0]
    drawn = tf.sort(log_uniform_ids(num_sampled, num_ids, next_seed()))
    repeated = tf.concat([[False], drawn[1:] == drawn[:-1]], 0)
    sampled = tf.cast(tf.matmul(hidden, tf.cast(tf.gather(table, drawn), hidden.dtype), transpose_b=True), tf.float32)
    sampled -= log_inclusion(drawn, num_sampled, num_ids)
    sampled = tf.where(repeated | (labels[:, tf.newaxis] == drawn), _NEVER, sampled)
    true = tf.reduce_sum(tf.cast(hidden, tf.float32) * tf.gather(table, labels), -1)
    true -= log_inclusion(labels, num_sampled, num_ids)
    logits = tf.concat([true[:, tf.newaxis], sampled], 1)
    return tf.reduce_sum((tf.reduce_logsumexp(logits, 1) - true) * weights)


class BasicSampledSequenceLoss(BasicSequenceLoss):
    """``BasicSequenceLoss`` with sampled softmax in training; evaluation uses the whole vocabulary.

    See Jean et al. 2015, https://arxiv.org/abs/1412.2007. The encoder's parameter ``num_sampled`` is the number of ids
    to draw. Ids must be sorted by descending frequency, as those of ``WKTDataLayer`` are, because small ids are drawn
    more often than large ids.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**BasicSequenceLoss.get_optional_params(),
                "hid_dim": Param((int, type(None)), None, "Accepted for old configs; has no effect.", on_change=FREE)}

    def _total(self, output: Any, rows: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        projection = output.get("projection")
        if projection is None:
            raise ConfigError(["'loss' is BasicSampledSequenceLoss, which needs an encoder that returns its hidden "
                               "states and output matrix with the logits: set 'encoder' to LMEncoder or similar, or "
                               "'loss' to BasicSequenceLoss."])
        if not isinstance(projection, OutputProjection):
            raise ConfigError(["'loss' is BasicSampledSequenceLoss, but the encoder has an adaptive_softmax, which is "
                               "not sampled: set 'loss' to BasicSequenceLoss, or leave 'adaptive_softmax' out."])
        count = output.get("num_sampled")
        if not projection.training or count is None or count >= projection.table.shape[0]:
            return super()._total(output, rows, labels, weights)
        return sampled_cross_entropy(rows, projection.table, labels, weights, count)
