"""Computes the scores of an evaluation of translations, and says how they were computed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from open_seq2seq.metrics.bleu import BleuResult, corpus_bleu, tokenizer_hint
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print

Row = tuple[int, str, str]
"""(example, translation, reference)."""


class Scores:
    """BLEU and chrF of the evaluations of a model, each by the same tokenizer.

    The signature of a score, and the hint that another tokenizer is needed, are printed once for each model.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._latest: dict[str, dict[str, float | str]] = {}

    def compute(self, rows: Sequence[Row], tokenizer: str, language: str = "") -> BleuResult:
        """Computes and prints the scores of translations.

        Args:
          rows: the translations and their references.
          tokenizer: one of ``metrics.bleu.TOKENIZERS``.
          language: the target language; "" if there is only one.
        """
        references = [row[2] for row in rows]
        result = corpus_bleu([row[1] for row in rows], references, tokenizer)
        of, colon = (f"{language}: ", "") if language else ("", ":")
        for name, score, signature in (("BLEU", result.bleu, result.signature),
                                       ("chrF", result.chrf, result.chrf_signature)):
            self._latest[of + name] = {"score": score, "signature": signature}
            deco_print(f"{of}{name}{colon} {score:.2f} of 100{self._once(f'  ({signature})')}", offset=1)
        if (hint := tokenizer_hint(references, tokenizer)) and self._once(of + hint):
            deco_print(f"WARNING: this BLEU says little, because {hint} as bleu_tokenizer.", offset=1)
        return result

    def _once(self, text: str) -> str:
        """Returns the text, or "" if an earlier evaluation has printed it."""
        new = "" if text in self._told else text
        self._told.add(text)
        return new

    def write(self, reporter: Reporter) -> None:
        """Writes the latest scores and their signatures, if there are any, to ``scores.json`` among the samples."""
        if self._latest:
            with reporter.file("scores", ".json") as path:
                disk.fill(path, json.dumps(self._latest, ensure_ascii=False))
