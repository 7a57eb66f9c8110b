"""Losses that configs can name."""

from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.losses.sequence_loss import (
    BasicSequenceLoss,
    CrossEntropyWithSmoothing,
    PaddedCrossEntropyLossWithSmoothing,
)

__all__ = ["BasicSequenceLoss", "CrossEntropyWithSmoothing", "Loss", "LossTerm", "PaddedCrossEntropyLossWithSmoothing"]
