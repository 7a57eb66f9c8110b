from __future__ import annotations

import json
import os

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.utils.errors import DataError


def rows_of(*entries, needs_text=True, audio_root=None):
    return read_manifests([str(entry) for entry in entries], audio_root, needs_text)


def test_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\ufeffwav_filename,wav_filesize,transcript\nx/1.wav,5,hello\n\n/abs/2.wav,6,"a, ""b"""\n', "utf-8")
    first, second = rows_of(path)
    assert (first.path, first.text, first.place) == (str(tmp_path / "x/1.wav"), "hello", f"{path}:2")
    assert (second.path, second.text, second.line) == ("/abs/2.wav", 'a, "b"', 4)


def test_a_list_with_tabs_has_no_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\ufefftranscript\t wav_filename\nwell, "so\t1.wav\n', "utf-8")
    (row,) = rows_of(path)
    assert (row.name, row.text, row.line) == ("1.wav", 'well, "so', 2)


def test_a_tab_in_a_column_name_of_a_list_with_commas(tmp_path):
    (tmp_path / "a.csv").write_text('wav_filename,transcript,"a\tb"\n1.wav,one,"x\ty"\n')
    assert rows_of(tmp_path / "a.csv")[0].text == "one"


def test_names_are_relative_to_a_given_folder_or_the_list_or_here(tmp_path, monkeypatch):
    path = tmp_path / "lists" / "a.csv"
    path.parent.mkdir()
    path.write_text("wav_filename,transcript\n1.wav,a\n")
    (tmp_path / "1.wav").write_bytes(b"")
    assert rows_of(path, audio_root="/root/audio")[0].path == "/root/audio/1.wav"
    assert rows_of(path)[0].path == str(path.parent / "1.wav")
    monkeypatch.chdir(tmp_path)
    assert rows_of(path)[0].path == "1.wav"


def test_csv_of_inference_needs_no_transcript(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("wav_filename\n1.wav\n")
    assert rows_of(path, needs_text=False)[0].text is None
    with pytest.raises(DataError, match="lacks transcript"):
        rows_of(path)


@pytest.mark.parametrize(("content", "words"), [
    ("1.wav,5,hello\n", r"a\.csv:1: the header '1.wav,5,hello' lacks wav_filename"),
    ("wav_filename,wav_filesize,transcript\n1.wav,5,a\n2.wav,5,a,b\n", r"a\.csv:3: the row has 4 columns"),
    ("wav_filename,wav_filesize,transcript\n", "lists no recordings"),
    ("", "lacks wav_filename"),
])
def test_csv_that_is_wrong(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        rows_of(path)


@pytest.mark.parametrize(("length", "words"), [(1, "has a double quote that is not closed"),
                                               (200_000, "more than 131,072 characters: .* if a quote is not closed")])
def test_a_quote_that_is_not_closed(tmp_path, length, words):
    (tmp_path / "a.csv").write_text('wav_filename,wav_filesize,transcript\n1.wav,1,a\n"2.wav,1,' + "a" * length + "\n"
                                    "3.wav,1,b\n")
    with pytest.raises(DataError, match=rf"a\.csv:3: .*{words}"):
        rows_of(tmp_path / "a.csv")


def test_missing_list(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        rows_of(tmp_path / "none.csv")


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"audio_filepath": "1.flac", "duration": 1.5, "text": "grün"}) + "\n\n"
                    + json.dumps({"audio_filepath": "/2.flac"}) + "\n", "utf-8")
    first, second = rows_of(path)
    assert (first.path, first.text, second.text, second.line) == (str(tmp_path / "1.flac"), "grün", None, 3)


def test_half_of_a_surrogate_pair_is_replaced(tmp_path):
    (tmp_path / "a.json").write_text(r'{"audio_filepath": "1.wav", "text": "cut \ud83d"}')
    assert rows_of(tmp_path / "a.json")[0].text == "cut ?"


def test_a_mark_of_utf8_is_no_text(tmp_path):
    (tmp_path / "a.json").write_text('{"audio_filepath": "1.wav", "text": "a"}\n', "utf-8-sig")
    (tmp_path / "1.trans.txt").write_text("1 a\n", "utf-8-sig")
    for path in (tmp_path / "a.json", tmp_path):
        assert [(u.text, u.line) for u in rows_of(path)] == [("a", 1)]
    assert os.path.basename(rows_of(tmp_path)[0].name) == "1.flac"


