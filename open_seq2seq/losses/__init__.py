"""Losses that a config can select."""

import sys

from open_seq2seq.config.names import exported, register
from open_seq2seq.losses.ctc_loss import CTCLoss, MultiTaskCTCEntropyLoss
from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.losses.sequence_loss import (
    BasicSampledSequenceLoss,
    BasicSequenceLoss,
    CrossEntropyLoss,
    CrossEntropyWithSmoothing,
    PaddedCrossEntropyLossWithSmoothing,
)
from open_seq2seq.losses.text2speech_loss import Text2SpeechLoss
from open_seq2seq.losses.vocoder_loss import VocoderLoss, WavenetLoss

__all__ = ["BasicSampledSequenceLoss", "BasicSequenceLoss", "CTCLoss", "CrossEntropyLoss", "CrossEntropyWithSmoothing",
           "Loss", "LossTerm", "MultiTaskCTCEntropyLoss", "PaddedCrossEntropyLossWithSmoothing", "Text2SpeechLoss",
           "VocoderLoss", "WavenetLoss"]

register("loss", exported(sys.modules[__name__]), base=Loss)
