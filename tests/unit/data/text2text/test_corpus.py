"""Tokenised text files and their index."""

from __future__ import annotations

import json
import os
import zlib

import numpy as np
import pytest

from open_seq2seq.data.text2text import corpus as corpus_module
from open_seq2seq.data.text2text import corpus as index_module
from open_seq2seq.data.text2text.corpus import Layout, corpus_of_lines, load_corpus
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import Vocabulary
from open_seq2seq.utils import data_files
from open_seq2seq.utils.errors import DataError
from tests.file_times import keeping_mtime

LETTERS = "abcdefghij"
TOKENIZER = DelimiterTokenizer(Vocabulary(["<PAD>", "</S>", "<S>", "<UNK>", *LETTERS, "é"]))


def random_lines(count, seed=0):
    numbers = np.random.default_rng(seed)
    return [" ".join(numbers.choice(list(LETTERS + "é"), numbers.integers(0, 9))) for _ in range(count)]


def write(path, lines, end="\n"):
    path.write_bytes((end.join(lines) + end).encode())
    return str(path)


@pytest.fixture(params=["memory", "index"])
def index_dir(request, tmp_path):
    return None if request.param == "memory" else str(tmp_path / "index")


@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
def test_tokens_and_lines_of_a_file(tmp_path, monkeypatch, index_dir, chunk):
    monkeypatch.setattr(corpus_module, "_CHUNK_BYTES", chunk)
    lines = random_lines(60)
    corpus = load_corpus(write(tmp_path / "t", lines), TOKENIZER, index_dir)
    assert len(corpus) == 60 and corpus.counts.tolist() == [len(line.split()) for line in lines]
    for number, line in enumerate(lines):
        tokens = corpus.tokens[corpus.offsets[number]:corpus.offsets[number + 1]]
        assert TOKENIZER.decode(tokens) == line == corpus.line(number)


@pytest.mark.parametrize(("content", "expected"), [
    (b"a b\nc", ["a b", "c"]), (b"a b\r\nc\r\n", ["a b", "c"]), (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
    (b"a\n\n\n", ["a", "", ""]), (b"\n", [""]), ("a\u2028b\nc\x0bd\n".encode(), ["a\u2028b", "c\x0bd"]),
])
def test_line_ends(tmp_path, index_dir, content, expected):
    (tmp_path / "t").write_bytes(content)
    tokenizer = CountingTokenizer()
    corpus = load_corpus(str(tmp_path / "t"), tokenizer, index_dir)
    assert [corpus.line(i) for i in range(len(corpus))] == tokenizer.lines == expected


def reference_padding(lines, max_tokens, start, multiple):
    rows = [[2] * start + [TOKENIZER.vocabulary.ids[t] for t in line.split()][:max_tokens] + [1] for line in lines]
    width = -(-max(map(len, rows)) // multiple) * multiple
    return [row + [0] * (width - len(row)) for row in rows], [len(row) for row in rows]


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("max_tokens", [3, 100])
def test_padding_against_a_plain_reference(start, multiple, max_tokens):
    lines = random_lines(40, seed=1)
    corpus = corpus_of_lines(lines, TOKENIZER)
    chosen = np.random.default_rng(2).permutation(40)[:13]
    ids, lengths = corpus.padded(chosen, Layout(max_tokens, 2 if start else None, multiple=multiple))
    expected = reference_padding([lines[i] for i in chosen], max_tokens, start, multiple)
    assert (ids.tolist(), lengths.tolist()) == expected
    assert ids.dtype == lengths.dtype == np.int32


class CountingTokenizer:
    def __init__(self, fingerprint="f"):
        self.vocab_size, self.fingerprint, self.calls = TOKENIZER.vocab_size, fingerprint, 0

    def encode(self, lines, threads=1):
        self.calls += 1
        self.lines = lines
        return TOKENIZER.encode(lines, threads)


def test_the_index_is_used_until_something_changes(tmp_path):
    path, index_dir = write(tmp_path / "t", random_lines(20)), str(tmp_path / "i")
    tokenizer = CountingTokenizer()
    first = load_corpus(path, tokenizer, index_dir)
    again = load_corpus(path, tokenizer, index_dir)
    assert tokenizer.calls == 1 and isinstance(again.tokens.base, np.ndarray)
    np.testing.assert_array_equal(first.tokens, again.tokens)
    write(tmp_path / "t", random_lines(20, seed=9))
    changed = load_corpus(path, tokenizer, index_dir)
    assert tokenizer.calls == 2 and [changed.line(i) for i in range(20)] == random_lines(20, seed=9)
    load_corpus(path, CountingTokenizer("another"), index_dir)
    assert sum(name.endswith(".index") for name in os.listdir(index_dir)) == 2
    assert not [name for name in os.listdir(index_dir) if name.endswith(".tmp")]


def test_an_index_in_a_read_only_folder_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "INDEX_FROM_BYTES", 10)
    path, tokenizer = write(tmp_path / "t", random_lines(20)), CountingTokenizer()
    load_corpus(path, tokenizer)
    monkeypatch.setattr(os, "access", lambda p, mode: False)
    load_corpus(path, tokenizer)
    assert tokenizer.calls == 1


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b[:100] + b[110:], lambda b: b"", lambda b: b"x" * 99])
def test_a_broken_index_is_made_anew(tmp_path, damage):
    path, index_dir, tokenizer = write(tmp_path / "t", random_lines(50)), tmp_path / "i", CountingTokenizer()
    before = np.array(load_corpus(path, tokenizer, str(index_dir)).tokens)
    index = next(index_dir.glob("*.index"))
    index.write_bytes(damage(index.read_bytes()))
    np.testing.assert_array_equal(load_corpus(path, tokenizer, str(index_dir)).tokens, before)
    assert tokenizer.calls == 2


