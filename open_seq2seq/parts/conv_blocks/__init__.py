"""Convolutions over time, with normalisation, activation, dropout and residual connections."""
