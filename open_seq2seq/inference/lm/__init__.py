"""Evaluation of language models that adapt to the text while they are evaluated."""
