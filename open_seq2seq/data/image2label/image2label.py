"""The data layers of images, under the name of their module in NVIDIA's OpenSeq2Seq."""

from open_seq2seq.data.image2label.cifar import CifarDataLayer
from open_seq2seq.data.image2label.imagenet import ImagenetDataLayer

__all__ = ["CifarDataLayer", "ImagenetDataLayer"]
