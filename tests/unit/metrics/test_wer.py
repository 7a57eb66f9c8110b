import random

import pytest

from open_seq2seq.metrics.wer import (
    ErrorCounts,
    align,
    alignment_text,
    count_errors,
    error_rates,
    rate_interval,
    report,
)
from open_seq2seq.utils.errors import DataError

WORDS = ["a", "the", "caf\u00e9", "\u4f60\u597d", "\u043c\u0438\u0440", "tree", "trees", "\U0001f600"]


def test_composed_and_decomposed_letters_are_equal():
    rates = error_rates(["caf\u00e9 noir"], ["cafe\u0301 noir"])
    assert (rates.wer, rates.cer, rates.characters.reference) == (0.0, 0.0, 9)
    assert alignment_text("caf\u00e9", "cafe\u0301").split("\n")[2].strip() == ""


def sentences(count, seed):
    numbers = random.Random(seed)
    return [" ".join(numbers.choices(WORDS, k=numbers.randint(1, 12))) for _ in range(count)]


def changed(sentence, numbers):
    words = []
    for word in sentence.split():
        what = numbers.random()
        words += [] if what < 0.1 else [numbers.choice(WORDS)] if what < 0.2 else [word, numbers.choice(WORDS)] \
            if what < 0.3 else [word]
    return " ".join(words)


def distance(a, b):
    """Levenshtein distance by its definition, row by row."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, before = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]


@pytest.fixture(scope="module")
def corpus():
    numbers = random.Random(1)
    references = sentences(60, 0)
    return references, [changed(sentence, numbers) for sentence in references]


def test_equals_the_definition_and_jiwer(corpus):
    jiwer = pytest.importorskip("jiwer")
    references, hypotheses = corpus
    rates = error_rates(references, hypotheses)
    assert rates.words.errors == sum(distance(r.split(), h.split()) for r, h in zip(*corpus, strict=True))
    assert rates.characters.errors == sum(distance(r, h) for r, h in zip(*corpus, strict=True))
    theirs = jiwer.process_words(references, hypotheses)
    assert rates.wer == pytest.approx(theirs.wer)
    assert rates.words == (theirs.substitutions, theirs.deletions, theirs.insertions,
                           sum(len(r.split()) for r in references))
    assert rates.cer == pytest.approx(jiwer.cer(references, hypotheses))


def test_alignments_are_those_of_the_counts(corpus):
    for reference, hypothesis in zip(*corpus, strict=True):
        ours, theirs = reference.split(), hypothesis.split()
        steps = align(ours, theirs)
        assert [s.reference for s in steps if s.kind != "I"] == ours
        assert [s.hypothesis for s in steps if s.kind != "D"] == theirs
        assert all((s.reference == s.hypothesis) == (s.kind == "=") for s in steps)
        kinds = [s.kind for s in steps]
        assert count_errors(ours, theirs) == tuple(map(kinds.count, "SDI")) + (len(ours),)


def test_corpus_totals_are_sums(corpus):
    references, hypotheses = corpus
    whole = error_rates(references, hypotheses)
    parts = [error_rates(references[i::3], hypotheses[i::3]) for i in range(3)]
    assert whole.words == parts[0].words.plus(parts[1].words).plus(parts[2].words)
    assert whole.wer != pytest.approx(sum(part.wer for part in parts) / 3, abs=1e-12)


def test_worst_first():
    rates = error_rates(["a b c", "a b", "x"], ["a c", "c d", "x"], names=["one", "two", "three"])
    assert [u.name for u in rates.worst] == ["two", "one"]
    lines = report(rates)
    assert lines[0] == "WER: 50.00%  (2 substitutions, 1 deletions, 0 insertions in 6 words)"
    assert lines[2] == "two: 2 errors in 2 words"
    assert error_rates(["a b"], ["c"], worst=0).worst == []


def test_alignment_text():
    assert alignment_text("the cat sat", "the bat sat up") == (
        "REF: the cat sat **\n"
        "HYP: the bat sat up\n"
        "         S       I")


def test_empty_and_white_space():
    assert error_rates(["a  b\t"], [" a b"]).words.errors == 0
    assert error_rates(["", "a"], ["x", "a"]).wer == 1.0
    assert error_rates([""], ["x"]).wer == float("inf")
    assert ErrorCounts().rate == 0.0
    with pytest.raises(DataError, match="WER cannot be computed"):
        error_rates([], [])
    with pytest.raises(ValueError):
        error_rates(["a"], ["a", "b"])


def test_the_interval_of_a_rate_narrows_with_the_number_of_utterances():
    counts = [ErrorCounts(number % 4, 0, 0, 10) for number in range(12)]
    low, high = rate_interval(counts)
    assert low < 0.15 < high
    narrow = rate_interval(counts * 20)
    assert low < narrow[0] < 0.15 < narrow[1] < high and rate_interval(counts[1:2]) == (0.1, 0.1)