@pytest.mark.parametrize(("line", "words"), [
    ("{", "is not valid JSON"), ("[]", "audio_filepath"), ('{"text": ""}', "audio"),
    ('{"audio_filepath": "2.wav", "text": ["a", "b"]}', r"'text' of 2\.wav must be a string, got \[\"a\", \"b\"\]"),
    ('{"audio_filepath": "2.wav", "text": 7}', r"'text' of 2\.wav must be a string, got 7"),
    ('{"audio_filepath": "2.wav", "offset": -3.5, "text": "b"}', r"'offset' of 2\.wav must be a number .* got -3\.5"),
    ('{"audio_filepath": "2.wav", "offset": "3", "text": "b"}', r"'offset' of 2\.wav must be a number .* got \"3\""),
    ('{"audio_filepath": "2.wav", "duration": [1], "text": "b"}', r"'duration' of 2\.wav must be a number"),
    ('{"audio_filepath": "2.wav", "duration": true, "text": "b"}', r"'duration' of 2\.wav must be a number"),
    ('{"audio_filepath": "2.wav", "duration": 1e400, "text": "b"}', r"'duration' of 2\.wav must be a number"),
    ('{"audio_filepath": "2.wav", "duration": NaN, "text": "b"}', r"'duration' of 2\.wav must be a number"),
])
def test_json_that_is_wrong(tmp_path, line, words):
    path = tmp_path / "a.json"
    path.write_text('{"audio_filepath": "1.wav", "text": "a"}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"a\.json:2: .*{words}"):
        rows_of(path)


def test_json_of_whole_recordings_and_of_inference(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"audio_filepath": "1.wav", "offset": 0.0, "duration": 2, "text": null}\n'
                    '{"audio_filepath": "2.wav", "offset": null, "text": 7}\n')
    assert [u.text for u in rows_of(path, needs_text=False)] == [None, None]


def test_json_of_segments(tmp_path):
    rows = [{"offset": 0, "duration": 1.5}, {"offset": 1.5, "duration": 0.25}, {"offset": 12.3456789},
            {"duration": None}]
    (tmp_path / "a.json").write_text("".join(json.dumps({"audio_filepath": "1.wav", "text": "a", **row}) + "\n"
                                             for row in rows))
    assert [(u.name, u.begin, u.duration) for u in rows_of(tmp_path / "a.json")] == [
        ("1.wav", 0, 1.5), ("1.wav@1.5", 1.5, 0.25), ("1.wav@12.3456789", 12.3456789, None), ("1.wav", 0, None)]


def test_librispeech_folder(tmp_path):
    for speaker, suffix in (("19", ".flac"), ("103", ".wav")):
        folder = tmp_path / "dev" / speaker / "1"
        folder.mkdir(parents=True)
        (folder / f"{speaker}-1.trans.txt").write_text(f"{speaker}-1-0000 SOME WORDS\n{speaker}-1-0001 MORE\n")
        for number in range(2):
            (folder / f"{speaker}-1-000{number}{suffix}").write_bytes(b"")
    found = rows_of(tmp_path)
    assert [u.name for u in found] == ["dev/103/1/103-1-0000.wav", "dev/103/1/103-1-0001.wav",
                                       "dev/19/1/19-1-0000.flac", "dev/19/1/19-1-0001.flac"]
    assert found[0].text == "SOME WORDS"
    assert found[1].place.endswith("103-1.trans.txt:2")


def test_files_and_folders_for_inference(tmp_path):
    (tmp_path / "b.flac").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    (tmp_path / "a.WAV").write_bytes(b"")
    (tmp_path / "recording").write_bytes(b"\xff\xfe\n\xfd")
    found = rows_of(tmp_path, tmp_path / "b.flac", tmp_path / "recording", needs_text=False)
    assert [u.name for u in found] == [str(tmp_path / name) for name in ("a.WAV", "b.flac", "b.flac", "recording")]
    (tmp_path / "list").write_text("wav_filename\nb.flac\n")
    assert rows_of(tmp_path / "list", needs_text=False)[0].path == str(tmp_path / "b.flac")
    with pytest.raises(DataError, match=r"no \*\.trans\.txt files"):
        rows_of(tmp_path)


def test_a_folder_is_searched_for_all_that_libsndfile_reads(tmp_path, capsys):
    for name, kind in (("a.WAVE", "WAV"), ("b.oga", "OGG"), ("c.m4a", "WAV"), ("d.snd", "AU"), ("e", "FLAC"),
                       ("f.MP3", "MP3")):
        soundfile.write(tmp_path / name, np.sin(np.arange(8000) / 9), 8000, format=kind)
    for name in ("1.m4a", "2.M4A", "3.webm", "notes.txt"):
        (tmp_path / name).write_bytes(b"\0\0\0\x20ftypM4A " + bytes(100))
    found = rows_of(tmp_path, needs_text=False)
    assert [os.path.basename(row.name) for row in found] == ["a.WAVE", "b.oga", "c.m4a", "d.snd", "e", "f.MP3"]
    said = capsys.readouterr().out
    assert f"Left out 4 files of {tmp_path} that libsndfile cannot read (2 .m4a, 1 .webm, 1 .txt)" in said
    assert f"the first is {tmp_path}/1.m4a: convert recordings" in said


