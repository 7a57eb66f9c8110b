"""Layers of the Transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""
