"""Encoders that a config can select."""

import sys

from open_seq2seq.config.names import exported, register
from open_seq2seq.encoders.centaur_encoder import CentaurEncoder
from open_seq2seq.encoders.cnn_encoder import CNNEncoder
from open_seq2seq.encoders.convs2s_encoder import ConvS2SEncoder
from open_seq2seq.encoders.deep_speech2_encoder import DeepSpeech2Encoder
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.encoders.las_encoder import ListenAttendSpellEncoder
from open_seq2seq.encoders.lm_encoder import LMEncoder
from open_seq2seq.encoders.multi_encoder import MultiEncoder
from open_seq2seq.encoders.ngram_encoder import NgramEncoder
from open_seq2seq.encoders.resnet_encoder import ResNetEncoder
from open_seq2seq.encoders.rnn_encoders import (
    BidirectionalRNNEncoderWithEmbedding,
    GNMTLikeEncoderWithEmbedding,
    GNMTLikeEncoderWithEmbedding_cuDNN,
    UnidirectionalRNNEncoderWithEmbedding,
)
from open_seq2seq.encoders.speech_encoder import SpeechEncoder
from open_seq2seq.encoders.tacotron2_encoder import Tacotron2Encoder
from open_seq2seq.encoders.tdnn_encoder import TDNNEncoder
from open_seq2seq.encoders.transformer_encoder import TransformerEncoder, TransformerLMEncoder
from open_seq2seq.encoders.vocos_encoder import VocosEncoder
from open_seq2seq.encoders.wavenet_encoder import WavenetEncoder

__all__ = ["BidirectionalRNNEncoderWithEmbedding", "CNNEncoder", "CentaurEncoder", "ConvS2SEncoder",
           "DeepSpeech2Encoder", "Encoder", "GNMTLikeEncoderWithEmbedding", "GNMTLikeEncoderWithEmbedding_cuDNN",
           "LMEncoder", "LanguageEncoder", "ListenAttendSpellEncoder", "MultiEncoder", "NgramEncoder", "ResNetEncoder",
           "SpeechEncoder", "TDNNEncoder", "Tacotron2Encoder", "TransformerEncoder", "TransformerLMEncoder",
           "UnidirectionalRNNEncoderWithEmbedding", "VocosEncoder", "WavenetEncoder"]

register("encoder", exported(sys.modules[__name__]), base=Encoder)
