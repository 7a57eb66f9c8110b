"""What excludes what among the optimization parameters; everything else goes together."""

import pytest
import tensorflow as tf

from open_seq2seq.optimizers import (
    Adam,
    Larc,
    MixedPrecisionOptimizer,
    ScheduleFreeAdamW,
    combination_problems,
    l1_regularizer,
    l2_regularizer,
    make_optimizer,
)
from open_seq2seq.utils.errors import ConfigError

LARC = {"larc_params": {"larc_eta": 0.001}}
CLIP = {"max_grad_norm": 1.0}
EMA = {"ema_decay": 0.999}
DECAY = {"decoupled_weight_decay": 0.01}


@pytest.mark.parametrize("params,message", [
    ({**LARC, **CLIP}, "'max_grad_norm' and 'larc_params' exclude each other: LARC sets"),
    ({**EMA, "average_checkpoints": 5}, "'ema_decay' and 'average_checkpoints' exclude each other"),
    ({"average_after_evals_without_gain": 5, "average_from": 9},
     "'average_from' and 'average_after_evals_without_gain' exclude"),
    ({**DECAY, "optimizer": "AdamW"}, "the weight_decay of AdamW exclude each other: the weights would decay twice"),
    ({**DECAY, "optimizer": "tf.keras.optimizers.AdamW"}, "the weight_decay of AdamW exclude each other"),
    ({**DECAY, "optimizer": "open_seq2seq.optimizers.AdamW"}, "the weight_decay of AdamW exclude each other"),
    ({**DECAY, "optimizer": "NovoGrad", "optimizer_params": {"weight_decay": 1e-3}}, "weight_decay of NovoGrad"),
    ({**DECAY, "optimizer": "tf.keras.optimizers.Lion", "optimizer_params": {"weight_decay": 0.1}}, "decay twice"),
    ({**DECAY, "optimizer": "Ftrl"}, "l2_regularization_strength"),
    ({**DECAY, "optimizer": "ScheduleFreeAdamW"}, "would not reach its iterates; set its weight_decay instead"),
    ({**EMA, "optimizer": "open_seq2seq.optimizers.ScheduleFreeAdamW"}, "the optimizer itself averages the weights"),
    ({"average_checkpoints": 3, "optimizer": ScheduleFreeAdamW}, "Leave 'average_checkpoints' out"),
    ({**DECAY, "regularizer": l2_regularizer}, "the L2 penalty in 'regularizer'"),
    ({**DECAY, "encoder_params": {"regularizer": "l2_regularizer"}}, "'encoder_params/regularizer'"),
    ({**DECAY, "decoder_params": {"regularizer": tf.keras.regularizers.L2}}, "'decoder_params/regularizer'"),
    ({**DECAY, "regularizer": tf.keras.regularizers.L1L2(0.1, 0.1)}, "L2 penalty"),
    ({"lr_factors": {"encoder": 0.1}, "optimizer": "tf.keras.optimizers.Lion"}, "not available for"),
    ({"unfreeze_at": {"encoder": 5}, "optimizer": ScheduleFreeAdamW}, "not available for"),
    ({"decoupled_weight_decay_exclude": "bias"}, "no effect without 'decoupled_weight_decay'"),
])
def test_what_makes_no_sense_is_refused_with_a_reason(params, message):
    (problem,) = combination_problems(params)
    assert message in problem


@pytest.mark.parametrize("params", [
    {}, {**DECAY, "optimizer": "AdamW", "optimizer_params": {"weight_decay": "0.0"}},
    {**DECAY, "optimizer": Adam, "regularizer": l1_regularizer, "regularizer_params": {"scale": 0.1}},
    {**DECAY, "optimizer": "NovoGrad", "optimizer_params": {"weight_decay": 0.0}},
    {"optimizer": "AdamW", "optimizer_params": {"weight_decay": 0.1}, "regularizer": l2_regularizer},
    {**DECAY, "optimizer": "Adam", "optimizer_params": "of another type", "encoder_params": None},
    {"lr_factors": {"encoder": 0.1}, "optimizer": "Adam"}, {"unfreeze_at": {"encoder": 5}},
    # make_optimizer refuses Keras' class; as it has no average of its own, it does not exclude others.
    {**EMA, "optimizer": "tf.keras.optimizers.ScheduleFreeAdamW"}, {**EMA, **DECAY, **LARC, "optimizer": "Muon"},
])
def test_what_is_allowed(params):
    assert not combination_problems(params)


def test_the_wrapper_refuses_too():
    with pytest.raises(ConfigError, match="exclude each other"):
        MixedPrecisionOptimizer(make_optimizer("SGD"), lambda step: tf.constant(0.1), max_grad_norm=1.0,
                                larc=Larc(larc_eta=0.001))
