"""Exports trained models to formats of other programs; each export is checked without this package."""
