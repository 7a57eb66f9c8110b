"""Layers of networks for images ``[batch, height, width, channels]``."""
