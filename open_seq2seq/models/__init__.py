"""Models: the tasks that a config can name as ``base_model``."""

from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.model import Model
from open_seq2seq.models.speech2text import Speech2Text
from open_seq2seq.models.text2text import Text2Text

__all__ = ["EncoderDecoderModel", "Model", "Speech2Text", "Text2Text"]
