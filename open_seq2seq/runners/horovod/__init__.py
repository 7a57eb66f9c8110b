"""Processes joined by Horovod: a fixed number of them, or elastic."""
