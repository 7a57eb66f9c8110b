from __future__ import annotations

import gzip

import pytest

from open_seq2seq.decoding.ngram.estimation import read_transcripts
from open_seq2seq.utils.errors import DataError

LISTS = {
    "lists of the toolkit": ("a.csv", 'wav_filename,wav_filesize,transcript\n1.wav,5,one\n2.wav,6,"two, three"\n'),
    "another column behind it": ("a.csv", 'wav_filename,transcript,speaker\n1.wav,one,anna\n2.wav,"two, three",bert\n'),
    "tabs": ("a.tsv", "wav_filename\t transcript \tspeaker\n1.wav\tone\tanna\n2.wav\ttwo, three\tbert\n"),
    "tabs in .csv": ("a.csv", "transcript\twav_filename\none\t1.wav\n\ntwo, three\t2.wav\n"),
    "Common Voice": ("a.tsv", "client_id\tpath\tsentence\tup_votes\nx\t1.mp3\tone\t2\ny\t2.mp3\ttwo, three\t3\n"),
    "manifest": ("a.json", '{"audio_filepath": "1", "text": "one", "duration": 1}\n\n'
                 '{"text": "two, three", "audio_filepath": "2"}\n'),
    "manifest by another name": ("a.manifest", '{"text": "one"}\n{"text": "two, three"}\n'),
    "LibriSpeech": ("a.trans.txt", "1-2-0000 one\n1-2-0001 two, three\n"),
    "no header": ("a.csv", '1.wav,one\n2.wav,"two, three"\n'),
    "one column": ("a.csv", 'one\n"two, three"\n'),
    "text": ("a.txt", "one\ntwo, three\n"),
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("packed", [False, True])
def test_the_transcripts_of_every_list(tmp_path, capsys, kind, packed):
    name, content = LISTS[kind]
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert list(read_transcripts(str(path))) == ["one", "two, three"]
    said = capsys.readouterr().out
    assert ("has no column named transcript: its last column is used, such as 'one'." in said) == (kind == "no header")


@pytest.mark.parametrize(("name", "content", "words"), [
    ("a.csv", "wav_filename,speaker,transcript\n1.wav,anna,one\n2.wav,bert\n", r"a\.csv:3: the row has 2 columns, but"),
    ("a.json", '{"text": "one"}\none\n', r"a\.json:2: the line must be a JSON object with the key 'text'"),
    ("a.json", '["one"]\n', r"a\.json:1: the line must be a JSON object"),
    ("a.json", '{"text": 1}\n', r"a\.json:1: 'text' must be a string, got 1"),
])
def test_lists_that_are_wrong(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words):
        list(read_transcripts(str(tmp_path / name)))
