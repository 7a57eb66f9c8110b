"""The version of the package, which is also in its metadata."""

__version__ = "0.1.0"
