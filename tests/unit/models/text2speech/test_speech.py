import contextlib
import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from open_seq2seq.metrics.speech import SoundDistance
from open_seq2seq.models.reporter import Reporter, SignedScores
from open_seq2seq.models.text2speech.evaluation import Measures, SoundJudge, SoundMeasures, speaker_summary
from open_seq2seq.models.text2speech.speech import Speech, SpeechWriter, joined, picture, timings_of
from open_seq2seq.models.text2speech.text2speech import Text2Speech
from open_seq2seq.utils.errors import UserError

RATE, HOP = 8000, 100


def speech(hops, ending="stop token"):
    sound = np.linspace(-0.5, 0.5, hops * HOP, dtype=np.float32)
    durations = np.full([3], (hops + 1) / 3)
    return Speech(sound, RATE, np.ones([hops + 1, 3], np.float32), np.full([hops + 1, 3], 1 / 3, np.float32), ending,
                  timings_of(["", "a", "b"], durations, HOP / RATE, hops * HOP / RATE))


def joined_texts(output, results, pauses, has_speakers=False):
    def join(examples, sentences):
        return joined(sentences, [pauses[one][1] for one in examples], np.zeros([3], np.float32), HOP)

    with SpeechWriter(str(output), RATE, lambda example: pauses[example][0], join, has_speakers) as writer:
        writer.write_batches([list(enumerate(results))])


def test_one_file_has_pauses_between_texts(tmp_path, capsys):
    joined_texts(tmp_path / "out.wav", [speech(8), speech(4, "maximum length")], [(0, 0.0), (1, 0.0)])
    samples, rate = soundfile.read(tmp_path / "out.wav")
    assert rate == RATE and len(samples) == 800 + 2400 + 400
    np.testing.assert_allclose(samples[:800], speech(8).samples, atol=1e-4)
    assert not samples[800:3200].any() and "ended by maximum length: 1" in capsys.readouterr().out


def test_sentences_of_a_text_are_one_sound_with_pauses_and_timings(tmp_path):
    joined_texts(tmp_path / "out", [speech(8), speech(4), speech(2)], [(0, 0.05), (0, 0.0), (1, 0.0)])
    samples, _ = soundfile.read(tmp_path / "out/0000.wav")
    assert len(samples) == (8 + 4 + 4) * HOP and not samples[800:1200].any()
    assert len(np.load(tmp_path / "out/0000.npy")) == 8 + 4 + 4 + 1
    timings = json.loads((tmp_path / "out/0000.json").read_text())
    assert [one["symbol"] for one in timings] == ["a", "b", "a", "b"]
    starts = [one["start"] for one in timings]
    np.testing.assert_allclose(starts, [3 / 80, 6 / 80, 12 / 80 + 5 / 240, 12 / 80 + 10 / 240], atol=2e-4)
    assert timings[-1]["end"] == len(samples) / RATE
    assert (tmp_path / "out/0001.wav").exists() and not (tmp_path / "out/0002.wav").exists()


def test_the_table_says_the_speakers(tmp_path):
    results = [speech(2)._replace(speaker=name) for name in ("low", "high", "low")]
    joined_texts(tmp_path / "out", results, [(0, 0.0), (0, 0.0), (1, 0.0)], True)
    rows = list(csv.DictReader((tmp_path / "out/speech.csv").open()))
    assert [row["speaker"] for row in rows] == ["low, high", "low"]


def test_each_speaker_is_measured(capsys):
    judge = SoundJudge(RATE, True, None)
    rows = []
    for speaker, ratio, hertz in (("low", 0.5, 1.0), ("high", 1.0, 4.0), ("low", 1.5, 3.0)):
        distance = SoundDistance(3.0, hertz, 10.0, 0.5, ratio)
        rows.append(Measures(0, 1.0, ratio, 1.0, 1.0, 1.0, "stop token", SoundMeasures({"speech": distance}, {}),
                             speaker))
    metrics = speaker_summary(rows, judge, "Validation ")
    expected = {"diagonality low": 1.0, "pitch ratio low": 1.0, "F0 error low": 2.0, "F0 error high": 4.0}
    assert {name: metrics[f"Eval {name}"] for name in expected} == expected
    lines = capsys.readouterr().out.splitlines()
    assert "Validation speaker low (2 texts): diagonality 1," in lines[0] and "pitch ratio 1" in lines[1]
    assert "Eval pitch ratio low" not in speaker_summary(rows, None, "")


def test_a_folder_with_files_of_other_programs_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(UserError, match="did not write"):
        joined_texts(tmp_path / "mine", [speech(1)], [(0, 0.0)])
    assert (tmp_path / "mine/letter.txt").read_text() == "dear"


def test_a_picture_has_time_to_the_right_and_channels_up():
    values = np.zeros([5, 2])
    values[4, 1] = 1.0
    pixels = picture(values, height=4)[..., 0]
    assert pixels.shape == (4, 5) and (pixels[:2, 4] == 255).all() and pixels.sum() == 2 * 255
    assert picture(np.zeros([0, 3])).dtype == np.uint8


def test_pitch_without_voiced_frames_has_no_score(tmp_path, capsys):
    class FileReporter(Reporter):
        @contextlib.contextmanager
        def file(self, name, suffix):
            yield tmp_path / f"{name}{suffix}"

    distance, scores = SoundDistance(3.0, np.nan, np.nan, 0.5), SignedScores()
    SoundJudge(RATE, True, None).summary([SoundMeasures({"speech": distance, "copy": distance}, {})], scores, "")
    assert "F0 error: no voiced frames; Griffin-Lim copies: no voiced frames" in capsys.readouterr().out
    scores.write(FileReporter(1))
    written = json.loads((tmp_path / "scores.json").read_text(), parse_constant=pytest.fail)
    assert written["F0 error"]["score"] is None and written["voicing error"]["score"] == 0.5


NONE = np.zeros([2, 0])


@pytest.mark.parametrize(("given", "predicted", "expected"), [
    (None, None, [False, True, True]), (None, NONE, [False, True, True]), (None, [1, 0, 2], [True, False, True]),
    ([0, 3, 0], None, [False, True, False]), ([0, 3, 0], NONE, [False, True, False]),
    ([0, 3, 0], [1, 0, 2], [True, False, True])])
def test_symbols_without_duration_are_not_spoken(given, predicted, expected):
    """Predicted durations come first, then those of the batch; without any, special symbols are not spoken."""
    model = SimpleNamespace(data_layer=SimpleNamespace(names_of=lambda ids: ["" if one == 1 else "a" for one in ids]))
    rows = [values if values is None or values is NONE else np.array([[9, 9, 9, 9], [*values, 5]])
            for values in (given, predicted)]
    batch = {"source_tensors": [np.array([[5, 5, 5, 5], [1, 5, 6, 0]])],
             "target_tensors": [None] * 3 + ([] if given is None else [rows[0]])}
    spoken = Text2Speech._is_spoken(model, batch, 1, 3, rows[1])
    assert spoken.dtype == bool and spoken.tolist() == expected
