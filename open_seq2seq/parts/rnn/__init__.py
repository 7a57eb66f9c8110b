"""Recurrent layers: cells, the loop over time, the GPU's kernel, layers and stacks of them."""
