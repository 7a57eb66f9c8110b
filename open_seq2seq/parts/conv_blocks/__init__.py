"""Convolutions over time and their frames: normalisation, activation, dropout, residual connections."""
