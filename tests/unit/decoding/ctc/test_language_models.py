import math
import tracemalloc
import unicodedata

import numpy as np
import pytest

from open_seq2seq.decoding.ctc import CtcDecoder, Symbols, decode_all, scorers
from open_seq2seq.decoding.ctc.scorers import Lexicon
from open_seq2seq.decoding.ngram import read_arpa
from open_seq2seq.utils.errors import ConfigError, DataError
from tests.unit.decoding.arpa_text import arpa_text
from tests.unit.decoding.ctc import exhaustive

UNPRUNED = {"beam_width": 10**4, "beam_threshold": math.inf, "symbol_threshold": -math.inf, "top_symbols": 10**6,
            "n_best": 10**4}
WORDS = arpa_text("""
-1.5\t<unk>
-0.9\t</s>
-99\t<s>\t-0.2
-0.6\ta\t-0.3
-0.8\tab\t-0.1
-1.1\tba\t-0.25
-0.7\tbb
""", """
-0.4\t<s> a\t-0.15
-0.3\ta a\t-0.05
-0.5\tab a
-0.2\ta </s>
""", """
-0.1\t<s> a a
""")
CHARACTERS = arpa_text("""
-0.9\t</s>
-99\t<s>\t-0.2
-0.6\ta\t-0.3
-0.8\tb\t-0.1
-1.1\t<space>\t-0.25
""", """
-0.4\t<s> a
-0.3\ta b
-0.2\t<space> b
""")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("other", ["NFC", "NFD"])
def test_words_are_spelled_as_the_alphabet(form, other):
    labels = list(dict.fromkeys(unicodedata.normalize(form, "caf\u00e9 "))) + ["'"]
    lexicon = Lexicon([unicodedata.normalize(other, "caf\u00e9"), "c\u2019a", "x"], Symbols(labels))
    assert len(lexicon.left_out) == 1
    for word, spelling in enumerate((unicodedata.normalize(form, "caf\u00e9"), "c'a")):
        node = 0
        for char in spelling:
            node = lexicon.next_of_one(node)[labels.index(char)]
        assert lexicon.word_of_one(node) == word


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, text in (("words", WORDS), ("characters", CHARACTERS)):
        (folder / f"{name}.arpa").write_text(text)
    return folder


