"""Decoders that a config can select."""

import sys

from open_seq2seq.config.names import exported, register
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder
from open_seq2seq.decoders.centaur_decoder import CentaurDecoder
from open_seq2seq.decoders.convs2s_decoder import ConvS2SDecoder
from open_seq2seq.decoders.decoder import Decoder, FakeDecoder
from open_seq2seq.decoders.duration_decoder import DurationDecoder
from open_seq2seq.decoders.fully_connected import (
           FullyConnectedCTCDecoder,
           FullyConnectedDecoder,
           FullyConnectedSCDecoder,
           FullyConnectedTimeDecoder,
           SoftmaxDecoder,
)
from open_seq2seq.decoders.las_decoder import JointCTCAttentionDecoder, ListenAttendSpellDecoder
from open_seq2seq.decoders.multi_decoder import MultiDecoder
from open_seq2seq.decoders.rnn_decoder import BeamSearchRNNDecoderWithAttention, RNNDecoderWithAttention
from open_seq2seq.decoders.tacotron2_decoder import Tacotron2Decoder
from open_seq2seq.decoders.transformer_decoder import TransformerDecoder

__all__ = ["AutoregressiveDecoder", "BeamSearchRNNDecoderWithAttention", "CentaurDecoder", "ConvS2SDecoder", "Decoder",
           "DurationDecoder", "FakeDecoder", "FullyConnectedCTCDecoder", "FullyConnectedDecoder",
           "FullyConnectedSCDecoder", "FullyConnectedTimeDecoder", "JointCTCAttentionDecoder",
           "ListenAttendSpellDecoder", "MultiDecoder", "RNNDecoderWithAttention", "SoftmaxDecoder", "Tacotron2Decoder",
           "TransformerDecoder"]

register("decoder", exported(sys.modules[__name__]), base=Decoder)
