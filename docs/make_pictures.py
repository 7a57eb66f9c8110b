"""Draws docs/images/multi30k-curves.png from the curves of the result cards.

Usage: python docs/make_pictures.py
"""

from __future__ import annotations

import csv
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CURVES = {"multi30k-two-hours": "Transformer", "convs2s-multi30k": "ConvS2S", "gnmt-multi30k": "GNMT"}


def main() -> None:
    """Draws the BLEU of three families by the number of updates."""
    figure, axes = pyplot.subplots(figsize=(4.6, 3.2), dpi=150)
    for name, family in CURVES.items():
        with open(os.path.join(ROOT, "results", "curves", f"{name}.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        updates, scores = ([float(row[key]) for row in rows] for key in ("updates", "validation_bleu"))
        axes.plot(updates, scores, marker="o", markersize=3, label=family)
    axes.set(xlabel="updates", ylabel="validation BLEU", title="Multi30k, English to German", ylim=(15, 43))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    figure.savefig(os.path.join(ROOT, "docs", "images", "multi30k-curves.png"), metadata={"Software": None})


if __name__ == "__main__":
    main()
