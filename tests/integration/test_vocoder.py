"""A vocoder by the command line and from Python: resumed exactly, evaluated, and as the vocoder of another model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf

import open_seq2seq as os2s
from open_seq2seq.cli import main
from open_seq2seq.data.text2speech.toy_voice import RATE, write_toy_voice
from open_seq2seq.utils.errors import UserError

RECIPES = Path(__file__).parents[2] / "example_configs/text2speech"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voice")
    write_toy_voice(str(folder), {"train": 12, "dev": 3, "test": 3})
    return folder


def command(folder: Path, recipe: str, *words: str) -> int:
    layer = "data_layer_params"
    return main([f"--config_file={RECIPES}/{recipe}.py", f"--{layer}/dataset_location={folder}",
                 f"--train_params/{layer}/dataset_files=['{folder}/train.csv']", "--batch_size_per_gpu=6",
                 f"--eval_params/{layer}/dataset_files=['{folder}/dev.csv']", "--save_checkpoint_steps=2",
                 "--eval_steps=4", "--print_loss_steps=1", "--print_samples_steps=2", "--save_summaries_steps=2",
                 *words])


@pytest.fixture(scope="module")
def runs(folder, tmp_path_factory):
    """Returns the log directories of a vocoder and of a model with the same features."""
    root = tmp_path_factory.mktemp("runs")
    assert command(folder, "toy-vocoder", "--mode=train_eval", f"--logdir={root}/vocoder", "--max_steps=4") == 0
    assert command(folder, "toy-voice", f"--logdir={root}/voice", "--max_steps=2",
                   f"--data_layer_params/vocab_file={folder}/vocab.txt",
                   "--decoder_params/max_frames_per_symbol=4.0") == 0
    return root


@pytest.mark.long
def test_training_resumes_to_the_bit_and_inference_writes_sound(folder, runs, tmp_path):
    assert command(folder, "toy-vocoder", f"--logdir={tmp_path}/parts", "--max_steps=3") == 0
    assert command(folder, "toy-vocoder", f"--logdir={tmp_path}/parts", "--max_steps=4", "--continue_learning") == 0
    one, other = ((run / "model.ckpt-4/weights.safetensors").read_bytes()
                  for run in (runs / "vocoder", tmp_path / "parts"))
    assert one == other
    recording = next((folder / "wavs").glob("*.wav"))
    assert main(["--mode=infer", f"--logdir={runs}/vocoder", "--infer_files", str(recording),
                 f"--infer_output_file={tmp_path}/sound"]) == 0
    samples, rate = soundfile.read(tmp_path / "sound/0000.wav")
    given, _ = soundfile.read(recording)
    assert rate == RATE and 0 <= len(given) - len(samples) < 128 and np.abs(samples).max() <= 1.0
    again = os2s.load(str(runs / "vocoder")).infer([np.load(tmp_path / "sound/0000.npy")])[0]
    np.testing.assert_allclose(again.samples, samples, atol=1e-3)


@pytest.mark.long
def test_evaluation_compares_with_griffin_and_lim(folder, runs, capfd):
    assert main(["--mode=eval", f"--logdir={runs}/vocoder", "--sound_measures=True"]) == 0
    out = capfd.readouterr().out
    assert "Validation log-spectral distance:" in out and "Griffin-Lim copies" in out and "lsd:stft512" in out
    assert "Validation mel cepstral distortion:" in out


@pytest.mark.long
def test_another_model_speaks_with_the_vocoder(runs, tmp_path):
    logdir, texts = str(runs / "voice"), ["ae i", "ou"]
    model = os2s.load(logdir, vocoder=str(runs / "vocoder"))
    sounds = model.synthesize(texts)
    plain = os2s.load(logdir).infer(texts)
    vocoder = os2s.load(str(runs / "vocoder"), mel_iterations=0, phase_iterations=0)
    for (samples, rate), result in zip(sounds, plain, strict=True):
        assert rate == RATE and len(samples) == len(result.samples)
        np.testing.assert_allclose(samples, vocoder.infer([result.spectrogram])[0].samples, atol=1e-3)
        assert np.abs(samples - result.samples).max() > 1e-2
    assert main(["speak", logdir, "ae i", f"--vocoder={runs}/vocoder", f"--output={tmp_path}/one.wav"]) == 0
    np.testing.assert_allclose(soundfile.read(tmp_path / "one.wav")[0], sounds[0][0], atol=1e-3)


@pytest.mark.long
def test_the_vocoder_of_a_loaded_model_stays(runs):
    model, other = (os2s.load(str(runs / "voice"), **values) for values in ({}, {"vocoder": str(runs / "vocoder")}))
    with pytest.raises(UserError, match=r"'vocoder' cannot be changed in a loaded model: give vocoder='.*' when"):
        model.variant({"vocoder": str(runs / "vocoder")})
    with pytest.raises(UserError, match="'vocoder' cannot be changed"):
        other.variant({"vocoder": str(runs)})
    plain, without = model.infer(["ae"])[0], other.variant({"vocoder": None}).infer(["ae"])[0]
    np.testing.assert_allclose(without.samples, plain.samples, atol=1e-4)
    assert other.variant({"decoder_params": {"max_frames_per_symbol": 3.0}}).infer(["ae"])[0].seconds > 0


@pytest.mark.long
def test_a_vocoder_is_in_exports_and_named_by_packed_models(folder, runs, tmp_path, capfd):
    logdir, vocoder = f"{tmp_path}/voice", str(runs / "vocoder")
    assert main(["--mode=export", f"--logdir={runs}/voice", f"--vocoder={vocoder}", f"--export_dir={tmp_path}/sound",
                 "--infer_files", f"{folder}/test.csv"]) == 0
    report = json.loads((tmp_path / "sound/report.json").read_text())["functions"]["sound"]
    assert report["share_equal"] == 1 and report["largest_difference"] < 1e-3
    trained = os2s.load(f"{runs}/voice", vocoder=vocoder, dtype="float32")
    feed = trained.model.serving_functions()[1].feed(["ae iou"], np.arange(1))
    call = tf.saved_model.load(f"{tmp_path}/sound").signatures["sound"]
    exported = call(**{name: tf.constant(value) for name, value in feed.items()})["sound"].numpy()[0]
    np.testing.assert_allclose(exported, trained.infer(["ae iou"])[0].samples, atol=1e-3)
    assert command(folder, "toy-voice", f"--logdir={logdir}", "--max_steps=1", f"--vocoder={vocoder}",
                   f"--data_layer_params/vocab_file={folder}/vocab.txt") == 0
    capfd.readouterr()
    os2s.Run(logdir=logdir).pack(tmp_path / "voice.zip")
    assert f"voice.zip does not contain the vocoder {vocoder}: pack it, too" in capfd.readouterr().out
    assert os2s.load(str(tmp_path / "voice.zip"), vocoder=None).infer(["ae"])[0].seconds > 0
    assert command(folder, "toy-voice", f"--logdir={tmp_path}/other", "--vocoder=no-vocoder",
                   f"--data_layer_params/vocab_file={folder}/vocab.txt") == 2
    error = capfd.readouterr().err
    assert "'vocoder' is no-vocoder, which does not exist" in error and "Traceback" not in error


@pytest.mark.long
def test_unfit_vocoders_are_refused(folder, runs, tmp_path, capfd):
    def message(vocoder):
        with pytest.raises(UserError) as error:
            os2s.load(str(runs / "voice"), vocoder=str(vocoder))
        return str(error.value)

    assert "'vocoder' is" in message(runs / "voice") and "a Text2SpeechTacotron" in message(runs / "voice")
    assert str(tmp_path / "none") in message(tmp_path / "none")
    assert command(folder, "toy-vocoder", f"--logdir={tmp_path}/other", "--max_steps=1",
                   "--data_layer_params/n_fft=256", "--data_layer_params/num_audio_features=30") == 0
    sentence = message(tmp_path / "other")
    assert "num_mels 30 instead of 40, n_fft 256 instead of 512" in sentence and "\n" not in sentence
    capfd.readouterr()
    assert main(["speak", str(runs / "voice"), "ae", f"--vocoder={tmp_path}/other"]) == 2
    assert "Traceback" not in capfd.readouterr().err
