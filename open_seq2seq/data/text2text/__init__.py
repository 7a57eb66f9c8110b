"""Text to text: vocabularies, tokenizers, token files, and the data layers over them."""
