"""Evaluation of language models that adapt to the text."""
