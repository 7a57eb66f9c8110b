"""Word times become subtitles that other programs read, and long recordings are read in windows."""

from __future__ import annotations

import html
import io
import json
import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from open_seq2seq import cli
from open_seq2seq.data.audio.audio_files import overlapping, read_audio
from open_seq2seq.decoding.ctc import CtcDecoder, Symbols
from open_seq2seq.decoding.ctc.frames import Alignment, words_of
from open_seq2seq.decoding.n_best import Candidate, read_n_best
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.speech2text.speech2text import Recognition, Speech2Text, SubtitleWriter
from open_seq2seq.models.speech2text.subtitles import FORMATS, SpokenWord, formatted, joined_words, subtitles_of
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.passes import InferencePass
from open_seq2seq.utils.errors import UserError
from tests.unit.models.speech2text.test_speech2text import RATE, make, toy, transcribed

__all__ = ["make", "toy"]
STEP = 0.02


def spoken(seconds: float, seed: int = 0) -> list[SpokenWord]:
    """Made-up words of 0.1 to 0.8 s with pauses of up to 1.5 s, some of them with marks of HTML."""
    rng, words, time = random.Random(seed), [], 0.0
    while time < seconds - 3:
        start = time + rng.choice([STEP, 0.1, 1.5])
        time = start + rng.uniform(0.1, 0.8)
        words.append(SpokenWord(rng.choice(["da", "nobu", "<b>", "&", "end."]) + str(len(words)), start, time, 0.5))
    return words


def test_the_command_line_has_the_formats():
    assert cli.TRANSCRIPT_FORMATS == FORMATS


@pytest.mark.parametrize("seed", range(20))
def test_windows_are_joined_where_they_agree(seed):
    words, seconds = spoken(100, seed), 12
    windows, starts = [], []
    for begin, end in overlapping(100 * RATE, RATE, seconds):
        start, stop = begin / RATE, end / RATE
        inside = [word for word in words if word.end > start and word.start < stop]
        # A word that a window cuts is heard as another.
        windows.append([SpokenWord(word.text if word.start >= start and word.end <= stop else "?",
                                   max(word.start, start) - start, min(word.end, stop) - start, 0.5)
                        for word in inside])
        starts.append(start)
    joined = joined_words(windows, starts, seconds)
    assert [word.text for word in joined] == [word.text for word in words]
    np.testing.assert_allclose([word[1:3] for word in joined], [word[1:3] for word in words])


@pytest.mark.parametrize(("samples", "seconds", "count"), [(0, 8, 1), (8, 8, 1), (9, 8, 2), (14, 8, 2), (15, 8, 3),
                                                          (10 ** 6, 60, 22222)])
