"""Optimizers, learning-rate policies, loss scaling and mixed precision."""

from open_seq2seq.optimizers.adaptive import Adafactor, Adagrad, Adam, AdamW, Ftrl, LazyAdam, Nadam, RMSProp
from open_seq2seq.optimizers.dtype import PrecisionPolicy, precision_of, resolve_dtype
from open_seq2seq.optimizers.keras_optimizer import KerasOptimizer
from open_seq2seq.optimizers.layer_rates import Larc, LarcInfo
from open_seq2seq.optimizers.loss_scaling import (
    BackoffScaler,
    LogMaxScaler,
    LossScaler,
    StaticScaler,
    make_loss_scaler,
    named_scaler,
)
from open_seq2seq.optimizers.lr_policies import (
    POLICIES,
    cosine_decay,
    exp_decay,
    fixed_lr,
    inv_poly_decay,
    make_schedule,
    piecewise_constant,
    poly_decay,
    transformer_policy,
)
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer, UpdateInfo
from open_seq2seq.optimizers.muon import Muon
from open_seq2seq.optimizers.novograd import NovoGrad
from open_seq2seq.optimizers.optimizer import Optimizer, Slot
from open_seq2seq.optimizers.registry import (
    OPTIMIZERS,
    argument_problems,
    averages_weights,
    combination_problems,
    make_additions,
    make_optimizer,
    trainable_variables,
)
from open_seq2seq.optimizers.schedule_free import ScheduleFreeAdamW
from open_seq2seq.optimizers.sgd import SGD, Momentum
from open_seq2seq.optimizers.weight_average import TriggeredMean, WeightAverage, WeightMean
from open_seq2seq.optimizers.weight_decay import WeightDecay, l1_regularizer, l2_regularizer

__all__ = [
    "OPTIMIZERS", "POLICIES", "SGD", "Adafactor", "Adagrad", "Adam", "AdamW", "BackoffScaler", "Ftrl",
    "KerasOptimizer", "Larc", "LarcInfo", "LazyAdam", "LogMaxScaler", "LossScaler", "MixedPrecisionOptimizer",
    "Momentum", "Muon", "Nadam", "NovoGrad", "Optimizer", "PrecisionPolicy", "RMSProp", "ScheduleFreeAdamW", "Slot",
    "StaticScaler", "TriggeredMean", "UpdateInfo", "WeightAverage", "WeightDecay", "WeightMean",
    "argument_problems", "averages_weights", "combination_problems", "cosine_decay", "exp_decay", "fixed_lr",
    "inv_poly_decay", "l1_regularizer", "l2_regularizer", "make_additions", "make_loss_scaler", "make_optimizer",
    "make_schedule", "named_scaler", "piecewise_constant", "poly_decay", "precision_of", "resolve_dtype",
    "trainable_variables", "transformer_policy",
]
