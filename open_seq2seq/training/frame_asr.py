"""The import path of ``FrameASR`` that the documentation gives."""

from open_seq2seq.training.inference.speech2text.frame_asr import FrameASR

__all__ = ["FrameASR"]
