"""Layers of speech synthesis with Tacotron 2."""