def test_a_folder_that_libsndfile_cannot_read(tmp_path, capsys):
    (tmp_path / "1.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    os.mkfifo(tmp_path / "2.pipe")
    with pytest.raises(DataError, match="contains no recordings"):
        rows_of(tmp_path, needs_text=False)
    assert "Left out 2 files" in capsys.readouterr().out


def test_linked_folders_are_read_once(tmp_path):
    data, other = tmp_path / "data", tmp_path / "other"
    for folder, name in ((data / "b", "1.wav"), (other, "2.wav")):
        folder.mkdir(parents=True)
        (folder / name).write_bytes(b"")
    for link, target in ((data / "a", data / "b"), (data / "c", other), (other / "back", data), (data / "none", "-")):
        link.symlink_to(target)
    assert [u.name for u in rows_of(data, needs_text=False)] == [f"{data}/b/1.wav", f"{data}/c/2.wav"]
    (other / "2.trans.txt").write_text("2 a\n")
    assert [u.name for u in rows_of(data)] == ["c/2.wav"]


def test_a_link_changes_no_name(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.wav").write_bytes(b"")
    before = [u.name for u in rows_of(tmp_path, needs_text=False)]
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b")
    assert [u.name for u in rows_of(tmp_path, needs_text=False)] == before
    assert before == [f"{tmp_path}/a/1.wav", f"{tmp_path}/b/1.wav"]


def test_names_that_are_not_utf8(tmp_path):
    (tmp_path / "a").mkdir()
    os.rename(tmp_path / "a", os.fsencode(tmp_path) + b"/caf\xe9")
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9/b\xff.wav")
    with open(path, "wb"):
        pass
    (row,) = rows_of(tmp_path, needs_text=False)
    assert (row.name, row.path) == (f"{tmp_path}/caf\\xe9/b\\xff.wav", path)
    (given,) = rows_of(path, needs_text=False)
    assert given.name == given.place == f"{tmp_path}/caf\\xe9/b\\xff.wav"


@pytest.mark.parametrize("line", ["[" * 100_000, '{"audio_filepath": "a", "offset": ' + "9" * 5000 + "}"])
def test_json_without_end(tmp_path, line):
    (tmp_path / "a.json").write_text(line + "\n")
    with pytest.raises(DataError, match=r"a\.json:1: the line is not valid JSON"):
        rows_of(tmp_path / "a.json")


def test_a_column_that_comes_twice(tmp_path):
    (tmp_path / "a.csv").write_text("wav_filename,transcript,wav_filename\na.wav,a,b.wav\n")
    with pytest.raises(DataError, match=r"a\.csv:1: the header has the column wav_filename more than once"):
        rows_of(tmp_path / "a.csv")


def test_a_million_columns(tmp_path):
    header = ["wav_filename", "transcript", *(f"c{i}" for i in range(10 ** 6))]
    (tmp_path / "a.csv").write_text(",".join(header) + "\n1.wav,a" + "," * 10 ** 6 + "\n2.wav,b\n")
    with pytest.raises(DataError, match=r"a\.csv:3: the row has 2 columns, but the header has 1000002"):
        rows_of(tmp_path / "a.csv")


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "secret").mkdir()
    (tmp_path / "a.wav").write_bytes(b"")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="The folder .*secret cannot be read: Permission denied"):
        rows_of(tmp_path, needs_text=False)


def test_braces_stand_for_folders(tmp_path, monkeypatch):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.wav").write_bytes(b"")
    (tmp_path / "lists").mkdir()
    path, other = tmp_path / "lists" / "a.csv", tmp_path / "lists" / "a.jsonl"
    path.write_text("wav_filename,transcript\n1.wav,one\n{}/2.wav,two\n")
    other.write_text('{"audio_filepath": "{}/2.wav", "text": "two", "offset": 1}\n')
    monkeypatch.chdir(tmp_path)
    rows = read_manifests([str(path), str(other)], None, True, ["a", "b"])
    assert [(row.name, row.variants) for row in rows] == [
        ("1.wav", 1), ("a/2.wav", 2), ("b/2.wav", 0), ("a/2.wav@1", 2), ("b/2.wav@1", 0)]
    assert [row.path for row in rows[1:3]] == [str(path.parent / "a/2.wav"), "b/2.wav"]
    assert {row.text for row in rows[1:]} == {"two"} and [row.line for row in rows] == [2, 3, 3, 1, 1]
    assert [row.name for row in rows_of(path)] == ["1.wav", "{}/2.wav"]
