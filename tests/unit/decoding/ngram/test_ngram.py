import gzip
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.decoding.ngram import (
    estimate,
    load_language_model,
    perplexity,
    read_arpa,
    write_arpa,
)
from open_seq2seq.decoding.ngram.arpa import KenlmModel
from open_seq2seq.decoding.ngram.estimation import characters_of_lines, words_of_lines
from open_seq2seq.decoding.ngram.model import sentence_scores
from open_seq2seq.utils.errors import DataError
from tests.unit.decoding.arpa_text import arpa_text

ARPA = "Comment of the program that made it.\n\n" + arpa_text("""
-1.0\t<unk>
-0.9\t</s>
-99\t<s>\t-0.2
-0.6\ta\t-0.3
-0.8\tb\t-0.1
""", """
-0.4\t<s> a\t-0.15
-0.3\ta b\t-0.05
-0.2\tb </s>
""", """
-0.1\t<s> a b
""")
DATA = Path(os.environ.get("OPENSEQ2SEQ_DATA", "shared/data")) / "lm-arpa"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.arpa"
    path.write_text(ARPA)
    return path


def test_words_may_contain_a_no_break_space(tmp_path):
    path = tmp_path / "spaces.arpa"
    path.write_text(arpa_text("""
-0.5\t</s>
-99\t<s>\t-0.2
-0.6\t10\u00a0% -0.3
-0.8\té
""", """
-0.4  <s>\t10\u00a0%
"""), encoding="utf-8")
    model = read_arpa(str(path))
    assert model.words == ["</s>", "<s>", "10\u00a0%", "é"] and model.counts == [4, 1]


def test_new_models_have_composed_words_and_find_others():
    nfd = "cafe\u0301"
    assert list(words_of_lines([f"un {nfd}"])) == [["un", "caf\u00e9"]]
    assert list(characters_of_lines([f"u {nfd}"])) == [["u", "<space>", *"caf\u00e9"]]
    model = estimate([["caf\u00e9", "un"]] * 3, 1).model
    assert perplexity(model, [[nfd]]).unknown == 0