def back_off(model, words):
    """ln P of a sentence and its end by the definition, from the n-grams by name."""
    table = {}
    names = [()]
    for n, order in enumerate(model.orders(), 1):
        names = [(*(names[key // len(model.words)] if n > 1 else ()), model.words[key % len(model.words)])
                 for key in order.keys.tolist()]
        table.update(zip(names, zip(order.log_probs.tolist(), order.backoffs.tolist(), strict=True), strict=True))

    def log_prob(history, word):
        if (*history, word) in table:
            return table[(*history, word)][0]
        if not history:
            return table[("<unk>",)][0] if ("<unk>",) in table else -100 * math.log(10)
        return (table[history][1] if history in table else 0.0) + log_prob(history[1:], word)

    known = ["<s>", *words, "</s>"]
    known = [word if (word,) in table else "<unk>" for word in known]
    return sum(log_prob(tuple(known[max(0, i - model.order + 1):i]), known[i]) for i in range(1, len(known)))


def compare(found, want):
    assert {t.text: t.score for t in found} == pytest.approx(want, abs=1e-5)
    assert all(t.score == pytest.approx(t.acoustic + t.lm) for t in found)


@pytest.mark.parametrize("labels, steps", [(["a", "b", " "], 6), (["\u2581a", "a", "\u2581b", "b"], 5),
                                           (["\u2581", "ab", "a", "b"], 5)])
@pytest.mark.parametrize("oov_penalty", [None, 3.0])
def test_word_model_equals_all_paths(models, labels, steps, oov_penalty):
    path = str(models / "words.arpa")
    model = read_arpa(path)
    known = {"a", "ab", "ba", "bb"}

    def score(words):
        outside = sum(word not in known for word in words)
        if outside and oov_penalty is None:
            return -math.inf
        return 0.7 * back_off(model, words) + 1.3 * len(words) - outside * (oov_penalty or 0.0)

    for seed in range(2):
        logits = exhaustive.random_logits(steps, len(labels) + 1, seed)
        decoder = CtcDecoder(labels, {**UNPRUNED, "lm_path": path, "alpha": 0.7, "beta": 1.3,
                                      "oov_penalty": oov_penalty})
        compare(decoder.decode(logits), exhaustive.text_scores(logits, labels, score))


def test_character_model_equals_all_paths(models):
    path = str(models / "characters.arpa")
    model = read_arpa(path)
    labels = ["a", "b", " "]
    logits = exhaustive.random_logits(6, 4, 5)
    decoder = CtcDecoder(labels, {**UNPRUNED, "lm_path": path, "alpha": 0.7, "beta": 1.3, "lm_type": "character"})
    want = {}
    for label, log_prob in exhaustive.label_probabilities(logits).items():
        symbols = [labels[i].replace(" ", "<space>") for i in label]
        text = " ".join("".join(labels[i] for i in label).split())
        want.setdefault(text, []).append(log_prob + 0.7 * back_off(model, symbols) + 1.3 * len(symbols))
    compare(decoder.decode(logits), {text: np.logaddexp.reduce(scores) for text, scores in want.items()})


def test_without_a_model_texts_are_added_up():
    logits = exhaustive.random_logits(6, 4, 6)
    compare(CtcDecoder(["a", "b", " "], UNPRUNED).decode(logits),
            exhaustive.text_scores(logits, ["a", "b", " "], lambda words: 0.0))


def test_sure_frames_outside_the_lexicon_leave_the_nearest_words(models):
    """The only symbol considered is one that no word allows: all symbols are considered instead."""
    labels, path = ["a", "b", "c", " "], str(models / "words.arpa")
    logits = np.full([7, 5], -12.0)
    for frame, symbol in enumerate([4, 2, 4, 0, 4, 0, 4]):
        logits[frame, symbol] = 12.0
    strict = CtcDecoder(labels, {"lm_path": path, "oov_penalty": None}).decode(logits)[0]
    assert set(strict.text.split()) <= {"a", "ab", "ba", "bb"} and math.isfinite(strict.score)
    free = CtcDecoder(labels, {"lm_path": path, "oov_penalty": 5.0, "symbol_threshold": -1.0}).decode(logits)[0]
    assert free.text == "caa"


def test_weights_can_be_changed(models):
    logits = exhaustive.random_logits(20, 4, 7)
    options = {"lm_path": str(models / "words.arpa"), "oov_penalty": 2.0}
    (other,) = CtcDecoder(["a", "b", " "], options).with_weights(0.2, 3.0).decode(logits)
    (want,) = CtcDecoder(["a", "b", " "], {**options, "alpha": 0.2, "beta": 3.0}).decode(logits)
    assert (other.text, other.score) == (want.text, want.score)


def test_batch_processes_and_single_agree(models):
    decoder = CtcDecoder(["a", "b", " "], {"lm_path": str(models / "words.arpa"), "n_best": 3, "oov_penalty": 1.0})
    lengths = [9, 14, 1, 20]
    logits = np.stack([exhaustive.random_logits(20, 4, seed) for seed in range(4)])
    batch = decoder(logits, np.array(lengths))
    cut = [utterance[:length] for utterance, length in zip(logits, lengths, strict=True)]
    other = decoder.with_weights(0.1, 2.0)
    assert [other.decode(utterance) != n_best for utterance, n_best in zip(cut, batch, strict=True)] == 4 * [True]
    for processes in (1, 2):
        results, others = decode_all([decoder, other], cut, processes)
        assert [[t.score for t in n_best] for n_best in others] == [
            [t.score for t in other.decode(utterance)] for utterance in cut]
        assert [[(t.text, t.score) for t in n_best] for n_best in results] == [
            [(t.text, t.score) for t in n_best] for n_best in batch]


def test_lexicon():
    symbols = Symbols(["a", "b", "c", " "])
    words = ["ab", "abc", "b", "a\u00e4", "ab", "", "cab"]
    lexicon = Lexicon(words, symbols)
    assert lexicon.left_out == ["a\u00e4"]
    nodes = {"": 0}
    for _ in range(3):
        for text, node in list(nodes.items()):
            row = lexicon.next(np.array([node]))[0]
            assert row[3] == 0
            nodes.update({text + "abc"[i]: int(row[i]) for i in range(3)})
    inside = {text for text, node in nodes.items() if node != lexicon.outside}
    assert inside == {"", "a", "ab", "abc", "b", "c", "ca", "cab"}
    assert {text: int(lexicon.word(np.array([node]))[0]) for text, node in nodes.items() if text in inside} == {
        "": -1, "a": -1, "ab": 0, "abc": 1, "b": 2, "c": -1, "ca": -1, "cab": 6}


def test_lexicon_of_any_words_is_their_tree():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(300)] + ["a" * 40, "bcx"]
    lexicon = Lexicon(words, Symbols(list("bca ")))
    beginnings = {word[:end] for word in words[:-1] for end in range(len(word) + 1)}
    assert lexicon.outside == len(beginnings)
    nodes = {"": 0}
    for text in sorted(beginnings - {""}, key=len):
        nodes[text] = lexicon.next_of_one(nodes[text[:-1]])["bca".index(text[-1])]
    assert sorted(nodes.values()) == list(range(len(beginnings)))
    assert {text: lexicon.word_of_one(node) for text, node in nodes.items()} == {
        text: words.index(text) if text in words and text else -1 for text in beginnings}


def test_one_long_word_makes_no_lexicon_large():
    symbols = Symbols(list("abc "))
    words = ["".join("abc"[number // 3**place % 3] for place in range(7)) for number in range(300)]
    peaks = []
    for longest in ("", "ab" * 500):
        tracemalloc.start()
        Lexicon([*words, longest], symbols)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 4 * peaks[0]


@pytest.mark.parametrize("lm_type", ["word", "character"])
def test_what_is_remembered_of_a_language_model_has_an_end(models, monkeypatch, lm_type):
    path = str(models / ("words.arpa" if lm_type == "word" else "characters.arpa"))
    options = {"lm_path": path, "lm_type": lm_type, "oov_penalty": 2.0, "beam_width": 2}
    utterances = [exhaustive.random_logits(20, 4, seed) for seed in range(5)]
    want = [CtcDecoder(["a", "b", " "], options).decode(logits) for logits in utterances]
    monkeypatch.setattr(scorers, "_MAX_SCORES", 5)
    monkeypatch.setattr(scorers, "_MAX_SYMBOL_SCORES", 9)
    decoder = CtcDecoder(["a", "b", " "], options)
    for logits, n_best in zip(utterances, want, strict=True):
        assert [(t.text, t.score) for t in decoder.decode(logits)] == [(t.text, t.score) for t in n_best]
    kept = decoder._scorer._scores if lm_type == "word" else decoder._scorer._row_of
    assert 0 < len(kept) < (8 if lm_type == "word" else 4)


def test_case(models):
    decoder = CtcDecoder(["A", "B", " "], {"lm_path": str(models / "words.arpa"), "lm_case": "upper"})
    assert set(decoder.decode(exhaustive.random_logits(9, 4, 8))[0].text.split()) <= {"A", "AB", "BA", "BB"}


@pytest.mark.parametrize(("labels", "params", "words"), [
    ("ab ", {}, []),
    ("a ", {}, ["left 3 of 4 (75.0 %), such as 'ab'", "WARNING: use a language model whose words consist of"]),
    ("aAB ", {}, ["left 3 of 4 (75.0 %), such as 'ab'", "WARNING: set lm_case to upper, because 3 of them"]),
    ("Aab ", {"lm_case": "upper"}, ["left 3 of 4 (75.0 %), such as 'AB'", "WARNING: set lm_case to lower, because 3"]),
    ("ab ", {"lm_type": "character"}, []),
    ("abcdefgh ", {"lm_type": "character"}, ["symbols 6 of 9 (66.7 %), such as 'c'", "WARNING: use a language model"]),
])
def test_words_that_the_alphabet_cannot_spell_are_counted(models, capsys, labels, params, words):
    name = "characters" if "lm_type" in params else "words"
    path = str(models / f"{name}.arpa")
    decoder = CtcDecoder(list(labels), {**params, "lm_path": path})
    decoder.with_weights(0.1, 0.2)  # says nothing again
    starts = {"left": f"Words of {path} that the alphabet cannot spell, so that no transcript has them:",
              "symbols": f"Symbols of the alphabet that are not in the vocabulary of {path}:"}
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(words)
    for line, expected in zip(said, words, strict=True):
        first, _, rest = expected.partition(" ")
        assert f"{starts.get(first, first)} {rest}" in line


def test_few_words_that_cannot_be_spelled_are_no_warning(tmp_path, capsys):
    words = [f"-1\t{'a' * (number + 1)}" for number in range(99)] + ["-1\tb"]
    (tmp_path / "a.arpa").write_text(arpa_text("\n".join(["-1\t</s>", "-1\t<s>", "-1\t<unk>", *words])))
    CtcDecoder(["a", " "], {"lm_path": str(tmp_path / "a.arpa")})
    said = capsys.readouterr().out
    assert "1 of 100 (1.0 %), such as 'b'" in said and "WARNING" not in said


@pytest.mark.parametrize("labels, params, error, what", [
    (["A", "B", " "], {}, DataError, "lm_case"),
    (["a", "b"], {}, DataError, "neither a space"),
    (["x", " "], {"lm_type": "character"}, DataError, "lm_type='word'"),
    (["a", " "], {"beam_width": 0}, ConfigError, "'decoder_params/beam_width' is 0"),
    (["a", " "], {"oov_penalty": -1.0}, ConfigError, "oov_penalty"),
    (["a", " "], {"beamwidth": 3}, ConfigError, "Did you mean 'beam_width'"),
    (["a", " "], {"lm_path": "missing.arpa"}, DataError, "missing.arpa"),
])
def test_mistakes_are_named(models, labels, params, error, what):
    with pytest.raises(error, match=what):
        CtcDecoder(labels, {"lm_path": str(models / "words.arpa"), **params}, path="decoder_params")
