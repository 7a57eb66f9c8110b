"""The data layer of several corpora."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data import MultiCorpusDataLayer
from open_seq2seq.data.text2text.several_corpora import repetitions, temperature_shares
from open_seq2seq.utils.errors import ConfigError, DataError


class Files:
    """A folder with two corpora: letters → reversed letters (20 pairs), and letters → capitals (5 pairs)."""

    def __init__(self, folder):
        self.folder = folder
        self.sources = [" ".join("abcdefg"[:i % 7 + 1]) for i in range(20)]
        self.corpora = {
            "back": {"source_file": self.write("a.src", self.sources),
                     "target_file": self.write("a.tgt", [line[::-1] for line in self.sources]),
                     "tgt_vocab_file": self.write("small", "abcdefg")},
            "large": {"source_file": self.write("b.src", self.sources[:5]),
                      "target_file": self.write("b.tgt", [line.upper() for line in self.sources[:5]]),
                      "tgt_vocab_file": self.write("capitals", "ABCDEFGHI")}}

    def write(self, name, lines):
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(self.folder / name)

    def layer(self, changes=None, **changed):
        corpora = {name: {**entry, **(changes or {}).get(name, {})} for name, entry in self.corpora.items()}
        return MultiCorpusDataLayer({"corpora": corpora, "src_vocab_file": str(self.folder / "small"), "max_length": 9,
                                     "special_tokens_already_in_vocab": False, "use_start_token": False,
                                     "mode": "train", "batch_size": 4, **changed})


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def share(layer, language):
    return np.mean([layer.language_of(example) == language for example in range(layer.num_examples)])


@pytest.mark.parametrize(("changes", "options", "shares"), [
    ({}, {}, 0.2), ({"back": {"ratio": 1}, "large": {"ratio": 1}}, {}, 0.5),
    ({"back": {"ratio": 1}, "large": {"ratio": 3}}, {}, 0.75), ({}, {"temperature": 2.0}, 1 / 3)])
def test_shares(files, changes, options, shares):
    layer = files.layer(changes, **options)
    assert share(layer, "large") == pytest.approx(shares, rel=0.0101)
    places = [layer.describe_example(example) for example in range(layer.num_examples)]
    counts = np.unique(places, return_counts=True)[1]
    assert sorted(set(counts)) == sorted(set(layer.repetitions.values()))  # all examples of a corpus equally often
    assert files.layer(changes, **options, mode="eval").num_examples == 25


def test_lines_that_are_cut_are_named_for_each_corpus(files):
    lines = files.layer(mode="eval", max_length=6).cut_remark().splitlines()
    assert [line.rpartition("is read: ")[2] for line in lines] == [
        f"5 of 20 lines, the first is {files.folder}/a.src:6"]
    lines = files.layer(mode="eval", max_length=4).cut_remark().splitlines()
    assert [line.rpartition("/")[2] for line in lines] == ["a.src:4", "b.src:4"]


def test_a_batch_holds_rows_of_all_corpora(files):
    layer = files.layer({"back": {"ratio": 1}, "large": {"ratio": 1}})
    examples = np.array([39, 3, 21, 0, 24])
    batch = layer.make_batch(examples)
    (sources, source_lengths), (targets, target_lengths, languages) = batch["source_tensors"], batch["target_tensors"]
    assert batch["ids"].tolist() == examples.tolist() and languages.tolist() == [1, 0, 1, 0, 1]
    for row, example in enumerate(examples):
        language = layer.languages[languages[row]]
        line = files.sources[example if example < 20 else (example - 20) % 5]
        want = line[::-1] if language == "back" else line.upper()
        assert layer.language_of(example) == language and layer.reference_text(example) == want
        assert layer.source_to_text(sources[row]) == line and layer.ids_to_text(targets[row], language) == want
        assert [source_lengths[row], target_lengths[row]] == layer.lengths[example].tolist()
        assert not sources[row, source_lengths[row]:].any() and not targets[row, target_lengths[row]:].any()


def test_inference_needs_no_corpora_files(files):
    changes = {name: {"source_file": None, "target_file": None} for name in files.corpora}
    layer = files.layer(changes, mode="infer", source_file=files.write("test", ["a b", "", "c"]))
    assert layer.lengths.tolist() == [3, 1, 2] and "target_tensors" not in layer.make_batch(np.arange(3))
    assert layer.target_vocab_sizes == {"back": 11, "large": 13}
    given = MultiCorpusDataLayer.params_for_files([files.write("lines", ["d"])])
    assert files.layer(changes, mode="infer", **given).num_examples == 1
    interactive = files.layer(changes, mode="interactive_infer").make_interactive_batch(["a b"])
    assert interactive["source_tensors"][0].tolist() == [[4, 5, 1]]


def test_languages_of_one_vocabulary_have_all_that_one_decoder_needs(files):
    changes = {"large": {"tgt_vocab_file": str(files.folder / "small")}}
    layer = files.layer(changes, mode="infer", source_file=files.write("test", ["a X b", "c"]))
    assert layer.source_tokens(0) == ["a", "X", "b"] and layer.target_tokens([4, 3, 1]) == ["a", "<UNK>"]
    assert layer.tokens_to_text(["a", "X"]) == "a X" and layer.tokenizers[1].vocab_size == layer.target_vocab_size
    typed = files.layer(changes, mode="interactive_infer")
    batch = typed.make_scoring_batch(["a b"], ["c"])
    assert batch["target_tensors"][0].tolist() == [[6, 1]]
    tf.nest.assert_same_structure(batch, typed.scoring_signature)


def test_checkpoints_keep_the_vocabularies(files):
    layer = files.layer()
    assets = layer.assets()
    assert assets == {"src_vocab_file": str(files.folder / "small"),
                      "corpora_back_tgt_vocab_file": str(files.folder / "small"),
                      "corpora_large_tgt_vocab_file": str(files.folder / "capitals")}
    moved = MultiCorpusDataLayer.params_with_assets(layer.params, {name: f"copy/{name}" for name in assets})
    assert moved["src_vocab_file"] == "copy/src_vocab_file"
    assert moved["corpora"]["large"] == {**files.corpora["large"],
                                         "tgt_vocab_file": "copy/corpora_large_tgt_vocab_file"}
    assert set(layer.fingerprints) == {f"{name} {side}_file" for name in ("back", "large")
                                       for side in ("source", "target")}


def test_one_decoder_needs_one_vocabulary(files):
    with pytest.raises(ConfigError, match=r"different vocabularies \(back, large\).*MultiDecoderModel"):
        _ = files.layer().target_vocab_size
    capitals = {"large": {"tgt_vocab_file": str(files.folder / "small")}}
    assert files.layer(capitals).target_vocab_size == 11


def test_several_corpora_of_a_language(files):
    same = {"language": "x", "tgt_vocab_file": str(files.folder / "small")}
    layer = files.layer({"back": same, "large": same})
    assert layer.languages == ["x"] and not layer.make_batch(np.array([0, 24]))["target_tensors"][2].any()


def test_examining_reports_shares(files):
    lines = files.layer({"back": {"ratio": 1}, "large": {"ratio": 1}}).examine()
    assert "back: 20 examples, read 1×, 50.0% of an epoch" in lines
    assert "large: 5 examples, read 4×, 50.0% of an epoch" in lines


@pytest.mark.parametrize(("changes", "options", "error", "message"), [
    ({"large": {"target_file": "short"}}, {}, DataError, r"b\.src has 5 lines, but .*short has 1"),
    ({"large": {"target_file": None}}, {}, ConfigError, "corpora/large/target_file' is missing"),
    ({"large": {"target": "x"}}, {}, ConfigError, "Unknown parameter 'data_layer_params/corpora/large/target'"),
    ({"large": {"ratio": 2}}, {}, ConfigError, "corpora/back/ratio' is missing: give a ratio to all"),
    ({"large": {"ratio": 0}}, {}, ConfigError, "ratio' is 0 but has to be above 0"),
    ({"large": {"ratio": 2}}, {"temperature": 5}, ConfigError, "temperature' and '.*large/ratio' are both set"),
    ({"large": {"language": "back"}}, {}, ConfigError, "but the corpus 'back' of the same language has"),
    ({"large": {"language": "a/b"}}, {}, ConfigError, "must consist of letters, digits"),
    ({"large": {"tgt_vocab_file": None}}, {}, ConfigError, "tgt_vocab_file' is missing"),
    ({}, {"corpora": {}}, ConfigError, "corpora' is empty"),
    ({}, {"corpora": {"back": "x"}}, ConfigError, "corpora/back' must be a dict"),
    ({}, {"mode": "infer"}, ConfigError, "source_file' is missing: name the text file"),
])
def test_mistakes(files, changes, options, error, message):
    short = files.write("short", ["A"])
    changes = {name: {key: short if value == "short" else value for key, value in entry.items()}
               for name, entry in changes.items()}
    with pytest.raises(error, match=message):
        files.layer(changes, **options)


@pytest.mark.parametrize(("sizes", "shares", "expected"), [
    ([100, 50], [1, 1], [1, 2]), ([100, 50], [2, 1], [1, 1]), ([100, 100], [3, 2], [3, 2]), ([7], [5], [1])])
def test_whole_numbers_of_passes(sizes, shares, expected):
    assert repetitions(sizes, shares) == expected


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_met(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(50, 100000, random.integers(2, 5))
    shares = random.uniform(0.1, 1.0, len(sizes))
    found = sizes * repetitions(sizes, shares)
    np.testing.assert_allclose(found / found.sum(), shares / shares.sum(), rtol=0.0101)


def test_temperatures():
    sizes = [10000, 100, 1]
    np.testing.assert_allclose(temperature_shares(sizes, 1.0), np.array(sizes) / 10101)
    np.testing.assert_allclose(temperature_shares(sizes, 2.0), np.array([100, 10, 1]) / 111)
    np.testing.assert_allclose(temperature_shares(sizes, 1000.0), np.full(3, 1 / 3), atol=2e-3)
