"""Adaptive softmax: a hierarchical softmax over a large vocabulary (Grave et al. 2017).

See https://arxiv.org/abs/1609.04309. The most frequent ids form a shortlist, and the others form clusters of decreasing
frequency. The head is a softmax over the ids of the shortlist and the clusters; each cluster has a softmax of its own:

    log P(id) = log P_head(id)                                   for an id of the shortlist
    log P(id) = log P_head(cluster) + log P_cluster(id)          for the other ids

For the loss, the softmax of a cluster is computed only for the tokens whose labels it contains (with XLA, for all
tokens). For generation, the log probabilities of all ids are computed by the same formulas, without approximation. Any
order of the ids is valid, but time is saved only if ids are sorted by descending frequency.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param, check_params
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.cross_entropy import SoftTargets, label_surprises, projected_cross_entropy
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.output_layer import with_bias
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.row_selection import gather_rows, rows_to_compute
from open_seq2seq.utils.errors import ConfigError

_EXACT = SoftTargets(1.0, 0.0)


def adaptive_params() -> dict[str, Param]:
    """Returns the declarations of the settings."""
    return {
        "cutoffs": Param(list, [], "First ids of the clusters, in increasing order; at least one.", "tokens", minimum=1,
                         on_change=REFUSE),
        "factor": Param(float, 4.0, "For cluster i, counted from 1, the hidden states are projected to 1 / factor^i of "
                        "their channels; a factor of 1 disables the projections.", minimum=1.0, on_change=REFUSE),
    }


def checked_adaptive(params: Mapping[str, Any], path: str, vocab_size: int,
                     tied: bool) -> tuple[dict[str, Any], list[str]]:
    """Checks the settings of an adaptive softmax.

    Args:
      params: the settings.
      path: their path in the config, for messages.
      vocab_size: number of ids.
      tied: whether the output layer uses the embedding table.

    Returns:
      (The settings with defaults, one sentence for each problem.)
    """
    settings, problems = check_params(params, {}, adaptive_params(), path)
    if problems:
        return settings, problems
    cutoffs = settings["cutoffs"]
    if not cutoffs or any(type(cutoff) is not int for cutoff in cutoffs) or sorted({*cutoffs}) != list(cutoffs):
        problems.append(f"'{path}/cutoffs' must be an increasing list of integers, such as [2000, 10000], got "
                        f"{cutoffs!r}.")
    elif cutoffs[-1] >= vocab_size:
        problems.append(f"'{path}/cutoffs' ends with {cutoffs[-1]}, but the vocabulary has only {vocab_size} ids: each "
                        "cutoff must be smaller than the number of ids.")
    if tied and settings["factor"] != 1.0:
        problems.append(f"'{path}/factor' is {settings['factor']:g}, but with weight_tied all rows of the embedding "
                        "table have as many channels as the hidden states: set it to 1, or weight_tied to False.")
    return settings, problems


class _Cluster(NamedTuple):
    """A softmax over the ids from ``begin`` to ``end`` - 1. In the head, one id for each cluster follows the shortlist.

    Attributes:
      begin: first id.
      end: last id + 1.
      projection: variable ``[hidden, channels]``; None if the hidden states are not projected.
      table: ``[end - begin, channels]`` FP32.
      bias: ``[end - begin]`` FP32, or None.
    """

    begin: int
    end: int
    projection: tf.Variable | None
    table: tf.Tensor
    bias: tf.Tensor | None

    def project(self, hidden: tf.Tensor) -> tf.Tensor:
        """Projects ``[…, hidden]`` to the channels of the cluster, ``[…, channels]``."""
        return hidden if self.projection is None else times_matrix(hidden, cast_weight(self.projection, hidden.dtype))


class _Prepared(NamedTuple):
    """The weights of a ``_Cluster`` in the form in which they are used to compute log probabilities.

    Attributes:
      projection: ``[hidden, channels]`` in the compute dtype, or None.
      matrix: the transposed table, ``[channels, ids]`` in the compute dtype.
      bias: ``[ids]`` FP32, or None.
    """

    projection: tf.Tensor | None
    matrix: tf.Tensor
    bias: tf.Tensor | None


class _Tail(Module):
    """The weights of a cluster that has its own matrix."""

    def __init__(self, hidden_size: int, channels: int, count: int, initializer: Any, regularizer: Any) -> None:
        super().__init__(name="tail")
        self.projection = None if channels == hidden_size else self.weight(
            [hidden_size, channels], initializer, regularizer=regularizer)
        self.kernel = self.weight([count, channels], initializer, regularizer=regularizer)


class AdaptiveOutputLayer(Module):
    """Output layer whose logits are the log probabilities of an adaptive softmax.

    Args:
      hidden_size: number of channels of the hidden states.
      vocab_size: number of ids.
      settings: see ``adaptive_params``.
      table: embedding table ``[vocab_size, hidden_size]`` to use instead of separate matrices for the ids; requires a
        factor of 1. None to create the matrices.
      use_bias: whether ids and clusters have biases.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, hidden_size: int, vocab_size: int, settings: Mapping[str, Any], table: tf.Variable | None = None,
                 use_bias: bool = True, initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="output_layer")
        self._edges, self._tied = [0, *settings["cutoffs"], vocab_size], table
        self._sizes = [end - begin for begin, end in itertools.pairwise(self._edges)]
        clusters = len(self._sizes) - 1
        self.cluster_kernel = self.weight([clusters, hidden_size], initializer, regularizer=regularizer)
        if table is None:
            self.kernel = self.weight([self._sizes[0], hidden_size], initializer, regularizer=regularizer)
            self.tails = [_Tail(hidden_size, max(1, int(hidden_size / settings["factor"] ** number)), size, initializer,
                                regularizer) for number, size in enumerate(self._sizes[1:], 1)]
        self.bias = self.weight([vocab_size], "zeros") if use_bias else None
        self.cluster_bias = self.weight([clusters], "zeros") if use_bias else None

    def _parts(self) -> tuple[_Cluster, list[_Cluster]]:
        """Returns (the head, the clusters); in the head, one id for each cluster follows the ids of the shortlist."""
        biases = [None] * len(self._sizes) if self.bias is None else tf.split(self.bias, self._sizes)
        if self._tied is None:
            projections = [None, *(tail.projection for tail in self.tails)]
            tables = [self.kernel, *(tail.kernel for tail in self.tails)]
        else:
            projections, tables = [None] * len(self._sizes), tf.split(self._tied, self._sizes)
        bias = None if self.bias is None else tf.concat([biases[0], self.cluster_bias], 0)
        head = _Cluster(0, self._edges[1] + len(self._sizes) - 1, None,
                        tf.concat([tables[0], self.cluster_kernel], 0), bias)
        edges = itertools.pairwise(self._edges[1:])
        return head, [_Cluster(*edge, *of_cluster) for edge, *of_cluster in
                      zip(edges, projections[1:], tables[1:], biases[1:], strict=True)]

    def prepare(self, dtype: tf.DType) -> list[_Prepared]:
        """Returns the weights of the head and the clusters in ``dtype``, for several calls of ``logits``."""
        head, clusters = self._parts()
        return [_Prepared(None if cluster.projection is None else cast_weight(cluster.projection, dtype),
                          tf.transpose(tf.cast(cluster.table, dtype)), cluster.bias) for cluster in (head, *clusters)]

    def logits(self, hidden: tf.Tensor, prepared: Sequence[_Prepared] | None = None) -> tf.Tensor:
        """Returns the log probabilities of all ids, ``[…, vocab_size]`` FP32, for hidden states ``[…, hidden]``.

        The loop of generation passes ``prepared``, the result of ``prepare``.
        """
        head, *clusters = self.prepare(hidden.dtype) if prepared is None else prepared
        by_head, shortlist = _log_probabilities(hidden, head), self._edges[1]
        pieces = [by_head[..., :shortlist]]
        for number, cluster in enumerate(clusters, shortlist):
            pieces.append(by_head[..., number:number + 1] + _log_probabilities(hidden, cluster))
        return tf.concat(pieces, -1)

    def projection(self, hidden: tf.Tensor, training: bool) -> AdaptiveProjection:
        """Returns the input from which losses compute cross-entropies without the log probabilities of all ids.

        Args:
          hidden: ``[batch, time, hidden]`` in the compute dtype.
          training: whether gradients are needed.
        """
        return AdaptiveProjection(hidden, self, training)

    def cross_entropy(self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the weighted sum of the labels' negative log probabilities, an FP32 scalar.

        Args:
          hidden: ``[rows, hidden]`` in the compute dtype.
          labels: ``[rows]`` int32.
          weights: ``[rows]`` FP32, without a gradient.
          training: whether gradients are needed.
        """
        head, clusters = self._parts()
        number = tf.reduce_sum(tf.cast(labels[:, tf.newaxis] >= self._edges[1:-1], tf.int32), 1)
        in_head = tf.where(number == 0, labels, self._edges[1] + number - 1)
        total = _total(head, hidden, in_head, weights, training)
        for index, cluster in enumerate(clusters, 1):
            total += _of_cluster(cluster, hidden, labels, tf.where(number == index, weights, 0.0), training)
        return total


class AdaptiveProjection(NamedTuple):
    """Hidden states and the adaptive softmax on them; see ``OutputProjection``.

    Attributes:
      hidden: ``[batch, time, hidden]`` in the compute dtype.
      layer: the output layer.
      training: whether gradients are needed.
    """

    hidden: tf.Tensor
    layer: AdaptiveOutputLayer
    training: bool

    @property
    def num_ids(self) -> int:
        """Number of columns of the logits."""
        return self.layer._edges[-1]

    def cross_entropy(self, rows: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
                      targets: SoftTargets) -> tf.Tensor:
        """Returns the weighted sum of the rows' cross-entropies; see ``OutputProjection.cross_entropy``.

        Raises:
          ConfigError: labels are smoothed, which would need the probabilities of all ids.
        """
        if targets.off:
            raise ConfigError(["'loss_params/label_smoothing' needs the probabilities of all ids, which an adaptive "
                               "softmax does not compute: set it to 0, or leave adaptive_softmax out."])
        return self.layer.cross_entropy(rows, labels, weights, self.training)

    def negative_log_probs(self, rows: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns minus the log probability of each label in nats, ``[rows]``; see ``OutputProjection``."""
        prepared = self.layer.prepare(rows.dtype)
        return label_surprises(rows, labels, lambda part: self.layer.logits(part, prepared))


def _log_probabilities(hidden: tf.Tensor, cluster: _Prepared) -> tf.Tensor:
    channels = hidden if cluster.projection is None else times_matrix(hidden, cluster.projection)
    logits = tf.cast(times_matrix(channels, cluster.matrix), tf.float32)
    return tf.nn.log_softmax(logits if cluster.bias is None else logits + cluster.bias)


def _of_cluster(cluster: _Cluster, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
                training: bool) -> tf.Tensor:
    """Returns the weighted sum of the cross-entropies within a cluster; except for XLA, skips rows of weight 0."""
    labels = tf.clip_by_value(labels - cluster.begin, 0, cluster.end - cluster.begin - 1)
    if not current_pass().for_xla:  # XLA needs a fixed number of rows
        rows = rows_to_compute(weights != 0.0)
        hidden, labels, weights = gather_rows(hidden, rows), tf.gather(labels, rows), tf.gather(weights, rows)
    return _total(cluster, cluster.project(hidden), labels, weights, training)


def _total(cluster: _Cluster, channels: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
           training: bool) -> tf.Tensor:
    channels, table = with_bias(channels, cluster.table, cluster.bias)
    return projected_cross_entropy(channels, table, labels, weights, _EXACT, training)
