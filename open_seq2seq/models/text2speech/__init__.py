"""Speech synthesis."""

from open_seq2seq.models.text2speech.duration_model import Text2SpeechDurationModel
from open_seq2seq.models.text2speech.text2speech import Text2SpeechTacotron

__all__ = ["Text2SpeechDurationModel", "Text2SpeechTacotron"]
