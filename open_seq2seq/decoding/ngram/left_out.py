"""Says how many words of a language model, or of texts that it scores, cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from open_seq2seq.decoding.ngram.text import CASES

_MANY = 0.2
"""Above this share of words that cannot be used, a warning is printed."""


def left_out_remarks(subject: str, words: Sequence[str], total: int, usable_with: Callable[[str], int],
                     remedy: str) -> list[str]:
    """Returns lines about words that cannot be used: none if there are none, and a warning if there are many.

    Args:
      subject: what the words are and why they cannot be used.
      words: the words.
      total: the number of all words.
      usable_with: function that returns how many of the words could be used with a value of ``lm_case``.
      remedy: what to do if the case of letters is not the reason.
    """
    if not words:
        return []
    lines = [f"{subject}: {len(words):,} of {total:,} ({100 * len(words) / total:.1f} %), such as {words[0][:40]!r}"]
    if len(words) > _MANY * total:
        cases = {case: usable_with(case) for case in CASES if case != "as_is"}
        best = max(cases, key=cases.__getitem__)
        if 2 * cases[best] > len(words):
            remedy = f"set lm_case to {best}, because {cases[best]:,} of them differ only in the case of letters"
        lines.append(f"WARNING: {remedy}.")
    return lines
