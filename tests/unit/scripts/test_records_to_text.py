"""scripts/records_to_text.py: TFRecord files of subtokens become the sentences that they were made of."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from open_seq2seq.data.text2text.subtokens import load_subtokens, text_of
from open_seq2seq.utils.errors import DataError, UserError
from scripts.records_to_text import main

SUBTOKENS = ["'<pad>'", "'<EOS>'", "'the_'", "'er'", "', _'",
             *(f"'{letter}'" for letter in "\\_u;0123456789' .,aeflrtxyzÄ")]
PAIRS = [("the letter, a ", "Ärzte 'retten'..."), ("x_y\\u é 漢字 5", "a\u2028b"), ("  , f", "…")]


def encoded(text: str, subtokens: list[str]) -> list[int]:
    """The ids of a sentence by the rules of Tensor2Tensor: words of one kind of character, the longest subtokens."""
    alphabet = {letter for subtoken in subtokens for letter in subtoken}
    words = ["".join(word) for _, word in itertools.groupby(text, lambda one: unicodedata.category(one)[0] in "LN")]
    ids = []
    for number, word in enumerate(words):
        if word == " " and 0 < number < len(words) - 1:
            continue
        escaped = word.replace("\\", "\\\\").replace("_", "\\u")
        rest = "".join(one if one in alphabet and one != "\n" else f"\\{ord(one)};" for one in escaped) + "_"
        while rest:
            found = max((one for one in subtokens[2:] if rest.startswith(one)), key=len)
            ids.append(subtokens.index(found))
            rest = rest[len(found):]
    return [*ids, 1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vocab").write_text("\n".join(SUBTOKENS) + "\n", encoding="utf-8")
    subtokens = load_subtokens("vocab")
    for part in range(2):
        write(f"data-{part}", [{"inputs": encoded(source, subtokens), "targets": encoded(target, subtokens)}
                               for source, target in PAIRS[part::2]])
    return tmp_path


def write(path, records):
    with tf.io.TFRecordWriter(path) as writer:
        for lists in records:
            features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)) for name, ids in lists.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def convert(*records):
    main(["--vocab_file=vocab", "--source=out/source.txt", "--target=out/target.txt", *records])


def test_sentences_are_read_back(folder):
    convert("data-0", "data-1")
    lines = [(folder / f"out/{side}.txt").read_text(encoding="utf-8").split("\n") for side in ("source", "target")]
    pairs = [*PAIRS[::2], *PAIRS[1::2]]
    assert list(zip(*lines, strict=True)) == [*((one, other.replace("\u2028", " ")) for one, other in pairs), ("", "")]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.text("ab _u\\;1,.'Äé漢\n", min_size=1))
def test_every_sentence_survives(text):
    subtokens = ["<pad>", "<EOS>", *(one[1:-1] for one in SUBTOKENS[2:]), "b"]
    assert text_of(encoded(text, subtokens), subtokens) == " ".join(text.splitlines())


@pytest.mark.parametrize(("records", "message"), [
    ([{"inputs": [2, 1], "targets": [99, 1]}], "record 1 contains an id beyond the 33 subtokens"),
    ([{"inputs": [2, 1], "targets": [2]}, {"inputs": [2]}], "record 2 has no inputs or no targets"),
    (b"text that is no record", "record 1: the file ends within"), (b"x", "record 1: the file ends within"),
    (b"", "is empty"), (None, "does not exist")])
def test_other_files_are_one_sentence(folder, records, message):
    if isinstance(records, bytes):
        (folder / "bad").write_bytes(records)
    elif records is not None:
        write("bad", records)
    with pytest.raises(DataError, match=message) as error:
        convert("data-0", "bad")
    assert "bad" in str(error.value) and not (folder / "out/source.txt").exists()


def test_a_damaged_record_is_named(folder):
    whole = (folder / "data-0").read_bytes()
    for content, message in ((whole[:-3], "2: the file ends within"), (whole[:-9] + b"x" + whole[-8:], "2 is damaged")):
        (folder / "data-1").write_bytes(content)
        with pytest.raises(DataError, match=f"data-1, record {message}"):
            convert("data-1")


def test_mistakes_in_names(folder):
    (folder / "vocab").write_text("the\n")
    with pytest.raises(DataError, match="vocab, line 1: the is not a subtoken in quotes"):
        convert("data-0")
    with pytest.raises(UserError, match="same file as the input"):
        main(["--vocab_file=vocab", "--source=data-0", "--target=t", "data-0"])
    with pytest.raises(UserError, match="Two outputs would be the same file"):
        main(["--vocab_file=vocab", "--source=t", "--target=./t", "data-0"])
