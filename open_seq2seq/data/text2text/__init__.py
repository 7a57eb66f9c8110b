"""Text-to-text data: vocabularies, tokenizers, tokenised text, and the data layers that use them."""
