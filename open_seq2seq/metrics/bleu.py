"""BLEU and chrF of translations, by sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.utils.errors import DataError


class BleuResult(NamedTuple):
    """Scores of a corpus.

    Attributes:
      bleu: 0 to 100, cased, 13a tokenisation, on detokenised text (Papineni et al. 2002; Post 2018).
      chrf: 0 to 100, chrF2 (Popović 2015).
      signature: how BLEU was computed, in sacreBLEU's form.
      chrf_signature: how chrF was computed.
      brevity_penalty: 1 when the hypotheses are as long as the references.
      length_ratio: hypothesis tokens divided by reference tokens.
    """

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    brevity_penalty: float
    length_ratio: float


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    """Returns the scores of detokenised hypotheses, each against one reference.

    Raises:
      ValueError: the two differ in number.
      DataError: there are no sentences.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"There are {len(hypotheses)} hypotheses but {len(references)} references.")
    if not hypotheses:
        raise DataError("There are no sentences to judge by BLEU: the evaluation set is empty after filtering; correct "
                        "its files or raise max_length.")
    # Imported here because it is slow, and training does not need it.
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    ratio = bleu_score.sys_len / max(bleu_score.ref_len, 1)
    return BleuResult(bleu_score.score, chrf_score.score, str(bleu.get_signature()), str(chrf.get_signature()),
                      bleu_score.bp, ratio)
