"""Running text cut into chunks: every token is predicted once, and rows continue from batch to batch."""

from __future__ import annotations

import numpy as np
import pytest
import sentencepiece

from open_seq2seq.data import WKTDataLayer
from open_seq2seq.data.contiguous import ContiguousPass, ContiguousStream
from open_seq2seq.data.lm.tokenizers import LMVocabulary
from open_seq2seq.utils.errors import ConfigError, DataError

LINES = ["a b a c", "", "b a rare-word a", "c b @-@ do n 't", "a a b"] * 3


@pytest.fixture
def root(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.txt").write_text("".join(f" {line} \n" for line in LINES), encoding="utf-8")
    return tmp_path


def make(root, mode="eval", **params):
    return WKTDataLayer({"data_root": str(root), "processed_data_folder": str(root / "processed"), "bptt": 4,
                         "batch_size": 2, **params}, mode=mode)


def all_targets(layer):
    batch = layer.make_batch(np.arange(layer.num_examples))
    ids, lengths = batch["target_tensors"]
    return np.concatenate([row[:length] for row, length in zip(ids, lengths, strict=True)])


def test_chunks_cover_the_text_and_each_target_follows_its_source(root):
    layer = make(root, min_count=1)
    expected = [word for line in LINES for word in [*line.split(), "<eos>"]]
    assert [layer.tokenizer.tokens[i] for i in all_targets(layer)] == expected
    batch = layer.make_batch(np.arange(layer.num_examples))
    sources = np.concatenate([row[:n] for row, n in zip(*batch["source_tensors"], strict=True)])
    np.testing.assert_array_equal(sources, [layer.end_id, *all_targets(layer)[:-1]])
    assert layer.text_size() == (len(expected), sum(len(line) + 3 for line in LINES))


def test_the_vocabulary_is_built_once_by_frequency(root):
    layer = make(root, "train")
    counts = layer.tokenizer.vocabulary.counts
    assert layer.tokenizer.tokens[0] == "<unk>" and list(counts[1:]) == sorted(counts[1:], reverse=True)
    (root / "train.txt").unlink()
    (root / "other").mkdir()
    assert make(root).tokenizer.tokens == layer.tokenizer.tokens
    loaded = LMVocabulary.load(str(root / "processed/vocab.txt"))
    assert (loaded.tokens, loaded.counts) == (layer.tokenizer.tokens, counts)
    with pytest.raises(DataError, match=r"train.txt does not exist"):
        make(root, processed_data_folder=str(root / "other"))


OTHER_SETTINGS = {
    "characters": ({"tokenizer": {"type": "characters"}}, "tokenizer/type' is 'characters', but .* built with 'words'"),
    "normalize": ({"normalize": True}, "normalize' is True, but .* built with False"),
    "min_count": ({"min_count": 5}, "min_count' is 5, but .* built with 2: set it to 2, or name another"),
}


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_a_vocabulary_of_other_settings_is_refused(root, name):
    params, expected = OTHER_SETTINGS[name]
    make(root, "train", min_count=2)
    assert make(root).vocab_size == make(root, min_count=2).vocab_size  # neither repeats nor contradicts the setting
    with pytest.raises(ConfigError, match=expected):
        make(root, "train", **params)
    make(root, lm_vocab_file=str(root / "processed/vocab.txt"), **params)
    make(root, "train", **params, processed_data_folder=str(root / "new"))


@pytest.mark.parametrize("content", [
    None, "[1]", "{", "[" * 60000, '{"vocabulary": "of another file", "normalize": true}'], ids=lambda c: repr(c)[:9])
def test_a_vocabulary_of_unknown_settings_is_accepted(root, content):
    before = make(root, "train", min_count=2).vocab_size
    settings = root / "processed/vocab_settings.json"
    settings.unlink() if content is None else settings.write_text(content)
    assert make(root, min_count=1).vocab_size == before


def test_the_share_of_unknown_tokens_is_said(root):
    assert make(root, "train", min_count=1).remarks() == []
    (root / "valid.txt").write_text("a zzz\nb\n", encoding="utf-8")
    (line,) = make(root).remarks()
    assert "valid.txt: 1 (20.0 %) of 5, such as 'zzz' in line 1" in line and make(root).num_unknown == 1
    (root / "valid.txt").write_text("zzz zzz\n" * 50, encoding="utf-8")
    assert "100 (66.7 %)" in make(root).remarks()[0] and "remove it, or name another" in make(root).remarks()[1]
    assert "99 (" not in make(root, small=True).remarks()[0]
    given = make(root, lm_vocab_file=str(root / "processed/vocab.txt"))
    assert "correct lm_vocab_file" in given.remarks()[1]


def test_rare_words_are_unknown_and_text_is_normalized_on_request(root):
    layer = make(root, min_count=4)
    assert "rare-word" not in layer.tokenizer.tokens and 0 in all_targets(layer)
    tokens = make(root, normalize=True, processed_data_folder=str(root / "n")).tokenizer.tokens
    assert "@-@" not in tokens and {"-", "do", "n't"} <= set(tokens)


def test_characters_round_trip(root):
    text = "ein \tZeichen: é 中\n\nzweite  Zeile\n"
    for name in ("train", "valid"):
        (root / f"{name}.txt").write_text(text, encoding="utf-8")
    layer = make(root, tokenizer={"type": "characters"})
    assert layer.ids_to_text(all_targets(layer)) == text
    assert make(root, tokenizer={"type": "characters"}).tokenizer.tokens == layer.tokenizer.tokens


def test_sentencepiece_lines_end_with_eos(root):
    sentencepiece.SentencePieceTrainer.train(
        input=str(root / "train.txt"), model_prefix=str(root / "m"), vocab_size=20, hard_vocab_limit=False, pad_id=0,
        eos_id=1, bos_id=2, unk_id=3, minloglevel=2)
    layer = make(root, tokenizer={"type": "sentencepiece", "model": str(root / "m.model")})
    ids = all_targets(layer)
    assert np.count_nonzero(ids == layer.end_id) == len(LINES) and layer.end_id == 1
    assert [line.strip() for line in layer.ids_to_text(ids).split("\n")[:-1]] == LINES
    assert layer.assets() == {"tokenizer_model": str(root / "m.model")}


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_cost_of_a_chunk_is_its_tokens(root, mode):
    assert set(make(root, mode, batch_size_unit="tokens").costs) == {4} and set(make(root, mode).costs) == {1}


def test_carried_rows_continue(root):
    layer = make(root, "train", carry_state=True)
    assert layer.contiguous and layer.params["shuffle"] is False
    stream = ContiguousStream(layer.num_examples, batch_size=2)
    before = None
    for index in range(stream.micro_batches_per_epoch):
        batch = layer.make_training_batch(stream.examples(index), 0)
        if before is not None:
            np.testing.assert_array_equal(batch["source_tensors"][0][:, 0], before["target_tensors"][0][:, -1])
        before = batch
    single = ContiguousPass(make(root, carry_state=True).num_examples, 1)
    assert [single.batch(i).tolist() for i in range(len(single))] == [[i] for i in range(len(single))]


def test_a_random_start_shifts_all_chunks_by_the_epoch(root):
    layer = make(root, "train", rand_start=True, min_count=1)
    plain = make(root, "train", min_count=1)
    text, starts = all_targets(plain), set()
    for epoch in range(12):
        batch = layer.make_training_batch(np.arange(layer.num_examples), epoch)
        flat = batch["target_tensors"][0].reshape(-1)
        start = next(s for s in range(4) if np.array_equal(flat, text[s:s + len(flat)]))
        starts.add(start)
        assert batch["target_tensors"][1].min() == 4
        np.testing.assert_array_equal(flat, layer.make_training_batch(np.arange(layer.num_examples),
                                                                      epoch)["target_tensors"][0].reshape(-1))
    assert starts == {0, 1, 2, 3}


def test_a_large_text_is_mapped_from_its_index(root, monkeypatch):
    from open_seq2seq.data.lm import wkt

    plain = all_targets(make(root))
    monkeypatch.setattr(wkt, "INDEX_FROM_BYTES", 1)
    layer = make(root)
    assert layer._text.is_indexed and list((root / "processed").glob("valid.txt.*.index"))
    np.testing.assert_array_equal(all_targets(layer), plain)


def test_small_reads_the_beginning(root):
    for name in ("train", "valid"):
        (root / f"{name}.txt").write_text("a b c d\n" * 3000, encoding="utf-8")
    assert len(all_targets(make(root, small=True))) == 200 and make(root, small=True).text_size() is None
    assert make(root, "train", small=True).num_examples == 9004 // 4


def test_prompts_begin_with_the_end_token(root):
    make(root, min_count=1)
    (root / "lines").write_text("a b\n\nc\n", encoding="utf-8")
    layer = make(root, "infer", text_file=str(root / "lines"))
    ids, lengths = layer.make_batch(np.arange(3))["source_tensors"]
    words = [[layer.tokenizer.tokens[i] for i in row[:n]] for row, n in zip(ids, lengths, strict=True)]
    assert words == [["<eos>", "a", "b"], ["<eos>"], ["<eos>", "c"]]
    assert (layer.prompt_text(0), layer.prompt_text(1)) == ("a b", "")
    seeds = make(root, "infer", seed_tokens="a b")
    assert seeds.num_examples == 2 and seeds.prompt_text(1) == "b"
    typed = make(root, "interactive_infer")
    again, _ = typed.make_interactive_batch(["a b"])["source_tensors"]
    np.testing.assert_array_equal(again[0], ids[0])
    np.testing.assert_array_equal(typed.interactive_lengths(["a b", "", "c"]), lengths)


def broken(root, content):
    path = root / "bad.txt"
    path.write_text(content, encoding="utf-8")
    return str(path)


BAD_VOCABULARIES = {
    "double": ("0\t<unk>\t1\n1\t<eos>\t1\n2\ta\t1\n3\ta\t1\n4\n", "'a' twice"),
    "no unk": ("0\ta\t1\n1\t<eos>\t1\n2\n", "no token <unk>"),
    "no eos": ("0\t<unk>\t1\n1\ta\t1\n2\n", "no token <eos>"),
    "cut off": ("0\t<unk>\t1\n1\t<eos>\t1\n", "last line, the number of tokens, is missing"),
    "wrong size": ("0\t<unk>\t1\n1\t<eos>\t1\n7\n", "is 7"),
    "other format": ("the\nof\n", "bad.txt:1: the line must be the id 0"),
    "gap": ("0\t<unk>\t1\n2\t<eos>\t1\n2\n", "bad.txt:2: the line must be the id 1"),
    "empty": ("", "has 0 tokens"),
    "long count": (f"0\t<unk>\t{'9' * 5000}\n1\t<eos>\t1\n2\n", "bad.txt:1: the line must be the id 0"),
    "long size": (f"0\t<unk>\t1\n1\t<eos>\t1\n{'9' * 5000}\n", "bad.txt:3: the line must be the id 2"),
    "more": ("0\t<unk>\t1\n1\t<eos>\t1\n2\n3\tx\t1\n", "bad.txt:4: the line before, the number"),
}


@pytest.mark.parametrize("name", BAD_VOCABULARIES)
def test_bad_vocabularies_are_named(root, name):
    content, expected = BAD_VOCABULARIES[name]
    with pytest.raises(DataError, match=expected):
        make(root, lm_vocab_file=broken(root, content))


BAD_PARAMS = {
    "tokenizer": ({"tokenizer": {"type": "bytes"}}, "must be 'words', 'characters' or 'sentencepiece'"),
    "no model": ({"tokenizer": {"type": "sentencepiece"}}, "tokenizer/model' is missing"),
    "stray": ({"tokenizer": {"type": "words", "model": "x"}}, "tokenizer/model"),
    "normalize": ({"tokenizer": {"type": "characters"}, "normalize": True}, "normalize' is True"),
    "no root": ({"data_root": None}, "data_root' is missing"),
    "bptt": ({"bptt": 0}, "bptt"),
    "long bptt": ({"bptt": 10**6}, "bptt.* from 1 to 100000"),
}


@pytest.mark.parametrize("name", BAD_PARAMS)
def test_bad_parameters_are_named(root, name):
    params, expected = BAD_PARAMS[name]
    with pytest.raises(ConfigError, match=expected):
        make(root, **params)


BAD_DATA = {
    "missing folder": ({"data_root": "/nowhere"}, "does not exist"),
    "missing vocabulary": ({"lm_vocab_file": "/nowhere/vocab.txt"}, "name the model's vocab.txt"),
    "too short": ({"bptt": 1000, "rand_start": True}, "too few for a chunk of bptt 1000 tokens"),
    "unwritable": ({"processed_data_folder": "/proc/none"}, "cannot be written"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_named(root, name):
    params, expected = BAD_DATA[name]
    with pytest.raises(DataError, match=expected):
        make(root, "train", **params)


@pytest.mark.parametrize(("content", "expected"), [(b"a \xff\n", "valid.txt:1"), (b"", "is empty")])
def test_bad_text_is_named(root, content, expected):
    make(root)
    (root / "valid.txt").write_bytes(content)
    with pytest.raises(DataError, match=expected):
        make(root)