def text(count=300, seed=0, kinds=12):
    """Sentences of made-up words, some of which follow each other more often."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        words = [int(rng.integers(kinds) ** 2 // kinds)]
        for _ in range(int(rng.integers(0, 9))):
            words.append((words[-1] * 3 + 1) % kinds if rng.random() < 0.4 else int(rng.integers(kinds)))
        sentences.append([f"w{word}" for word in words])
    return sentences


def word_id(model, word):
    return model.words.index(word) if word in model.words else -1


def scores_of(model, words):
    """Natural log probabilities of each word of a sentence, and of its end."""
    scores, end = sentence_scores(model, [word_id(model, word) for word in words])
    return [*scores, end]


def test_back_off_by_hand(small):
    model = read_arpa(str(small))
    assert (model.order, model.counts) == (3, [5, 3, 1])
    want = [-0.4, -0.1, -0.05 - 0.2]  # P(a|<s>), P(b|<s> a), the weight of `a b` and P(</s>|b)
    np.testing.assert_allclose(np.array(scores_of(model, ["a", "b"])) / math.log(10), want, rtol=1e-5)
    # b after <s>: weight of <s>; a stranger: weight of b; then nothing is known, and the state is empty.
    want = [-0.2 - 0.8, -0.1 - 1.0, -0.6, -0.3 - 0.9]
    np.testing.assert_allclose(np.array(scores_of(model, ["b", "x", "a"])) / math.log(10), want, rtol=1e-5)


def test_many_look_ups_equal_one_by_one():
    model = estimate(text(), 4).model
    rng = np.random.default_rng(1)
    states = rng.integers(0, sum(model.counts[:3]) + 1, 500)
    words = rng.integers(-1, len(model.words), 500)
    scores, after = model.score(states, words)
    for i in range(500):
        score, state = model.score_one(int(states[i]), int(words[i]))
        assert (state, score) == (after[i], pytest.approx(scores[i], rel=1e-6))


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_a_written_model_comes_back(tmp_path, name):
    model = estimate(text(), 3).model
    write_arpa(str(tmp_path / name), model)
    again = load_language_model(str(tmp_path / name))
    assert again.words == model.words and again.counts == model.counts
    for sentence in text(20, seed=5):
        np.testing.assert_allclose(scores_of(again, sentence), scores_of(model, sentence), atol=1e-4)


@pytest.mark.parametrize("old, new, what", [
    ("ngram 2=3", "ngram 2=4", "line 20: there are 3 2-grams instead of the 4 announced"),
    ("ngram 2=3", "ngram 2=2", "line 18: there are more 2-grams than the 2 announced"),
    ("-0.3\ta b", "-0.3\ta c", "line 17: the word 'c' is not among"),
    ("-0.3\ta b", "x\ta b", "line 17: expected a 2-gram"),
    ("-0.8\tb\t-0.1", "-0.8\ta\t-0.1", "line 13: the word 'a' is listed twice"),
    ("-0.3\ta b\t-0.05", "-0.3\t<s> a", "listed twice"),
    ("<s> a b", "b a b", "not among the 2-grams"), ("\\data\\", "data", "not an ARPA file"), ("\\end\\", "", "end"),
    ("\\3-grams", "\\4-grams", "expected '\\3-grams:'")])
def test_wrong_files_are_named(small, old, new, what):
    small.write_text(ARPA.replace(old, new, 1))
    with pytest.raises(DataError, match=what.replace("\\", "\\\\")) as error:
        read_arpa(str(small))
    assert "small.arpa" in str(error.value)


def test_missing_and_unreadable_files(tmp_path):
    (tmp_path / "bad.gz").write_text("no gzip")
    (tmp_path / "bad.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5")
    packed = gzip.compress(b"\\data\\\nngram 1=4\n" * 20)
    (tmp_path / "cut.gz").write_bytes(packed[:len(packed) // 2])
    (tmp_path / "bits.gz").write_bytes(packed[:10] + b"\xff" * 8 + packed[18:])
    for name in ("missing.arpa", "bad.gz", "cut.gz", "bits.gz"):
        with pytest.raises(DataError, match=name):
            load_language_model(str(tmp_path / name))
    with pytest.raises(DataError, match="lm_vocabulary"):
        load_language_model(str(tmp_path / "bad.bin"))


def test_kenlm_binary_needs_kenlm(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kenlm", None)
    with pytest.raises(DataError, match="pip install kenlm"):
        KenlmModel(str(tmp_path / "x.bin"), ["a"])


def test_equals_kenlm_where_it_is_installed(tmp_path):
    pytest.importorskip("kenlm")
    path = str(tmp_path / "m.arpa")
    write_arpa(path, estimate(text(), 3).model)
    ours = read_arpa(path)
    theirs = KenlmModel(path, ours.words)
    states = np.array([ours.start_state()] * 20), np.array([theirs.start_state()] * 20)
    for step in range(6):
        words = np.random.default_rng(step).integers(3, len(ours.words), 20)
        (mine, after), (other, after_other) = ours.score(states[0], words), theirs.score(states[1], words)
        np.testing.assert_allclose(mine, other, atol=1e-4)
        np.testing.assert_allclose(ours.score_end(after), theirs.score_end(after_other), atol=1e-4)
        states = after, after_other


@pytest.mark.skipif(not DATA.is_dir(), reason="OPENSEQ2SEQ_DATA does not name a folder with lm-arpa")
@pytest.mark.parametrize("name, counts", [("turtle.lm", [91, 212, 177]), ("100.lm.gz", [400, 1082, 1307])])
def test_files_of_other_programs(name, counts):
    model = read_arpa(str(DATA / name))
    assert model.counts == counts
    opener = gzip.open if name.endswith(".gz") else open
    with opener(DATA / name, "rt") as stream:
        section = stream.read().rsplit("\n\\3-grams:", 1)[1].split("\\end\\")[0]
    lines = [line.split() for line in section.strip().split("\n")]
    for log_prob, *words in lines[::7]:  # a known 3-gram's probability is the file's
        state = 0
        for word in words:
            score, state = model.score_one(state, word_id(model, word))
        assert score == pytest.approx(float(log_prob) * math.log(10), abs=1e-4)


def kneser_ney(sentences, order):
    """P(word | history) by the formulas, from dictionaries: interpolated modified Kneser-Ney."""
    padded = [["<s>", *sentence, "</s>"] for sentence in sentences]
    raw = [Counter(tuple(s[i:i + n]) for s in padded for i in range(len(s) - n + 1)) for n in range(1, order + 1)]
    counts = []
    for n in range(1, order + 1):
        if n == order:
            counts.append(dict(raw[n - 1]))
            continue
        before = Counter(gram[1:] for gram in raw[n])
        counts.append({gram: raw[n - 1][gram] if gram[0] == "<s>" else before[gram] for gram in raw[n - 1]})
    counts[0].pop(("<s>",))
    vocabulary = {gram[0] for gram in counts[0]} | {"<unk>"}
    discounts = []
    for table in counts:
        n1, n2, n3, n4 = (sum(c == k for c in table.values()) for k in (1, 2, 3, 4))
        y = n1 / (n1 + 2 * n2)
        discounts.append((0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3))

    def probability(history, word):
        n = len(history) + 1
        followers = {gram: c for gram, c in counts[n - 1].items() if gram[:-1] == history}
        lower = probability(history[1:], word) if history else 1 / len(vocabulary)
        if not followers:
            return lower
        total, d = sum(followers.values()), discounts[n - 1]
        count = followers.get((*history, word), 0)
        left = sum(d[min(c, 3)] for c in followers.values()) / total
        return max(count - d[min(count, 3)], 0) / total + left * lower

    return probability, vocabulary


def test_estimates_equal_the_formulas_and_sum_to_one():
    shares = 1 / np.arange(1, 121)
    rng = np.random.default_rng(0)
    sentences = [[f"w{i}" for i in rng.choice(120, rng.integers(1, 12), p=shares / shares.sum())] for _ in range(250)]
    result = estimate(sentences, 3)
    model = result.model
    assert result.fallback_orders == [] and result.sentences == len(sentences)
    assert result.words == sum(map(len, sentences))
    probability, vocabulary = kneser_ney(sentences, 3)
    words = sorted(vocabulary)
    histories = [("<s>",), *((a, b) for a in ("w0", "w1") for b in ("w0", "w9")), ("<s>", "w1"), ("w3",)]
    for history in histories:
        state = 0
        for word in history:
            state = model.score_one(state, word_id(model, word))[1]
        found = {word: math.exp(model.score_one(state, word_id(model, word))[0]) for word in words}
        assert sum(found.values()) == pytest.approx(1.0, abs=1e-5)
        assert found == pytest.approx({word: probability(history, word) for word in words}, rel=1e-4)


@pytest.mark.parametrize("prune", [(0, 1), (0, 0, 2)])
def test_pruned_models_sum_to_one(prune):
    sentences = text(300)
    whole, model = estimate(sentences, 3).model, estimate(sentences, 3, prune).model
    assert model.counts[0] == whole.counts[0] and model.counts[2] < whole.counts[2]
    assert (model.counts[1] < whole.counts[1]) == (prune[1] > 0)
    words = np.array([i for i, word in enumerate(model.words) if word != "<s>"])
    for state in range(sum(model.counts[:2]) + 1):
        total = np.exp(model.score(np.full(len(words), state), words)[0]).sum()
        assert total == pytest.approx(1.0, abs=1e-4)


def test_few_words_take_fixed_discounts():
    result = estimate([["a", "b"], ["a"]], 2)
    assert result.fallback_orders == [1, 2]
    model = result.model
    total = sum(math.exp(model.score_one(model.start_state(), i)[0]) for i in range(len(model.words)) if i != 1)
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_vocabulary_makes_the_rest_unknown():
    model = estimate(text(100), 2, vocabulary=["w0", "w1", "new"]).model
    assert set(model.words) == {"<unk>", "<s>", "</s>", "w0", "w1", "new"}
    judged = perplexity(model, [["w0", "w7"], []])
    assert (judged.words, judged.unknown, judged.sentences) == (2, 1, 2)


def test_perplexity():
    sentences = text(100, seed=3)
    model = estimate(text(), 3).model
    scores = [score for sentence in sentences for score in scores_of(model, sentence)]
    assert perplexity(model, sentences).perplexity == pytest.approx(math.exp(-np.mean(scores)), rel=1e-5)


def test_words_of_probability_0_make_the_perplexity_infinite(small):
    small.write_text(ARPA.replace("-0.6\ta", "-inf\ta"))
    assert perplexity(read_arpa(str(small)), [["b", "a"]]).perplexity == math.inf


@pytest.mark.parametrize("sentences, what", [([], "no text"), ([["a", "<s>"]], "<s>")])
def test_texts_that_cannot_be_used(sentences, what):
    with pytest.raises(DataError, match=what):
        estimate(sentences, 2)


@pytest.mark.parametrize(("old", "new", "words"), [
    ("ngram 1=4", "ngram 1=999999999999", r"announces 999,999,999,999 n-grams"),
    ("ngram 1=4", "ngram 1=" + "9" * 5000, "found no section"),
    ("ngram 1=4", "ngram " + "9" * 5000 + "=4", "found no section"),
    ("-0.5 a", "nan a", "line 7: expected a 1-gram"), ("-0.5 a", "inf a", "line 7: expected a 1-gram"),
    ("-0.5 a", "1e999 a", "line 7: expected a 1-gram"), ("-0.5 a", "-0.5 a nan", "line 7: expected a 1-gram"),
])
@pytest.mark.parametrize("name", ["a.arpa", "a.arpa.gz"])
def test_models_that_say_impossible_things(tmp_path, name, old, new, words):
    whole = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <unk>\n-1 <s>\n-0.5 a\n-1 </s>\n\n\\end\\\n"
    for text in (whole.replace("-0.5 a", "-inf a"), whole, whole.replace(old, new)):
        with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wb") as file:
            file.write(text.encode())
        if text != whole.replace(old, new):
            assert read_arpa(str(tmp_path / name)).counts == [4]
    with pytest.raises(DataError, match=words):
        read_arpa(str(tmp_path / name))
