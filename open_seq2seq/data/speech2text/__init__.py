"""Data layer for recordings and their transcripts."""
