"""Makes what a trainer needs from a model's parameters: the stream of batches, and the optimizer."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.data.batching import BatchStream
from open_seq2seq.data.contiguous import ContiguousStream
from open_seq2seq.models.builder import make_schedule_and_optimizer
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers import make_additions, make_loss_scaler
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.optimizers.lr_policies import scaled_schedule
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.runners.runner import Runner


def make_stream(model: Model, runner: Runner, seed: int) -> BatchStream | ContiguousStream:
    """Returns the stream of a training model's batches; also sets ``training_rows`` of a contiguous data layer."""
    layer, iter_size = model.data_layer, model.params["iter_size"]
    if layer.contiguous:
        layer.training_rows = layer.params["batch_size"] * runner.world_size * iter_size
        return ContiguousStream(layer.num_examples, batch_size=layer.params["batch_size"],
                                world_size=runner.world_size, rank=runner.replica_rank,
                                replicas=runner.local_replicas, iter_size=iter_size)
    return BatchStream(
        layer.lengths, batch_size=layer.batch_budget, costs=layer.costs,
        shuffle=layer.params["shuffle"], bucketed=layer.params["length_buckets"], seed=seed,
        world_size=runner.world_size, rank=runner.replica_rank, replicas=runner.local_replicas,
        iter_size=iter_size,
        max_shapes=model.params["xla_buckets"], explain=layer.explain_too_costly)


def make_optimizer(model: Model, trainable: dict[str, tf.Variable], last_step: int, steps_per_epoch: int | None,
                   rate_scale: int) -> MixedPrecisionOptimizer:
    """Returns the optimizer that a model's config specifies, built for ``trainable``.

    It includes the schedule, the loss scaling, and the additions of ``make_additions``, such as weight decay.

    Args:
      model: the training model.
      trainable: the variables that the optimizer updates, by name.
      last_step: number of updates of the run.
      steps_per_epoch: number of updates per epoch; None in runs measured in steps.
      rate_scale: factor on the policy's learning rate.
    """
    params = model.params
    schedule, optimizer = make_schedule_and_optimizer(model, last_step, steps_per_epoch)
    schedule = scaled_schedule(schedule, rate_scale)
    policy = precision_of(params)
    scaling = params["loss_scaling"]
    if scaling is None:
        scaling = "Backoff" if policy.compute == tf.float16 else 1.0
    scaler = make_loss_scaler(scaling, params["loss_scaling_params"], policy.compute)
    # Updates with inf or NaN are skipped even without loss scaling, so that weights stay finite until a recovery.
    wrapper = MixedPrecisionOptimizer(optimizer, schedule, scaler, max_grad_norm=params["max_grad_norm"],
                                      skip_nonfinite=True, **make_additions(params))
    wrapper.build(trainable)
    return wrapper
