"""Data for speech synthesis."""
