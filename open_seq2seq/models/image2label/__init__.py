"""Classification of images and short recordings."""

from open_seq2seq.models.image2label.image2label import Image2Label

__all__ = ["Image2Label"]