def test_windows_cover_the_recording(samples, seconds, count):
    found = overlapping(samples * RATE, RATE, seconds)
    assert len(found) == count and found[0][0] == 0 and found[-1][1] == samples * RATE
    assert all(one[1] - two[0] == RATE * (seconds // 4) for one, two in zip(found, found[1:], strict=False))


def test_other_programs_read_the_subtitles():
    srt, webvtt = pytest.importorskip("srt"), pytest.importorskip("webvtt")
    words = spoken(4000)
    lines = subtitles_of(words)
    assert " ".join(line.text for line in lines).split() == [word.text for word in words]
    assert all(len(line.text) <= 84 and line.end - line.start <= 6 for line in lines)
    result = Recognition(" ".join(word.text for word in words), words)
    theirs = list(srt.parse(formatted(result, "srt")))
    assert [one.content.replace("\n", " ") for one in theirs] == [line.text for line in lines]
    np.testing.assert_allclose([(one.start.total_seconds(), one.end.total_seconds()) for one in theirs],
                               [line[:2] for line in lines], atol=6e-4)
    captions = list(webvtt.from_buffer(io.StringIO(formatted(result, "vtt"))))
    assert [html.unescape(one.text.replace("\n", " ")) for one in captions] == [line.text for line in lines]
    assert not any("<" in one.text for one in captions)
    assert [one.start for one in captions][-1].startswith("01:0")
    found = json.loads(formatted(result, "json", "a.wav"))
    assert found["recording"] == "a.wav" and [one["word"] for one in found["words"]] == [word.text for word in words]


def test_recordings_of_the_same_name_have_files_of_their_own(tmp_path):
    names = ["a/clip.wav", "a/clip-2.wav", "b/clip.wav"]
    with SubtitleWriter(str(tmp_path / "out"), names.__getitem__, "json", 3) as writer:
        writer.write_batches([[(number, Recognition(name, [])) for number, name in enumerate(names)]])
    texts = {path.name: json.loads(path.read_text())["text"] for path in (tmp_path / "out").glob("*.json")}
    assert texts == {"clip.json": names[0], "clip-2.json": names[1], "clip-3.json": names[2]}


def test_files_of_segments_are_named_by_their_offsets(tmp_path):
    names = ["a/clip.wav", "a/clip.wav@10", "a/clip.wav@12.5", "a/clip.wav@12.75", "talk.2024.flac", "plain"]
    with SubtitleWriter(str(tmp_path / "out"), names.__getitem__, "json", len(names)) as writer:
        writer.write_batches([[(number, Recognition(name, [])) for number, name in enumerate(names)]])
    texts = {path.name: json.loads(path.read_text())["text"] for path in (tmp_path / "out").glob("*.json")}
    assert texts == {"clip.json": names[0], "clip@10.json": names[1], "clip@12.5.json": names[2],
                     "clip@12.75.json": names[3], "talk.2024.json": names[4], "plain.json": names[5]}


def test_what_has_no_times_has_no_subtitles():
    with pytest.raises(UserError, match="srt needs the times"):
        formatted(Recognition("da"), "srt")
    with pytest.raises(UserError, match="'doc' is unknown"):
        formatted(Recognition("da", []), "doc")
    assert json.loads(formatted(Recognition("da"), "json")) == {"text": "da"}
    assert formatted(Recognition("", []), "srt") == "" and formatted(Recognition("", []), "vtt") == "WEBVTT\n"


@pytest.fixture(scope="module")
def long_file(toy, tmp_path_factory):
    """A recording of half a minute; its features are normalised by constants, so windows have those of the whole."""
    speech = [read_audio(str(path), RATE) for path in sorted((toy / "wav").glob("*.wav"))]
    path = tmp_path_factory.mktemp("long") / "long.wav"
    audio = np.concatenate(speech * 10)[:30 * RATE]
    soundfile.write(path, np.pad(audio, (0, 30 * RATE - len(audio))), RATE)
    return path


FIXED = {"gain": 1.0, "features_mean": [-8.0] * 20, "features_std_dev": [4.0] * 20}


def worded(model) -> None:
    """Makes words likely, of a model with random weights."""
    bias = np.random.default_rng(1).normal(size=model.decoder.bias.shape)
    bias[model.data_layer.alphabet.labels.index(" ")] += 3.0
    model.decoder.bias.assign(0.2 * bias)


@pytest.mark.parametrize("decoder", [{}, {"use_language_model": True}])
def test_a_long_recording_is_that_of_its_windows(make, long_file, tmp_path, decoder):
    whole = make("interactive_infer", data=FIXED, decoder=decoder, window_seconds=0)
    worded(whole)
    parts = make("interactive_infer", whole, data=FIXED, decoder=decoder, window_seconds=8)
    expected, found = (TrainedModel(model).infer([str(long_file)])[0] for model in (whole, parts))
    assert len(expected.words) > 10 and len(parts.divided(str(long_file))) == 5
    same = [one.text for one in expected.words] == [one.text for one in found.words]
    if not decoder:  # the beam of prefix search depends on what was heard before
        assert same and found.text == expected.text
        np.testing.assert_allclose([word[1:3] for word in found.words], [word[1:3] for word in expected.words],
                                   atol=STEP + 1e-6)
    audio = read_audio(str(long_file), RATE)
    assert TrainedModel(parts).infer([(audio, RATE)])[0].text == found.text
    files = {**FIXED, "dataset_files": [str(long_file)] * 2}
    command = make("infer", whole, data=files, decoder=decoder, window_seconds=8, write_word_times=True)
    assert command.data_layer.num_examples == 10
    rows = transcribed(command, tmp_path / "out.csv")
    assert [row["predicted_transcript"] for row in rows] == [found.text] * 2


def test_the_best_hypotheses_of_a_long_recording_are_made_of_those_of_its_windows(make, long_file, tmp_path):
    decoder = {"use_language_model": True, "beam_width": 16, "n_best": 4}
    model = make("interactive_infer", data=FIXED, decoder=decoder, window_seconds=8)
    worded(model)
    trained = TrainedModel(model)
    result, windows = trained.infer([str(long_file)])[0], trained.infer(model.divided(str(long_file)))
    best = result.n_best
    assert best[0].text == result.text and 1 < len(best) <= 4 and len({one.text for one in best}) == len(best)
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    assert best[0].score == pytest.approx(sum(one.n_best[0].score for one in windows))
    np.testing.assert_allclose([one.acoustic + one.lm for one in best], [one.score for one in best])
    again = tmp_path / "again.wav"
    again.write_bytes(long_file.read_bytes())
    files = {**FIXED, "dataset_files": [str(long_file), str(again)]}
    command = make("infer", model, data=files, decoder=decoder, window_seconds=8)
    transcribed(command, tmp_path / "out.csv")
    lists = read_n_best(str(tmp_path / "out.n_best.tsv"))
    assert [[one.text for one in candidates] for candidates in lists.values()] == [[one.text for one in best]] * 2
    np.testing.assert_allclose([one.score for one in [*lists.values()][1]], [one.score for one in best], atol=1e-4)


def joining(n_best: int) -> Any:
    """Returns what joins windows of 60 s: a model with a frame per second and prefix beam search."""
    search = SimpleNamespace(params={"n_best": n_best})
    model: Any = SimpleNamespace(_window_seconds=60, step_seconds=1.0, _search=search)
    model._joined_lists = partial(Speech2Text._joined_lists, model)
    return model


def test_choices_that_differ_only_after_a_cut_take_no_place_in_a_list():
    def window(*hypotheses: tuple[float, list[SpokenWord]]) -> Recognition:
        lists = [Candidate(" ".join(word.text for word in words), score, score, 0.0) for score, words in hypotheses]
        return Recognition(lists[0].text, hypotheses[0][1], None, lists, [words for _, words in hypotheses])

    a, b, c = (SpokenWord(text, time, time + 1.0, 0.5) for text, time in (("a", 10.0), ("b", 58.0), ("c", 58.0)))
    later, d, e = (SpokenWord(text, time, time + 1.0, 0.5) for text, time in (("b", 13.0), ("d", 30.0), ("e", 30.0)))
    windows = [window((-1.0, [a, b]), (-1.1, [a, c])), window((-1.0, [later, d]), (-3.0, [later, e]))]
    for count, texts in ((1, ["a b d"]), (2, ["a b d", "a b e"]), (3, ["a b d", "a b e"])):
        best = Speech2Text._joined(joining(count), windows, [0.0, 45.0]).n_best
        assert best is not None and [one.text for one in best] == texts
        assert [one.score for one in best] == [-2.0, -4.0][:len(texts)]


@pytest.mark.parametrize(("labels", "before"), [("abcdefghij", []), ("一丁七万丈三上下不与▁", [10])])
def test_windows_of_a_script_without_spaces_are_joined_between_symbols(labels, before):
    symbols, letters = Symbols(list(labels)), 3 * labels[:10]
    model, windows, starts = joining(1), [], [0.0, 45.0, 90.0]
    for start in starts:
        heard = [place for place in range(30) if start <= 5 * place + 2 < start + 60]  # one letter in five seconds
        begins = np.array([0] * len(before) + [5 * place + 2 - int(start) for place in heard])
        ids = before + [place % 10 for place in heard]  # SentencePiece begins every text with a space
        words = words_of(symbols, ids, Alignment(begins, begins + 1, np.full(len(ids), 0.5)))
        text = symbols.text(ids)
        windows.append(Recognition(text, Speech2Text._in_seconds(model, words), None,
                                   [Candidate(text, -1.0, -1.0, 0.0)]))
    result = Speech2Text._joined(model, windows, starts)
    assert result.text == letters and result.n_best == [Candidate(letters, -3.0, -3.0, 0.0)]
    assert [word.start for word in result.words or ()] == [5.0 * place + 2 for place in range(30)]


@pytest.mark.parametrize("step", [0.5, 0.02])
def test_subtitles_of_a_script_without_spaces_are_as_short_as_others(step):
    words = [SpokenWord("字", step * place, step * (place + 0.8), 0.5, has_space=False) for place in range(200)]
    lines = subtitles_of(words)
    assert "".join(line.text for line in lines) == 200 * "字"
    assert all(len(line.text) <= 84 and line.end - line.start <= 6 for line in lines)
    rows = [row for row in formatted(Recognition(200 * "字", words), "srt").splitlines() if "字" in row]
    assert "".join(rows) == 200 * "字" and max(map(len, rows)) <= 42


def test_only_windows_need_the_times_of_all_hypotheses(make, long_file, tmp_path, monkeypatch):
    decoder = {"use_language_model": True, "beam_width": 16, "n_best": 4}
    model = make("interactive_infer", data=FIXED, decoder=decoder, window_seconds=8)
    worded(model)
    aligned, align = [], CtcDecoder.words
    monkeypatch.setattr(CtcDecoder, "words", lambda self, *given: aligned.append(1) or align(self, *given))
    audio, rate = soundfile.read(long_file)
    short, trained = audio[:2 * rate], TrainedModel(model)
    result = trained.infer([(short, rate)])[0]
    assert len(result.n_best) > 1 and len(aligned) == 1
    trained.infer([(short, rate), str(long_file), (short, rate)])
    assert len(aligned) > 1 + 2 + 5  # of more than one hypothesis of each window
    soundfile.write(tmp_path / "short.wav", short, rate)
    files = {**FIXED, "dataset_files": [str(tmp_path / "short.wav"), str(long_file)]}
    both = make("infer", model, data=files, decoder=decoder, window_seconds=8)
    assert both.data_layer.are_windows(range(6)) == [False] + [True] * 5


def test_files_of_several_recordings_are_in_a_folder(make, toy, tmp_path):
    model = make("infer", transcript_format="srt")
    InferencePass(model, Runner()).run(str(tmp_path / "subtitles"))
    assert {path.name for path in (tmp_path / "subtitles").glob("*.srt")} == {
        f"dev-{number:04d}.srt" for number in range(7)}
    with pytest.raises(UserError, match=r"there are 7: give the name of a folder"):
        InferencePass(model, Runner()).run(str(tmp_path / "out.srt"))
    interactive = make("interactive_infer", model)
    content = TrainedModel(interactive).transcribe(str(toy / "wav" / "dev-0000.wav"), format="srt")
    assert content == (tmp_path / "subtitles" / "dev-0000.srt").read_text()
