"""Layers of the convolutional translation model (Gehring et al. 2017, https://arxiv.org/abs/1705.03122)."""
