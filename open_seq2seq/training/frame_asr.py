"""Public import path of ``FrameASR``."""

from open_seq2seq.training.inference.speech2text.frame_asr import FrameASR

__all__ = ["FrameASR"]
