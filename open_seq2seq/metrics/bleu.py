"""BLEU and chrF of translations, by sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class BleuResult(NamedTuple):
    """Scores of a corpus.

    Attributes:
      bleu: 0 to 100, cased, 13a tokenisation, on detokenised text (Papineni et al. 2002; Post 2018).
      chrf: 0 to 100, chrF2 (Popović 2015).
      signature: how BLEU was computed, in sacreBLEU's form.
      brevity_penalty: 1 when the hypotheses are as long as the references.
      length_ratio: hypothesis tokens by reference tokens.
    """

    bleu: float
    chrf: float
    signature: str
    brevity_penalty: float
    length_ratio: float


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    """Judges detokenised hypotheses against one reference each.

    Raises:
      ValueError: the two differ in number.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"There are {len(hypotheses)} hypotheses but {len(references)} references.")
    # Imported here: it takes a noticeable part of a second, which training does not need.
    from sacrebleu.metrics import BLEU, CHRF

    metric = BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    chrf = CHRF().corpus_score(list(hypotheses), [list(references)])
    ratio = score.sys_len / max(score.ref_len, 1)
    return BleuResult(score.score, chrf.score, str(metric.get_signature()), score.bp, ratio)
