"""ARPA files written out by hand."""

from __future__ import annotations


def arpa_text(*orders: str) -> str:
    """The text of a file: its header, and a section for each order.

    Args:
      orders: lines of the n-grams of length 1, 2…
    """
    sections = [order.strip("\n").split("\n") for order in orders]
    lines = ["\\data\\", *(f"ngram {n}={len(section)}" for n, section in enumerate(sections, 1)), ""]
    for n, section in enumerate(sections, 1):
        lines += [f"\\{n}-grams:", *section, ""]
    return "\n".join([*lines, "\\end\\", ""])
