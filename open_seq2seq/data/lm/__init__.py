"""Text for language models."""
