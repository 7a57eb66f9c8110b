"""The data layers of images, under the name of their module in the TensorFlow 1 toolkit."""

from open_seq2seq.data.image2label.cifar import CifarDataLayer
from open_seq2seq.data.image2label.imagenet import ImagenetDataLayer

__all__ = ["CifarDataLayer", "ImagenetDataLayer"]
