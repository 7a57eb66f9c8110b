"""Readers of a user's files: no waiting, bounds, and words for people."""

from __future__ import annotations

import gzip
import io
import os
import threading
from types import SimpleNamespace

import pytest

from open_seq2seq.data.sentencepiece_models import load_sentencepiece
from open_seq2seq.data.speech2text.alphabet import make_alphabet
from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.data.tables import Table
from open_seq2seq.data.text2text.corpus import load_corpus
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer
from open_seq2seq.data.text2text.vocabulary import Vocabulary
from open_seq2seq.decoding.ctc.logits_file import read_logits
from open_seq2seq.decoding.n_best import read_n_best
from open_seq2seq.decoding.ngram import load_language_model
from open_seq2seq.decoding.ngram.estimation import read_transcripts
from open_seq2seq.utils import data_files, given_files
from open_seq2seq.utils.data_files import read_data, read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError

READERS = {
    "lines": lambda path: list(read_lines(path)),
    "vocabulary": lambda path: Vocabulary.load(path, False),
    "alphabet": make_alphabet,
    "sentencepiece": load_sentencepiece,
    "text": lambda path: load_corpus(path, DelimiterTokenizer(Vocabulary("PESUab"))),
    "indexed text": lambda path: load_corpus(path, DelimiterTokenizer(Vocabulary("PESUab")), path + "-index"),
    "csv": lambda path: read_manifests([path + ".csv"], None, True),
    "json": lambda path: read_manifests([path + ".json"], None, True),
    "list of inference": lambda path: read_manifests([path + ".csv"], None, False),
    "arpa": load_language_model,
    "packed arpa": lambda path: load_language_model(path + ".gz"),
    "logits": read_logits,
    "pickled logits": lambda path: read_logits(path + ".pickle"),
    "n-best list": read_n_best,
    "text of a language model": lambda path: list(read_transcripts(path)),
}


def put(path, make):
    """Makes the same thing under all names that readers give the file."""
    for suffix in ("", ".csv", ".json", ".gz", ".pickle"):
        make(f"{path}{suffix}")
    return str(path)


THINGS = {
    "nothing": lambda path: None,
    "a folder": os.mkdir,
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: os.symlink("/dev/zero", path),
    "a link to itself": lambda path: os.symlink(path, path),
    "a file of the kernel that cannot be read": lambda path: os.symlink("/proc/self/mem", path),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_at_once(tmp_path, reader, thing):
    path = put(tmp_path / "x", THINGS[thing])
    with pytest.raises(DataError, match=r"x\S* (does not exist|cannot be read|is empty|contains no|holds? no|has no)"):
        READERS[reader](path)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "n" * 300])
@pytest.mark.parametrize("reader", [name for name in READERS if "indexed" not in name])
def test_names_that_no_file_has(tmp_path, reader, name):
    with pytest.raises(DataError, match="does not exist|File name too long") as error:
        READERS[reader](f"{tmp_path}/{name}")
    str(error.value).encode()


@pytest.mark.parametrize("reader", ["lines", "vocabulary", "csv", "arpa", "packed arpa", "n-best list", "text",
                                    "indexed text", "alphabet"])
def test_a_line_without_end_takes_no_memory(tmp_path, reader):
    def write(name):
        with (gzip.open if name.endswith(".gz") else open)(name, "wb") as file:
            file.write(bytes(data_files.MOST_LINE_BYTES + (9 << 20)))

    with pytest.raises(DataError, match="x.*:1: the line has more than 16,777,216 bytes"):
        READERS[reader](put(tmp_path / "x", write))


