"""Recurrent layers: cells, the loop over time, cuDNN's kernel, layers and stacks of layers."""