def described(change):
    """Puts another description, with a checksum that fits, at the end of an index."""
    def damage(content):
        end = len(content) - 16
        begin = end - int.from_bytes(content[end:end + 8], "little")
        footer = json.dumps(change(json.loads(content[begin:end]))).encode()
        body = content[:begin] + footer + len(footer).to_bytes(8, "little")
        return body + zlib.crc32(body).to_bytes(8, "little")
    return damage


@pytest.mark.parametrize("damage", [
    described(lambda d: [1]), described(lambda d: {**d, "tokens": -1}), described(lambda d: {**d, "sentences": 1}),
    described(lambda d: {**d, "tokens": 10 ** 9}), described(lambda d: {**d, "sentences": 10 ** 30}),
    described(lambda d: {key: value for key, value in d.items() if key != "tokens"}),
    lambda b: b[:-400].replace(b"\x00" * 8, b"\xff" * 7 + b"\x7f") + b[-400:]])
def test_an_index_that_promises_what_it_does_not_hold_is_made_anew(tmp_path, damage):
    test_a_broken_index_is_made_anew(tmp_path, damage)


ALL = np.arange(50)


def batch_of_all(corpus):
    return corpus.padded(ALL, Layout(100))[0].tolist(), [corpus.line(number) for number in ALL]


@pytest.fixture
def indexed(tmp_path):
    """(text, its index, its batch of all sentences, a function that loads it)."""
    path, folder = write(tmp_path / "t", random_lines(50)), tmp_path / "i"

    def load(**options):
        return load_corpus(path, TOKENIZER, str(folder), **options)

    expected = batch_of_all(load())
    return tmp_path / "t", next(folder.glob("*.index")), expected, load


def test_no_flipped_bit_of_an_index_is_trained_on(indexed):
    _, index, expected, load = indexed
    whole = index.read_bytes()
    for place in range(0, len(whole), 11):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1:])
        assert batch_of_all(load()) == expected
        assert index.read_bytes()[:-400] == whole[:-400]  # made again; a description may be longer or shorter


@pytest.mark.parametrize("change", [lambda index: os.truncate(index, 100), lambda index: os.truncate(index, 0),
                                    lambda index: index.write_bytes(bytes(index.stat().st_size))])
def test_an_index_that_shrinks_or_changes_while_it_is_mapped(indexed, change):
    _, index, expected, load = indexed
    corpus = load()
    change(index)
    assert batch_of_all(corpus) == expected == batch_of_all(load())


def test_an_index_that_goes_away_while_it_is_mapped(indexed):
    text, index, expected, load = indexed
    corpus = load()
    index.unlink()
    assert batch_of_all(corpus) == expected
    text.unlink()
    assert corpus.padded(ALL, Layout(100))[0].tolist() == expected[0]
    with pytest.raises(DataError, match="The text file .* does not exist"):
        corpus.line(0)


def test_a_damaged_index_of_a_text_that_has_changed_since(indexed):
    text, index, _, load = indexed
    corpus = load()
    write(text, random_lines(50, seed=4))
    os.truncate(index, 0)
    for use in (lambda: corpus.padded(ALL, Layout(100)), lambda: corpus.line(0)):
        with pytest.raises(DataError, match="has changed since this run started"):
            use()


def test_a_text_of_equal_size_and_time_is_another(indexed, capsys):
    text, _, expected, load = indexed
    with keeping_mtime(text):
        text.write_bytes(text.read_bytes().replace(b"a", b"b"))
    capsys.readouterr()
    assert batch_of_all(load()) != expected
    assert ": the text has changed" in capsys.readouterr().out


def test_the_same_text_with_other_rights_is_the_same(indexed, capsys):
    text, _, expected, load = indexed
    text.chmod(0o600)
    capsys.readouterr()
    assert batch_of_all(load()) == expected and capsys.readouterr().out == ""


def test_a_thorough_look_sees_a_text_changed_without_a_trace(indexed, capsys, monkeypatch):
    text, _, expected, load = indexed
    identity = index_module.identity_of(str(text))
    text.write_bytes(text.read_bytes().replace(b"a", b"b"))
    for module in (index_module, corpus_module):
        monkeypatch.setattr(module, "identity_of", lambda path: identity)
    assert load().padded(ALL, Layout(100))[0].tolist() == expected[0]
    assert load(thorough=True).padded(ALL, Layout(100))[0].tolist() != expected[0]
    assert "the text has changed" in capsys.readouterr().out


