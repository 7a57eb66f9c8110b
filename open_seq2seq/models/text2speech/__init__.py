"""Speech synthesis."""

from open_seq2seq.models.text2speech.text2speech import (
           Text2SpeechCentaur,
           Text2SpeechDurationModel,
           Text2SpeechTacotron,
)
from open_seq2seq.models.text2speech.vocoder import Text2SpeechVocoder, Text2SpeechWavenet

__all__ = ["Text2SpeechCentaur", "Text2SpeechDurationModel", "Text2SpeechTacotron", "Text2SpeechVocoder",
           "Text2SpeechWavenet"]
