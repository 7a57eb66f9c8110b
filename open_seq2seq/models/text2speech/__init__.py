"""Speech synthesis."""

from open_seq2seq.models.text2speech.text2speech import Text2SpeechDurationModel, Text2SpeechTacotron

__all__ = ["Text2SpeechDurationModel", "Text2SpeechTacotron"]
