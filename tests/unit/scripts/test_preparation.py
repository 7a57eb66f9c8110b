"""What the scripts that prepare text share."""

from __future__ import annotations

import gzip
import random

import pytest

from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.data.text2text import preparation
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_plain_and_gzip_files_read_alike(tmp_path):
    content = "ä\r\nb \n\nc"
    (tmp_path / "a").write_bytes(content.encode())
    (tmp_path / "a.gz").write_bytes(gzip.compress(content.encode()))
    for name in ("a", "a.gz"):
        assert list(read_lines(str(tmp_path / name))) == ["ä", "b ", "", "c"]


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a", b"ok\n\xff\n", "a:2: the line is not valid UTF-8"),
    ("a.gz", b"text", "not a valid gzip file"),
    ("a.gz", gzip.compress(b"text" * 1000, mtime=0)[:-9], "not a valid gzip file"),
])
def test_bad_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_lines(str(tmp_path / name)))


@pytest.mark.parametrize("counts", [(3, 5), (5, 3), (0, 1)])
def test_pairs_of_unequal_files(tmp_path, counts):
    one, other = (write(tmp_path / str(i), ["x"] * count) for i, count in enumerate(counts))
    with pytest.raises(DataError, match=f"has {counts[0]} lines, but .* has {counts[1]}"):
        list(preparation.read_pairs(one, other))


def test_a_broken_write_leaves_what_was_there(tmp_path):
    path = write(tmp_path / "a", ["before"])

    def lines():
        yield "after"
        raise UserError("no more")

    with pytest.raises(UserError):
        write_lines(path, lines())
    assert [p.name for p in tmp_path.iterdir()] == ["a"] and (tmp_path / "a").read_text() == "before\n"


def test_cleaning():
    cleaning = preparation.Cleaning(min_length=1, max_length=4, max_ratio=2)
    pairs = [("a b", "c"), ("", "a"), ("a", ""), ("a b c d e", "a b c"), ("a b c", "d"), (" a\tb ", "c  d\u00a0e")]
    assert list(cleaning.filter(pairs)) == [("a b", "c"), ("a b", "c d e")]
    assert (cleaning.kept, cleaning.dropped) == (2, 4)


def test_shuffling_keeps_pairs_together_and_follows_the_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_LINES_AT_ONCE", 7)
    one = [f"ä{i}" * (i % 3) for i in range(50)]
    inputs = [write(tmp_path / "a", one), write(tmp_path / "b", [f"{line}'" for line in one])]

    def shuffled(seed):
        outputs = [str(tmp_path / f"{seed}{side}") for side in "ab"]
        preparation.shuffle_files(inputs, outputs, seed)
        return [list(read_lines(path)) for path in outputs]

    first, second = shuffled(1)
    assert second == [f"{line}'" for line in first] and sorted(first) == sorted(one) and first != one
    assert shuffled(1)[0] == first != shuffled(2)[0]


def test_text_to_pieces_and_back(tmp_path):
    numbers = random.Random(0)
    lines = [" ".join(numbers.choices("der Hund läuft weit weg und schläft".split(), k=8)) for _ in range(200)]
    text = write(tmp_path / "text", [*lines, ""])
    model = train_sentencepiece([text], str(tmp_path / "sub" / "m"), 40)
    pieces, back = str(tmp_path / "pieces"), str(tmp_path / "back")
    assert preparation.encode_file(model, text, pieces) == 201 == preparation.decode_file(model, pieces, back)
    assert list(read_lines(back)) == [*lines, ""]
    vocabulary = [line.split("\t")[0] for line in read_lines(str(tmp_path / "sub" / "m.vocab"))]
    assert vocabulary[:4] == ["<pad>", "</s>", "<s>", "<unk>"] and len(vocabulary) == 40


def test_a_vocabulary_that_is_too_large(tmp_path):
    with pytest.raises(DataError, match="cannot make 5000 pieces .*too high"):
        train_sentencepiece([write(tmp_path / "a", ["a b c"] * 50)], str(tmp_path / "m"), 5000)


def test_bad_text_is_named_by_training(tmp_path):
    (tmp_path / "a").write_bytes(b"a b c\n" * 50 + b"\xff\n")
    with pytest.raises(DataError, match="a:51: the line is not valid UTF-8"):
        train_sentencepiece([str(tmp_path / "a")], str(tmp_path / "m"), 10)


@pytest.mark.parametrize(("error", "code", "message"), [
    (UserError("That will not do."), 2, "Error: That will not do.\n"), (KeyboardInterrupt(), 130, "Interrupted.\n")])
def test_mistakes_and_interrupts_end_a_script_with_one_sentence(error, code, message, capsys):
    def main():
        raise error

    with pytest.raises(SystemExit) as exit_:
        run_script(main)
    assert exit_.value.code == code and capsys.readouterr().err == message


@pytest.mark.parametrize(("words", "message"), [
    (["--tabel=a b"], "There is no option --tabel: did you mean --table?"),
    (["--table=x", "--colunm", "y"], "There is no option --colunm: did you mean --column?"),
    (["--table=x", "--zzz"], "There is no option --zzz; --help lists the options."),
    (["--column=x"], "The following arguments are required: --table; --help lists the options."),
    (["--table=x", "extra"], "Unrecognized arguments: extra; --help lists the options."),
    (["--table=x", "--column=1", "--tab=y"], "There is no option --tab: did you mean --table?"),
])
def test_mistakes_in_options_are_one_sentence(words, message):
    parser = ScriptParser("Reads.")
    parser.add_argument("--table", required=True)
    parser.add_argument("--column")
    with pytest.raises(UserError) as error:
        parser.parse_args(words)
    assert str(error.value) == message
    assert parser.parse_args(["--table", "-", "--column=--colunm"]).column == "--colunm"
