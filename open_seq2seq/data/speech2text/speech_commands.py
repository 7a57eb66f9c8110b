"""The data layer of spoken commands, under the name of its module in the TensorFlow 1 toolkit."""

from open_seq2seq.data.speech_commands.speech_commands import SpeechCommandsDataLayer

__all__ = ["SpeechCommandsDataLayer"]
