"""BLEU and chrF of translations, computed with sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.utils.errors import DataError


class BleuResult(NamedTuple):
    """Scores of a corpus.

    Attributes:
      bleu: BLEU from 0 to 100, cased, of detokenised text, with sacreBLEU's tokenizer "13a" (Papineni et al. 2002; Post
        2018, https://arxiv.org/abs/1804.08771).
      chrf: chrF2 from 0 to 100 (Popović 2015).
      signature: sacreBLEU's signature of the BLEU score, which records how the score was computed.
      chrf_signature: sacreBLEU's signature of the chrF score.
      brevity_penalty: BLEU's brevity penalty; 1 if the hypotheses are at least as long as the references.
      length_ratio: number of hypothesis tokens divided by number of reference tokens.
    """

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    brevity_penalty: float
    length_ratio: float


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    """Returns the scores of detokenised hypotheses, each compared with one reference.

    Args:
      hypotheses: the translations to evaluate.
      references: one correct translation for each hypothesis, in the same order.

    Raises:
      ValueError: the numbers of hypotheses and references differ.
      DataError: there are no sentences.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"There are {len(hypotheses)} hypotheses but {len(references)} references.")
    if not hypotheses:
        raise DataError("BLEU cannot be computed, because the evaluation set is empty after filtering: check its "
                        "files, or raise max_length.")
    # Imported here because the import is slow, and training does not need it.
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    ratio = bleu_score.sys_len / max(bleu_score.ref_len, 1)
    return BleuResult(bleu_score.score, chrf_score.score, str(bleu.get_signature()), str(chrf.get_signature()),
                      bleu_score.bp, ratio)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Returns chrF2 of one sentence, from 0 to 100."""
    from sacrebleu import sentence_chrf as score

    return float(score(hypothesis, [reference]).score)