@pytest.mark.parametrize("name", ["x.gz", "x"])  # recognised by its name, and by its first bytes
def test_compressed_text_is_read_like_plain_text(tmp_path, name):
    def put(text):
        for suffix in ("", ".csv", ".json"):
            (tmp_path / f"plain{suffix}").write_bytes(text)
            base = f"x{suffix}.gz" if name == "x.gz" else f"x{suffix}"
            (tmp_path / base).write_bytes(gzip.compress(text))
        return str(tmp_path / "plain"), str(tmp_path / "x")

    def both(read, text, suffix=""):
        plain, packed = put(text)
        found = [read(path + suffix + end) for path, end in ((plain, ""), (packed, ".gz" if name == "x.gz" else ""))]
        assert found[0] == found[1] and found[0]

    both(lambda path: Vocabulary.load(path, False).tokens, b"a\nb\n")
    both(lambda path: make_alphabet(path).labels, b"a\nb\n")
    both(lambda path: list(read_transcripts(path)), b"a b\nb\n")
    both(lambda path: [u.text for u in read_manifests([path], None, True)],
         b"wav_filename,transcript\na.wav,b c\n", ".csv")
    both(lambda path: [u.text for u in read_manifests([path], None, True)],
         b'{"audio_filepath": "a.wav", "text": "b c"}\n', ".json")
    both(lambda path: [u.name for u in read_manifests([path], None, False)],
         b"wav_filename,transcript\na.wav,b c\n", ".csv")
    both(lambda path: Table(path, [2, 1]).rows().__next__(), b"a,b\n", ".csv")
    for folder in (None, str(tmp_path / "index")):
        both(lambda path, folder=folder: [load_corpus(path, DelimiterTokenizer(Vocabulary("PESUab")), folder).line(1)],
             b"a b\nb a\n")
    both(lambda path: list(read_lines(given_files.one_text([path, path]))), b"a b\nb")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_mark_of_utf8_is_no_part_of_any_text(tmp_path, end):
    def text(name, *lines):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + "".join(line + end for line in lines).encode())
        return str(tmp_path / name)

    assert Vocabulary.load(text("v", "ä", "b"), False).tokens[4:] == ("ä", "b")
    assert Vocabulary.load(text("v", "<PAD>", "</S>", "<S>", "<UNK>", "b")).tokens[0] == "<PAD>"
    assert make_alphabet(text("a", "ä", "b")).labels == ["ä", "b"]
    assert read_manifests([text("l.csv", "wav_filename,transcript", "a.wav,b")], None, True)[0].text == "b"
    assert read_n_best(text("n", "wav_filename\trank\tscore\tacoustic\tlm\ttranscript")) == {}
    assert load_language_model(text("m", "\\data\\", "ngram 1=3", "\\1-grams:", "-1 <s>", "-1 </s>", "-1 a",
                                    "\\end\\")).words == ["<s>", "</s>", "a"]
    assert list(read_transcripts(text("t", "a b", "c"))) == ["a b", "c"]


def test_files_that_memory_does_not_hold(tmp_path):
    (tmp_path / "x").write_bytes(bytes(100))
    assert read_data(str(tmp_path / "x"), most_bytes=100) == bytes(100)
    with pytest.raises(DataError, match="has more than 99 bytes"):
        read_data(str(tmp_path / "x"), most_bytes=99)


@pytest.mark.parametrize(("name", "text"), [("é.wav", "é.wav"), (os.fsdecode(b"caf\xe9.wav"), "caf\\xe9.wav"),
                                            ("a\ud800\udce9", "a\\ud800\\udce9"), ("a\0", "a\\x00")])
def test_names_are_shown_so_that_they_can_be_written(name, text):
    assert shown(name) == text
    shown(name).encode()


def test_a_pipe_that_is_given_is_read_when_somebody_writes(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with monkeypatch.context() as patch, pytest.raises(DataError, match="is a pipe to which no process writes"):
        patch.setattr(given_files, "_PATIENCE", 0.3)
        given_files.one_text([str(pipe)])
    monkeypatch.setattr(given_files, "_PATIENCE", 60.0)
    writer = threading.Thread(target=lambda: pipe.write_text("a\nb\n"), daemon=True)
    writer.start()
    with open(given_files.one_text([str(pipe)]), encoding="utf-8") as file:
        assert file.read() == "a\nb\n"
    writer.join()


@pytest.mark.parametrize("files", [["-"], ["-", "b"]])
def test_messages_name_standard_input_and_not_its_copy(tmp_path, monkeypatch, files):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").write_bytes(b"b\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n")))
    assert shown(given_files.one_text(files)) == " + ".join(files).replace("-", "standard input")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n\xff\n")))
    with pytest.raises(DataError, match="^standard input:2: the line is not valid UTF-8"):
        list(read_lines(given_files.one_text(files)))


def test_a_given_text_is_utf8():
    (path,) = given_files.given_texts(["café"])
    assert list(read_lines(path)) == ["café"]
    with pytest.raises(UserError, match=r"^The text caf\\xe9 on the command line is not UTF-8: set the terminal"):
        given_files.given_texts(["caf\udce9"])


def test_given_devices_are_refused():
    with pytest.raises(DataError, match="/dev/zero cannot be read: it is a device"):
        given_files.one_text(["/dev/zero"] * 2)
