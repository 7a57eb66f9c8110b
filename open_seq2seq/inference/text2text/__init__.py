"""Export of text-to-text models to other programs."""