def test_a_text_in_memory_stays_what_it_was(tmp_path):
    path = write(tmp_path / "t", random_lines(50))
    corpus = load_corpus(path, TOKENIZER)
    write(tmp_path / "t", ["x"] * 50)
    assert [corpus.line(number) for number in ALL] == random_lines(50)
    (tmp_path / "t").unlink()
    assert corpus.line(49) == random_lines(50)[49]


@pytest.mark.parametrize("first", [b"", b"a\nb\n"])
def test_a_line_without_end_is_named(tmp_path, monkeypatch, index_dir, first):
    monkeypatch.setattr(corpus_module, "_CHUNK_BYTES", 3)
    for module in (corpus_module, data_files):
        monkeypatch.setattr(module, "MOST_LINE_BYTES", 100)
    (tmp_path / "t").write_bytes(first + b"x" * 1000)
    with pytest.raises(DataError, match=rf"t:{1 + first.count(10)}: the line has more than 100 bytes"):
        load_corpus(str(tmp_path / "t"), TOKENIZER, index_dir)


@pytest.mark.parametrize("make", [lambda lock, victim: lock.symlink_to(victim), lambda lock, victim: os.mkfifo(lock)])
def test_a_lock_is_no_link_and_no_pipe(tmp_path, make):
    path, index_dir = write(tmp_path / "t", random_lines(5)), tmp_path / "i"
    load_corpus(path, TOKENIZER, str(index_dir))
    lock, victim = next(index_dir.glob("*.lock")), tmp_path / "victim"
    victim.write_text("precious")
    lock.unlink()
    next(index_dir.glob("*.index")).unlink()
    make(lock, victim)
    with pytest.raises(DataError, match="is a symbolic link or not a regular file"):
        load_corpus(path, TOKENIZER, str(index_dir))
    assert victim.read_text() == "precious"


def test_unfinished_indexes_are_removed_after_an_hour(tmp_path):
    (tmp_path / "i").mkdir()
    old, new = (tmp_path / "i" / f".tmp-{digit * 16}.new.index" for digit in "12")
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (0, 0))
    load_corpus(write(tmp_path / "t", random_lines(5)), TOKENIZER, str(tmp_path / "i"))
    assert new.exists() and not old.exists()


def test_large_files_have_their_index_beside_them(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "INDEX_FROM_BYTES", 10)
    path = write(tmp_path / "t", random_lines(20))
    load_corpus(path, TOKENIZER)
    assert list((tmp_path / ".os2s_index").glob("t.*.index"))


def test_read_only_folders_have_it_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "INDEX_FROM_BYTES", 10)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data" / "t", random_lines(20))
    access = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: not str(p).startswith(str(tmp_path / "data")) and access(p, mode))
    load_corpus(path, TOKENIZER)
    assert list((tmp_path / "cache").rglob("t.*.index")) and not (tmp_path / "data" / ".os2s_index").exists()


def test_an_index_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="name a writable folder with enough space as index_dir"):
        load_corpus(write(tmp_path / "t", ["a"]), TOKENIZER, str(tmp_path / "file"))


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_invalid_utf8_is_named_by_its_line(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(corpus_module, "_CHUNK_BYTES", chunk)
    (tmp_path / "t").write_bytes(b"a\nb\nc \xff\nd\n")
    with pytest.raises(DataError, match=r"t:3: the line is not valid UTF-8"):
        load_corpus(str(tmp_path / "t"), TOKENIZER)


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load_corpus(str(tmp_path / "none"), TOKENIZER)
    (tmp_path / "empty").write_text("")
    with pytest.raises(DataError, match="is empty"):
        load_corpus(str(tmp_path / "empty"), TOKENIZER)


def test_ids_beyond_the_vocabulary_are_refused(tmp_path):
    tokenizer = CountingTokenizer()
    tokenizer.vocab_size = 6
    with pytest.raises(DataError, match=r"t:2: the token id 8 must be below the vocabulary size, 6"):
        load_corpus(write(tmp_path / "t", ["a b", "a e", "b"]), tokenizer)


def test_large_vocabularies_take_wider_tokens(tmp_path, index_dir):
    tokenizer = DelimiterTokenizer(Vocabulary([f"t{i}" for i in range(70000)]))
    corpus = load_corpus(write(tmp_path / "t", ["t69999 t5"]), tokenizer, index_dir)
    assert corpus.tokens.dtype == np.int32 and corpus.tokens.tolist() == [69999, 5]


def test_half_of_a_surrogate_pair_is_read_as_a_question_mark(model_path):
    tokenizer = SentencePieceTokenizer(model_path)
    cut, marked = (corpus_of_lines([line], tokenizer) for line in ("ein Hund\ud83d", "ein Hund?"))
    assert cut.tokens.tolist() == marked.tokens.tolist() and cut.line(0) == marked.line(0)
