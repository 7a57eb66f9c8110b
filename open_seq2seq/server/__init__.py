"""Trained models as a service on this machine: the APIs that clients speak, and pages to try them.

The parts that need FastAPI are imported by ``command.serve``, so that the rest of the package works without it.
"""
