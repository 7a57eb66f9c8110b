"""Tables and folders of other programs: names of columns, paths of Windows, segments, speakers."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.speech2text.own_speech import clean, listed, read_recordings, write_segments
from open_seq2seq.utils.errors import DataError

RATE = 8000
COMMON_VOICE = 'client_id\tpath\tsentence\tage\nc1\t1.wav\tHello, "you"\t\n'


def tone(path, seconds=1.0, pitch=400.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.2 * np.sin(np.arange(round(seconds * RATE)) * pitch / RATE), RATE)


def read(path, *more):
    """Header, and (path, transcript, speaker) of each recording that is not left out, by line."""
    header, found = read_recordings(str(path), *more)
    kept = clean(found, str)
    assert not kept.dropped, kept.dropped
    return header, [(row.utterance.path, row.utterance.text, row.speaker) for row in kept.rows]


@pytest.mark.parametrize(("name", "text", "options", "header", "speaker"), [
    ("a.tsv", COMMON_VOICE, (), ["client_id", "wav_filename", "transcript", "age"], "c1"),
    ("a.tsv", COMMON_VOICE, (None, ""), ["client_id", "wav_filename", "transcript", "age"], None),
    ("a.csv", 'who,words,sound\nc1,"Hello, ""you""",1.wav\n', (("sound", "words"), "who"),
     ["who", "transcript", "wav_filename"], "c1"),
    ("a.csv", 'transcript,words,sound\nx,"Hello, ""you""",1.wav\n', (("sound", "words"),),
     ["transcript", "wav_filename"], None),
    ("a.csv", 'wav_filename;transcript\nwav\\1.wav;"Hello, ""you"""\n', (), ["wav_filename", "transcript"], None),
    ("a.jsonl", '{"audio_filepath": "wav/1.wav", "duration": 1.0, "text": "Hello, \\"you\\""}\n', (),
     ["wav_filename", "transcript"], None),
])
def test_tables(tmp_path, name, text, options, header, speaker):
    tone(tmp_path / "clips" / "1.wav")
    tone(tmp_path / "wav" / "1.wav")
    text = text.replace("1.wav", "wav/1.wav") if "sound" in text else text
    (tmp_path / name).write_text(text)
    place = tmp_path / ("clips" if "client_id" in text else "wav") / "1.wav"
    assert read(tmp_path / name, *options) == (header, [(str(place), 'Hello, "you"', speaker)])


def kaldi(folder, segments="", speakers=""):
    """A folder of Kaldi with two files, and the first words of a recipe's folder before their names."""
    for number in (1, 2):
        tone(folder / "audio" / f"{number}.wav", 2.0)
    place = folder / "data" / "train"
    place.mkdir(parents=True)
    (place / "wav.scp").write_text(f"rec1 audio/1.wav\nrec2  {folder}/audio/2.wav\n")
    names = [line.split()[0] for line in segments.splitlines()] or ["rec1", "rec2"]
    (place / "text").write_text("".join(f"{name} words of {name}\n" for name in names))
    for name, text in (("segments", segments), ("utt2spk", speakers)):
        if text:
            (place / name).write_text(text)
    return place


def test_folder_of_kaldi(tmp_path):
    header, rows = read(kaldi(tmp_path, speakers="rec1 anna\nrec2 bert\n"))
    assert header == ["wav_filename", "transcript", "utterance", "speaker"]
    assert [(os.path.realpath(path), *more) for path, *more in rows] == [
        (str(tmp_path / "audio" / f"{n}.wav"), f"words of rec{n}", who) for n, who in ((1, "anna"), (2, "bert"))]


