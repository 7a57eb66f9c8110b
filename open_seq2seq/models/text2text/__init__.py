"""Models that map text to text."""

from open_seq2seq.models.text2text.text2text import Text2Text

__all__ = ["Text2Text"]
