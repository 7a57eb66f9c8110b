"""Layers that encoders and decoders share, and the base of all components."""