def test_segments_become_files_of_their_own(tmp_path):
    place = kaldi(tmp_path, "b/1 rec1 0.5 1.25\na rec1 0 0.5\nc rec2 0 1.99\nd rec2 1.5 -1\ne rec2 5 6\n"
                            "f rec1 1.5 2.1\ng rec2 1 30\nh rec1 0 30\n")
    header, found = read_recordings(str(place))
    kept = clean(found, str)
    assert {reason: [row.utterance.name for row in rows] for reason, rows in kept.dropped.items()} == {
        "outside": ["e", "g", "h"]}
    assert [round(row.seconds, 3) for row in kept.rows] == [0.75, 0.5, 2.0, 0.5, 0.5]
    (tmp_path / "work").mkdir()
    rows = write_segments(kept.rows, str(tmp_path / "work"), str(tmp_path / "out"))
    (tmp_path / "work").rename(tmp_path / "out")
    whole, rate = soundfile.read(tmp_path / "audio" / "1.wav")
    for row, begin, end in ((rows[0], 0.5, 1.25), (rows[1], 0.0, 0.5)):
        cells = listed(row, header, str(tmp_path / "out"))
        audio, same_rate = soundfile.read(tmp_path / "out" / cells[0])
        assert cells[0].startswith("segments/") and cells[1:] == [row.utterance.text, row.utterance.name]
        assert rate == same_rate
        np.testing.assert_allclose(audio, whole[int(begin * rate):int(end * rate)], atol=1e-4)
    assert listed(rows[2], header, str(tmp_path / "out"))[0].endswith("audio/2.wav")  # 1.99 s: the whole file, rounded
    assert len(list((tmp_path / "out" / "segments").iterdir())) == 4


def test_parts_of_files_in_json_lines(tmp_path):
    tone(tmp_path / "1.wav", 2.0)
    rows = [{"offset": 0.5, "duration": 1.0}, {"offset": 0, "duration": 0.5}, {"offset": 1.0}, {},
            {"offset": 1.5, "duration": 0.0}, {"offset": 1.75, "duration": None}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"audio_filepath": "1.wav", "text": "x", **row}) + "\n"
                                              for row in rows))
    _, found = read_recordings(str(tmp_path / "a.jsonl"))
    assert [row.seconds for row in clean(found, str).rows] == [1.0, 0.5, 1.0, 2.0, 0.5, 0.25]


def test_folders_of_recordings_and_texts(tmp_path):
    tone(tmp_path / "a" / "1.wav")
    tone(tmp_path / "a" / "2.flac")
    (tmp_path / "a" / "1.txt").write_text("first\nline\n")
    _, found = read_recordings(str(tmp_path / "a"))
    kept = clean(found, str)
    assert [(row.utterance.name, row.utterance.text) for row in kept.rows] == [("1.wav", "first line")]
    assert [row.place for row in kept.dropped["empty transcript"]] == ["2.flac"]
    tone(tmp_path / "b" / "x" / "1-2-3.flac")
    (tmp_path / "b" / "x" / "1-2.trans.txt").write_text("1-2-3 HELLO\n")
    assert read(tmp_path / "b")[1] == [(str(tmp_path / "b" / "x" / "1-2-3.flac"), "HELLO", None)]


@pytest.mark.parametrize(("files", "options", "words"), [
    ({"a.csv": "file,words\n1.wav,x\n"}, (), r"a\.csv:1: the columns are file, words: name those .* with --columns"),
    ({"a.csv": "file,words\n1.wav,x\n"}, (("file", "word"),), "no column named 'word' for --columns.*mean 'words'"),
    ({"a.jsonl": '{"audio_filepath": "1.wav", "text": "x", "offset": "late"}\n'}, (),
     r"a\.jsonl:1: 'late' is not a time"),
    ({"d/wav.scp": "r1 sox 1.sph -t wav - |\n", "d/text": "r1 x\n"}, (), r"wav\.scp:1: the recording is the output of"),
    ({"d/wav.scp": "r1 1.wav\n"}, (), "text does not exist"),
    ({"d/wav.scp": "r1 1.wav\n", "d/text": "u x\n", "d/segments": "u r1 0\n"}, (), r"segments:1: the line must"),
    ({"d/wav.scp": "r1 1.wav\n", "d/text": "u x\n", "d/segments": "u r1 0 nan\n"}, (), r"segments:1: 'nan' is"),
    ({"d/wav.scp": "r1 1.wav\n", "d/text": "r1 x\n"}, (None, "who"), "no column 'who' for --speaker_column"),
    ({"d/validated.tsv": "path\tsentence\n", "d/1.wav": "x"}, (), r"give a table, such as .*validated\.tsv"),
])
def test_what_cannot_be_read(tmp_path, files, options, words):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        read_recordings(str(tmp_path / next(iter(files)).split("/")[0]), *options)
