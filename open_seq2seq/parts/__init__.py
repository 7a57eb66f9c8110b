"""Layers that encoders and decoders share, and the base classes of all components."""
