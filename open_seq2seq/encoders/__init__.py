"""Encoders that a config can select."""

import sys

from open_seq2seq.config.names import exported, register
from open_seq2seq.encoders.convs2s_encoder import ConvS2SEncoder
from open_seq2seq.encoders.deep_speech2_encoder import DeepSpeech2Encoder
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.encoders.las_encoder import ListenAttendSpellEncoder
from open_seq2seq.encoders.multi_encoder import MultiEncoder
from open_seq2seq.encoders.rnn_encoders import (
    BidirectionalRNNEncoderWithEmbedding,
    GNMTLikeEncoderWithEmbedding,
    UnidirectionalRNNEncoderWithEmbedding,
)
from open_seq2seq.encoders.speech_encoder import SpeechEncoder
from open_seq2seq.encoders.tdnn_encoder import TDNNEncoder
from open_seq2seq.encoders.transformer_encoder import TransformerEncoder

__all__ = ["BidirectionalRNNEncoderWithEmbedding", "ConvS2SEncoder", "DeepSpeech2Encoder", "Encoder",
           "GNMTLikeEncoderWithEmbedding", "ListenAttendSpellEncoder", "MultiEncoder", "SpeechEncoder",
           "TDNNEncoder", "TransformerEncoder", "UnidirectionalRNNEncoderWithEmbedding"]

register("encoder", exported(sys.modules[__name__]), base=Encoder)
