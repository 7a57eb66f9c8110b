"""BLEU and chrF of a corpus."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter

import pytest

from open_seq2seq.metrics.bleu import TOKENIZERS, corpus_bleu, tokenizer_hint, tokenizer_problem
from open_seq2seq.utils.errors import DataError

REFERENCES = ["the cat sat on the mat today", "a dog barks at every passing car"]


def bleu_by_definition(hypotheses: list[str], references: list[str]) -> float:
    """Papineni et al. 2002 on blank-separated words, where every n-gram order has a match."""
    log_precision, lengths = 0.0, [sum(len(line.split()) for line in lines) for lines in (hypotheses, references)]
    for order in range(1, 5):
        matches = total = 0
        for pair in zip(hypotheses, references, strict=True):
            counts = [Counter(zip(*(line.split()[i:] for i in range(order)), strict=False)) for line in pair]
            matches += sum((counts[0] & counts[1]).values())
            total += sum(counts[0].values())
        log_precision += math.log(matches / total) / 4
    return 100 * math.exp(log_precision + min(0.0, 1 - lengths[1] / lengths[0]))


def test_equals_the_definition():
    hypotheses = ["the cat sat on the mat", "a dog barks at each passing car"]
    result = corpus_bleu(hypotheses, REFERENCES)
    assert result.bleu == pytest.approx(bleu_by_definition(hypotheses, REFERENCES))
    assert result.length_ratio == pytest.approx(13 / 14)
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 14 / 13))


def test_perfect_and_empty_hypotheses():
    perfect, empty = corpus_bleu(REFERENCES, REFERENCES), corpus_bleu(["", ""], REFERENCES)
    assert (round(perfect.bleu, 6), round(perfect.chrf, 6), perfect.brevity_penalty) == (100, 100, 1)
    assert (empty.bleu, empty.chrf, empty.length_ratio) == (0, 0, 0)


def test_signatures_say_how_it_was_computed():
    result = corpus_bleu(REFERENCES, REFERENCES)
    assert "tok:13a" in result.signature and "case:mixed" in result.signature
    assert "nc:6" in result.chrf_signature


CHINESE = ["一只狗在草地上奔跑", "两个孩子正在公园里玩球", "一个男人骑着马穿过田野"]
JAPANESE = ["犬が草の上を走っている", "子供たちは公園で遊んでいます"]
THAI = ["สุนัขกำลังวิ่งบนสนามหญ้า", "เด็กสองคนกำลังเล่นลูกบอลในสวนสาธารณะ"]


@pytest.mark.parametrize("tokenizer", ["char", "zh"])
@pytest.mark.parametrize("references", [CHINESE, JAPANESE, THAI])
def test_characters_are_words_where_there_are_no_spaces(references, tokenizer):
    if tokenizer == "zh" and references is not CHINESE:
        return
    hypotheses = [references[0][:-1] + "X", *references[1:]]
    result = corpus_bleu(hypotheses, references, tokenizer)
    spelt = [[" ".join(line) for line in lines] for lines in (hypotheses, references)]
    assert result.bleu == pytest.approx(bleu_by_definition(*spelt)) and result.bleu > 85
    assert f"tok:{tokenizer}" in result.signature and corpus_bleu(hypotheses, references).bleu < 1


@pytest.mark.parametrize(("references", "advice"), [
    (CHINESE, "use zh"), (JAPANESE, "use ja-mecab or char"), (THAI, "use char"), (["αβγδε", "αβ", "γ"], "use char"),
    (REFERENCES, ""), (["Donaudampfschifffahrtsgesellschaft ist ein langes Wort", "ja", "das ist so"], ""),
    (["개가 풀밭에서 달리고 있다", "아이들이 공원에서 놀고 있다"], ""), (["en", "two words", "a b"], "")])
def test_references_without_spaces_need_another_tokenizer(references, advice):
    hint = tokenizer_hint(references, "13a")
    assert hint.endswith(advice) and bool(hint) == bool(advice)
    assert not tokenizer_hint(references, "char") and not tokenizer_hint(references, "zh")


def test_what_a_tokenizer_needs_is_said(monkeypatch, tmp_path):
    from sacrebleu.metrics import BLEU

    assert set(TOKENIZERS) == set(BLEU.TOKENIZERS)
    assert not any(map(tokenizer_problem, ("13a", "intl", "zh", "char", "none")))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'sacrebleu[ja]'" in tokenizer_problem("ja-mecab")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    assert "downloads from the Internet" in tokenizer_problem("flores200")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "flores200sacrebleuspm").write_bytes(b"model")
    assert tokenizer_problem("flores200") == ""


def test_case_counts_and_punctuation_is_split():
    assert corpus_bleu(["The cat sat on the mat today."], ["the cat sat on the mat today ."]).bleu < 100
    assert corpus_bleu(["the cat sat on the mat today."], ["the cat sat on the mat today ."]).bleu > 99.9


def test_what_cannot_be_judged():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        corpus_bleu(["a", "b"], ["a"])
    with pytest.raises(DataError, match="BLEU cannot be computed"):
        corpus_bleu([], [])


def test_sacrebleu_is_imported_only_when_needed():
    code = "import sys, open_seq2seq.metrics.bleu; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
