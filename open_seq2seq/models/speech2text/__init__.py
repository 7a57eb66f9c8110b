"""Speech recognition."""

from open_seq2seq.models.speech2text.speech2text import Speech2Text

__all__ = ["Speech2Text"]
