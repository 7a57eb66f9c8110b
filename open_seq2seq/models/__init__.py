"""Models: the tasks that a config can select as ``base_model``."""

import sys

from open_seq2seq.config.names import exported, register
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.image2label import Image2Label
from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.lm.lstm_lm import LSTMLM
from open_seq2seq.models.model import Model
from open_seq2seq.models.multi_decoder import MultiDecoderModel
from open_seq2seq.models.part import Part
from open_seq2seq.models.speech2text import Speech2Text
from open_seq2seq.models.text2label import Text2Label
from open_seq2seq.models.text2speech import (
    Text2SpeechCentaur,
    Text2SpeechDurationModel,
    Text2SpeechTacotron,
    Text2SpeechVocoder,
    Text2SpeechWavenet,
)
from open_seq2seq.models.text2text import Text2Text

__all__ = ["LSTMLM", "EncoderDecoderModel", "Image2Label", "LanguageModel", "Model", "MultiDecoderModel", "Part",
           "Speech2Text", "Text2Label", "Text2SpeechCentaur", "Text2SpeechDurationModel", "Text2SpeechTacotron",
           "Text2SpeechVocoder", "Text2SpeechWavenet", "Text2Text"]

register("model", exported(sys.modules[__name__]), base=Model)
