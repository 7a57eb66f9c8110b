"""The data layer of spoken commands, under the name of its module in NVIDIA's OpenSeq2Seq."""

from open_seq2seq.data.speech_commands.speech_commands import SpeechCommandsDataLayer

__all__ = ["SpeechCommandsDataLayer"]
