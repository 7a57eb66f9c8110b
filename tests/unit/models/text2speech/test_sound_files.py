import numpy as np
import pytest
import soundfile

from open_seq2seq.models.text2speech.sound_files import SpeechWriter, picture
from open_seq2seq.models.text2speech.text2speech import Speech
from open_seq2seq.utils.errors import UserError

RATE = 8000


def speech(samples, stopped=True):
    sound = np.linspace(-0.5, 0.5, samples, dtype=np.float32)
    return Speech(sound, RATE, np.zeros([4, 3], np.float32), np.eye(4, dtype=np.float32), stopped)


def test_one_file_has_pauses_between_texts(tmp_path, capsys):
    with SpeechWriter(str(tmp_path / "out.wav"), RATE) as writer:
        writer.write_batches([[(0, speech(800)), (1, speech(400, stopped=False))]])
    samples, rate = soundfile.read(tmp_path / "out.wav")
    assert rate == RATE and len(samples) == 800 + 2400 + 400
    np.testing.assert_allclose(samples[:800], speech(800).samples, atol=1e-4)
    assert not samples[800:3200].any() and "1 texts" in capsys.readouterr().out


def test_a_folder_with_files_of_other_programs_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(UserError, match="did not write"), SpeechWriter(str(tmp_path / "mine"), RATE) as writer:
        writer.write_batches([[(0, speech(8))]])
    assert (tmp_path / "mine/letter.txt").read_text() == "dear"


def test_a_picture_has_time_to_the_right_and_channels_up():
    values = np.zeros([5, 2])
    values[4, 1] = 1.0
    pixels = picture(values, height=4)[..., 0]
    assert pixels.shape == (4, 5) and (pixels[:2, 4] == 255).all() and pixels.sum() == 2 * 255
    assert picture(np.zeros([0, 3])).dtype == np.uint8
