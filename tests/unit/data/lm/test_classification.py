"""Texts with classes, tokenised with the vocabulary of a language model: tables, SST and IMDB."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from open_seq2seq.data import IMDBDataLayer, SSTDataLayer, TextClassificationDataLayer
from open_seq2seq.data.lm.tokenizers import LMVocabulary, count_tokens, review_words, split_raw_words
from open_seq2seq.utils.errors import ConfigError, DataError


@pytest.fixture
def root(tmp_path):
    words = "the film is n't bad good very Paris , . it 's".split()
    LMVocabulary.of_counts(count_tokens([words])).save(str(tmp_path / "lm/vocab.txt"))
    return tmp_path


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make(kind, root, mode="train", **params):
    return kind({"processed_data_folder": str(root / "lm"), "max_length": 8, **params}, mode=mode)


def texts(layer):
    batch = layer.make_batch(np.arange(layer.num_examples))
    words = [[layer.tokens[i] for i in row[:n]] for row, n in zip(*batch["source_tensors"], strict=True)]
    labels = [layer.labels[i] for i in batch["target_tensors"][0]] if "target_tensors" in batch else None
    return [" ".join(row) for row in words], labels


def test_raw_text_is_split_as_in_wikitext():
    assert split_raw_words("It's<br />GREAT: I didn't (really) like 12 films!") == [
        "It", "'s", "GREAT", ":", "I", "did", "n't", "(", "really", ")", "like", "12", "films", "!"]


# What the original gives, with the word tokenizer of NLTK.
KNOWN = set("I It is n't great the film , . ' s 's \" can not do Ms. Smith we 've".split())
REVIEWS = [
    (True, "It's \"GREAT,\" he said.<br /><br />I cannot/will not wait-really... `The film' isn't (5/10).",
     "It 's \" great , \" he said . I can not / will not wait - really . . . ' the film ' is n't ( 5 / 10 ) ."),
    (True, "Ms. Smith's film, etc. Didnt they've seen the '90s? dont",
     "Ms. Smith 's film , etc. did n't they ' ve seen the ' 90s ? do n't"),
    (True, "lemme see, thats more'n 'tis; Á é", "lem me see , that 's more ' n ' tis ; á é"),
    (False, "We've gonna see 1,000 films: \"wow\" -- I'm sure. The end.",
     "we ' ve gon na see 1,000 films : \" wow \" - - I 'm sure . the end .")]


@pytest.mark.parametrize(("periods", "text", "words"), REVIEWS)
def test_reviews_are_split_as_by_nvidias_recipes(periods, text, words):
    assert " ".join(review_words(text, KNOWN, periods)) == words


@pytest.mark.timeout(10)
def test_many_spaces_after_a_period_are_passed_over_once():
    assert review_words(f"a.{' ' * 100_000}b", periods=False) == ["a.", "b"]


@pytest.mark.parametrize(("kind", "words"), [(IMDBDataLayer, "It 's \" good . bad . \""),
                                             (SSTDataLayer, "It 's \" good.bad . \"")])
def test_normalize_splits_the_texts_of_a_corpus_as_reviews(root, kind, words):
    write(root / "t.tsv", "negative\tIt's \"good.bad.\"", "positive\tgood")
    params = {"text_file": str(root / "t.tsv"), "normalize": True, "max_length": 20}
    layer = make(kind, root, **params)
    assert layer.tokenizer.split("It's \"good.bad.\"") == words.replace("It", "it").split()
    assert len(texts(layer)[0][0].split()) == len(words.split()) + 2
    built = make(kind, root, **{**params, "processed_data_folder": str(root / "new"), "min_count": 1})
    assert {*built.tokens} == {*words.split(), "good", "<unk>", "<eos>"}


def test_a_table(root):
    write(root / "t.tsv", "a\tThe film isn't bad .", "b\tIt's very very very very good in Paris.", "a\tzzz")
    layer = make(TextClassificationDataLayer, root, text_file=str(root / "t.tsv"), labels=["a", "b"])
    found, labels = texts(layer)
    assert found == ["<eos> the film is n't bad . <eos>", "<eos> very very good <unk> Paris . <eos>",
                     "<eos> <unk> <eos>"]
    assert labels == ["a", "b", "a"] and layer.lengths.tolist() == [8, 8, 3]
    assert layer.remarks() == [f"Unknown tokens in {root}/t.tsv: 2 (11.8 %) of 17, such as 'in' in line 2"]
    assert layer.assets() == {"vocab.txt": str(root / "lm/vocab.txt")}
    assert make(TextClassificationDataLayer, root, "eval", text_file=str(root / "t.tsv"), labels=["a", "b"],
                truncate="end").num_examples == 3


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_sst_tables(root, ending):
    mark = "," if ending == "csv" else "\t"
    write(root / f"sst/train.{ending}", f"1{mark}good film", f"0{mark}bad film")
    write(root / f"sst/dev.{ending}", f"1{mark}very good")
    layer = make(SSTDataLayer, root, data_root=str(root / "sst"))
    assert texts(layer) == (["<eos> good film <eos>", "<eos> bad film <eos>"], ["positive", "negative"])
    assert texts(make(SSTDataLayer, root, "eval", data_root=str(root / "sst")))[1] == ["positive"]
    write(root / f"sst/test.{ending}", f"-1{mark}very bad")  # GLUE's test set has no labels
    assert texts(make(SSTDataLayer, root, "infer", data_root=str(root / "sst"))) == (["<eos> very bad <eos>"], None)


TREES = ("(4 (2 It) (4 (2 's) (3 (3 good) (2 .))))", "(2 (2 the) (2 film))", "(0 (1 bad) (2 film))")


def test_sst_reads_its_tables_as_text_files_too(root):
    (root / "own.tsv").write_text("0\tvery bad\npositive\tvery good\n1\tgood\n", encoding="utf-8")
    found = texts(make(SSTDataLayer, root, "eval", text_file=str(root / "own.tsv")))
    assert found == (["<eos> very bad <eos>", "<eos> very good <eos>", "<eos> good <eos>"],
                     ["negative", "positive", "positive"])


def test_sst_trees_with_and_without_phrases(root):
    write(root / "sst/train.txt", *TREES)
    whole = texts(make(SSTDataLayer, root, data_root=str(root / "sst")))
    assert whole == (["<eos> it 's good . <eos>", "<eos> bad film <eos>"], ["positive", "negative"])
    found, labels = texts(make(SSTDataLayer, root, data_root=str(root / "sst"), phrases=True))
    assert sorted(zip(found, labels, strict=True)) == sorted([
        ("<eos> good <eos>", "positive"), ("<eos> good . <eos>", "positive"), ("<eos> 's good . <eos>", "positive"),
        ("<eos> it 's good . <eos>", "positive"), ("<eos> bad <eos>", "negative"),
        ("<eos> bad film <eos>", "negative")])


def test_phrases_come_from_trees_even_if_there_are_tables(root):
    write(root / "sst/train.txt", *TREES)
    write(root / "sst/dev.txt", *TREES)
    trees_alone = texts(make(SSTDataLayer, root, data_root=str(root / "sst"), phrases=True))
    for split in ("train", "dev"):
        write(root / f"sst/{split}.csv", "1,good film", "0,bad film")
    assert texts(make(SSTDataLayer, root, data_root=str(root / "sst"), phrases=True)) == trees_alone
    for mode, phrases in (("train", False), ("eval", True)):  # evaluation uses whole sentences
        layer = make(SSTDataLayer, root, mode, data_root=str(root / "sst"), phrases=phrases)
        assert texts(layer)[0] == ["<eos> good film <eos>", "<eos> bad film <eos>"]


def reviews(root):
    for split in ("train", "test"):
        for folder, ratings in (("neg", (1, 2, 3, 4)), ("pos", (7, 8, 9, 10))):
            for number, rating in enumerate(ratings):
                write(root / f"aclImdb/{split}/{folder}/{number}_{rating}.txt", f"{folder} {number} film")
    return str(root / "aclImdb")


def test_imdb_keeps_reviews_for_validation(root):
    folder = reviews(root)
    layers = {mode: make(IMDBDataLayer, root, mode, data_root=folder, num_validation=3)
              for mode in ("train", "eval", "infer")}
    assert [layers[mode].num_examples for mode in ("train", "eval", "infer")] == [5, 3, 8]
    ratings = make(IMDBDataLayer, root, data_root=folder, num_validation=3, binary=False)
    assert ratings.num_classes == 10 and "target_tensors" not in layers["infer"].make_batch(np.arange(1))
    rows = {mode: layers[mode]._read_rows() for mode in ("train", "eval")}
    names = [row[0] for mode in rows for _, row in rows[mode]]
    assert len(set(names)) == 8
    assert all((label == "positive") == row.startswith("pos") for mode in rows for _, (row, label) in rows[mode])


def test_training_without_a_language_model_builds_the_vocabulary(root):
    write(root / "sst/train.csv", "1,Good and good; it's good", "0,bad and bad")
    write(root / "sst/dev.csv", "0,bad but good")
    own = {"data_root": str(root / "sst"), "processed_data_folder": str(root / "own"), "min_count": 2}
    with pytest.raises(DataError, match="where training writes it"):
        make(SSTDataLayer, root, "eval", **own)
    made = make(SSTDataLayer, root, **own)
    assert list(made.tokens) == ["<unk>", "and", "good", "bad", "<eos>"]
    assert make(SSTDataLayer, root, "eval", **own).tokens == made.tokens
    assert texts(make(SSTDataLayer, root, "eval", **own))[0] == ["<eos> bad <unk> good <eos>"]


def test_no_vocabulary_is_built_from_a_wrong_column_nor_with_line_breaks(root):
    (root / "own.csv").write_text('0,"one\ntwo"\n1,three\n', encoding="utf-8")
    own = {"text_file": str(root / "own.csv"), "labels": ["0", "1"], "processed_data_folder": str(root / "own"),
           "tokenizer": {"type": "characters"}}
    with pytest.raises(DataError, match=r"the label .one\\ntwo. is not one"):
        make(TextClassificationDataLayer, root, label_column=2, text_column=1, **own)
    assert not (root / "own/vocab.txt").exists()
    made = make(TextClassificationDataLayer, root, **own)
    assert "\n" not in made.tokens and make(TextClassificationDataLayer, root, **own).tokens == made.tokens


BAD = {
    "no root": (SSTDataLayer, {}, ConfigError, "data_root' is missing"),
    "no table": (TextClassificationDataLayer, {"labels": ["a", "b"]}, ConfigError, "text_file' is missing"),
    "no vocabulary": (SSTDataLayer, {"data_root": "sst", "lm_vocab_file": "/nowhere"}, DataError, "name the model's"),
    "unnamed vocabulary": (SSTDataLayer, {"data_root": "sst", "processed_data_folder": None}, ConfigError,
                           "lm_vocab_file' is missing"),
    "no files": (SSTDataLayer, {"data_root": "empty"}, DataError, "has none of the files train.csv"),
    "label": (SSTDataLayer, {"data_root": "label"}, DataError, "train.csv:1: the label is '7'"),
    "tree": (SSTDataLayer, {"data_root": "tree"}, DataError, "train.txt:2: the line must be a tree"),
    "two trees": (SSTDataLayer, {"data_root": "two"}, DataError, "train.txt:1: .* write one tree per line"),
    "text after a tree": (SSTDataLayer, {"data_root": "after"}, DataError, "train.txt:1: .* write one tree per line"),
    "no trees": (SSTDataLayer, {"data_root": "sst", "phrases": True}, DataError, "has no train.txt with trees"),
    "phrases of a table": (SSTDataLayer, {"text_file": "own.csv", "phrases": True}, ConfigError, "is a table"),
    "imdb": (IMDBDataLayer, {"data_root": "empty"}, DataError, "give the unpacked folder aclImdb"),
    "all validation": (IMDBDataLayer, {"data_root": "aclImdb", "num_validation": 8}, DataError, "lower num_validation"),
    "rating": (IMDBDataLayer, {"data_root": "names", "binary": False, "num_validation": 1}, DataError, "ID_RATING.txt"),
    "length": (SSTDataLayer, {"data_root": "sst", "max_length": 2}, ConfigError, "at least 3"),
    "column": (SSTDataLayer, {"data_root": "sst", "text_column": None}, ConfigError, "text_column' and"),
    "classes": (SSTDataLayer, {"data_root": "sst", "labels": ["a", "b"]}, ConfigError, "Unknown parameter .*labels"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(root, name):
    kind, params, error, expected = BAD[name]
    reviews(root)
    write(root / "sst/train.csv", "1,good", "0,bad")
    write(root / "label/train.csv", "7,good")
    write(root / "tree/train.txt", TREES[0], "(3 (2 It) works")
    write(root / "two/train.txt", f"{TREES[0]} {TREES[2]}")
    write(root / "after/train.txt", f"{TREES[0]} .")
    (root / "empty").mkdir()
    for folder in ("pos", "neg"):
        write(root / f"names/train/{folder}/a.txt", "good")
    if "data_root" in params:
        params = {**params, "data_root": str(root / params["data_root"])}
    with pytest.raises(error, match=expected):
        make(kind, root, **params)


@pytest.mark.parametrize(("text", "words"), [
    ("अच्छी फ़िल्म, बहुत!", ["अच्छी", "फ़िल्म", ",", "बहुत", "!"]),  # vowel signs and a nukta
    ("می‌خواهم", ["می‌خواهم"]),  # a joiner within the word
    ("x̂ = ŷ", ["x̂", "=", "ŷ"]), ("❤️ 👍🏽", ["❤", "👍", "🏽"]), ("a ̂ b", ["a", "b"]),
])
def test_combining_marks_belong_to_their_words(text, words):
    assert split_raw_words(text) == words


HINDI = "अच्छी फ़िल्म"


def fitted(root, text, *tokens):
    LMVocabulary.of_counts(count_tokens([tokens])).save(str(root / "lm/vocab.txt"))
    write(root / "t.tsv", f"a\t{text}")
    return texts(make(TextClassificationDataLayer, root, "eval", text_file=str(root / "t.tsv"), labels=["a", "b"],
                      use_start_token=False, max_length=30))[0][0].removesuffix(" <eos>")


@pytest.mark.parametrize(("text", "tokens", "expected"), [
    (HINDI, HINDI.split(), HINDI), (unicodedata.normalize("NFD", "Café"), ["café"], "café"),
    ("café", [unicodedata.normalize("NFD", "café")], unicodedata.normalize("NFD", "café")),
    ("Don\u2019t, it\u2019s", ["do", "n't", "it", "'s", ","], "do n't , it 's"),
    # A vocabulary of another tokenizer: marks and apostrophes are tokens.
    ("फ़िल्", ["फ", "़", "ि", "ल", "्"], "फ ़ ि ल ्"), ("don\u2019t", ["don", "\u2019", "t", "n't"], "don \u2019 t"),
])
def test_a_text_is_split_as_that_of_the_vocabulary(root, text, tokens, expected):
    assert fitted(root, text, *tokens) == expected


def test_a_new_vocabulary_has_each_word_in_one_form(tmp_path):
    nfd = unicodedata.normalize("NFD", "café")
    write(tmp_path / "t.tsv", "a\tcafé l\u2019a", f"b\t{nfd} l'a")
    layer = make(TextClassificationDataLayer, tmp_path, text_file=str(tmp_path / "t.tsv"), labels=["a", "b"],
                 min_count=1)
    assert sorted(layer.tokens) == sorted(["<unk>", "<eos>", "café", "l", "'", "a"])
    assert texts(layer)[0] == ["<eos> café l ' a <eos>"] * 2 and layer.remarks() == []


def test_labels_may_be_in_another_unicode_form(root):
    write(root / "t.tsv", f"{unicodedata.normalize('NFD', 'café')}\tgood", "b\tbad")
    assert texts(make(TextClassificationDataLayer, root, text_file=str(root / "t.tsv"), labels=["café", "b"]))[1] == [
        "café", "b"]
