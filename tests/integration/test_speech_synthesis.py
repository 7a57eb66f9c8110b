"""Speech synthesis by the command line and from Python: resumed exactly, evaluated, and turned into sound files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import soundfile
from rapidfuzz.distance import Levenshtein
from safetensors.numpy import load_file

import open_seq2seq as os2s
from open_seq2seq.cli import main
from open_seq2seq.data.text2speech.toy_voice import PITCHES, RATE, heard, write_toy_voice
from open_seq2seq.metrics.speech import analysed
from open_seq2seq.utils.errors import DataError, UserError

RECIPES = Path(__file__).parents[2] / "example_configs/text2speech"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voice")
    write_toy_voice(str(folder), {"train": 12, "dev": 3, "test": 3})
    return folder


@pytest.fixture(scope="module")
def speakers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speakers")
    write_toy_voice(str(folder), {"train": 6, "dev": 2}, voices=2)
    return folder


def command(folder: Path, *words: str, recipe: str = "toy-voice") -> int:
    layer = "data_layer_params"
    return main([f"--config_file={RECIPES}/{recipe}.py", f"--{layer}/dataset_location={folder}",
                 "--batch_size_per_gpu=6", f"--{layer}/vocab_file={folder}/vocab.txt",
                 f"--train_params/{layer}/dataset_files=['{folder}/train.csv']",
                 f"--eval_params/{layer}/dataset_files=['{folder}/dev.csv']", "--save_checkpoint_steps=2",
                 "--eval_steps=4", "--print_loss_steps=1", "--print_samples_steps=2", "--save_summaries_steps=2",
                 "--decoder_params/max_frames_per_symbol=4.0", *words])


@pytest.mark.long
def test_training_resumes_to_the_bit_and_speaks(folder, capfd, tmp_path):
    whole, parts, frames = tmp_path / "whole", tmp_path / "parts", "--decoder_params/reduction_factor=[[0,4],[2,2]]"
    assert command(folder, "--mode=train_eval", f"--logdir={whole}", "--max_steps=4", frames) == 0
    out = capfd.readouterr().out
    assert "Sample diagonality" in out and "Validation duration ratio" in out
    assert command(folder, f"--logdir={parts}", "--max_steps=3", frames) == 0
    assert command(folder, f"--logdir={parts}", "--max_steps=4", "--continue_learning", frames) == 0
    one, other = ((run / "model.ckpt-4/weights.safetensors").read_bytes() for run in (whole, parts))
    assert one == other
    assert [load_file(whole / f"model.ckpt-{step}/weights.safetensors")["decoder/reduction/update"]
            for step in (2, 4)] == [1.0, 3.0]
    assert main(["speak", str(whole), "ae i", f"--output={tmp_path}/one.wav"]) == 0
    samples, rate = soundfile.read(tmp_path / "one.wav")
    assert rate == RATE and len(samples) and np.abs(samples).max() <= 1
    assert "did not stop" in capfd.readouterr().out
    assert main(["speak", str(whole), "", f"--output={tmp_path}/silence.wav"]) == 0
    assert not len(soundfile.read(tmp_path / "silence.wav")[0]) and "did not stop" not in capfd.readouterr().out
    model = os2s.load(str(whole))
    spoken, rate = model.synthesize("ae i")
    assert rate == RATE and np.abs(spoken[:len(samples)] - samples).max() < 1e-3
    together = model.synthesize(["ou e i a", "ae i"])[1][0]
    np.testing.assert_allclose(together[:len(spoken)], spoken, atol=1e-3)
    with pytest.raises(DataError, match="speed 2.*predicts no durations"):
        model.synthesize("[speed 2] ae i")
    with pytest.raises(UserError, match="call infer or synthesize"):
        model.translate("a")


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_centaur_trains_and_speaks(dtype, folder, tmp_path):
    run = tmp_path / "run"
    assert command(folder, "--mode=train_eval", f"--logdir={run}", "--max_steps=4", f"--dtype={dtype}",
                   recipe="toy-centaur") == 0
    pictures = {path.name for path in run.rglob("step-4/*.png")}
    assert {"alignment.png", "alignment_0.png", "alignment_1.png", "prediction.png"} <= pictures
    # The estimation of phases enlarges rounding errors of the spectrogram.
    model = os2s.load(str(run), {"decoder_params/most_repeated_frames": 20, "griffin_lim_iterations": 0})
    alone, rate = model.synthesize("ae i")
    assert rate == RATE and len(alone) and np.isfinite(alone).all()
    if dtype == "float32":
        together = model.synthesize(["ou e i a", "ae i"])[1][0]
        np.testing.assert_allclose(together, alone, atol=1e-3)
    with pytest.raises(DataError, match="speed 2.*CentaurDecoder predicts no durations"):
        model.synthesize("[speed 2] ae i")


@pytest.mark.long
def test_a_folder_of_results(tmp_path):
    run = "toy:voice"
    (tmp_path / "texts.txt").write_text("ae\nio u\n", encoding="utf-8")
    for _ in range(2):  # earlier results are replaced
        assert main(["speak", run, str(tmp_path / "texts.txt"), f"--output={tmp_path}/spoken"]) == 0
    rows = list(csv.DictReader((tmp_path / "spoken/speech.csv").open()))
    assert [row["wav_filename"] for row in rows] == ["0000.wav", "0001.wav"]
    for row in rows:
        samples, rate = soundfile.read(tmp_path / "spoken" / row["wav_filename"])
        assert float(row["seconds"]) == pytest.approx(len(samples) / rate, abs=1e-3)
        spectrogram = np.load(tmp_path / "spoken" / row["wav_filename"].replace(".wav", ".npy"))
        assert spectrogram.shape[1] == 40 and (len(spectrogram) - 1) * 128 == len(samples)
    assert main(["translate", run, str(tmp_path / "texts.txt")]) == 2


def of_speakers(folder: Path, *words: str, recipe: str = "toy-speakers") -> int:
    suffix, layer = "_aligned" if recipe == "toy-speakers" else "", "data_layer_params"
    return command(folder, f"--{layer}/speakers=['low','high']",
                   *(f"--{mode}_params/{layer}/dataset_files=['{folder}/{name}_speakers{suffix}.csv']"
                     for mode, name in (("train", "train"), ("eval", "dev"))), *words, recipe=recipe)


@pytest.mark.long
def test_several_speakers_resume_to_the_bit_and_speak_by_name(speakers, capfd, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    words = ("--mode=train_eval", "--max_steps=4", "--sound_measures=True")
    assert of_speakers(speakers, f"--logdir={whole}", *words) == 0
    out = capfd.readouterr().out
    assert "speaker low (2 texts): diagonality" in out and "speaker high (2 texts): " in out and "pitch ratio" in out
    assert of_speakers(speakers, f"--logdir={parts}", "--max_steps=2") == 0
    resumed = (f"--logdir={parts}", "--max_steps=4", "--continue_learning")
    capfd.readouterr()
    assert of_speakers(speakers, *resumed, "--data_layer_params/speakers=['high','low']") == 2
    assert "data_layer_params/speakers' is ['high', 'low'] but was ['low', 'high']" in " ".join(
        capfd.readouterr().err.split())
    assert of_speakers(speakers, *resumed) == 0
    one, other = ((run / "model.ckpt-4/weights.safetensors").read_bytes() for run in (whole, parts))
    assert one == other

    text = "ae. [speaker high] ae. [speaker low] iou"
    (tmp_path / "texts.txt").write_text(f"ae\n{text}\n", encoding="utf-8")
    assert main(["speak", str(whole), str(tmp_path / "texts.txt"), f"--output={tmp_path}/spoken",
                 "--data_layer_params/speaker=high"]) == 0
    rows = list(csv.DictReader((tmp_path / "spoken/speech.csv").open()))
    assert [row["speaker"] for row in rows] == ["high", "high, low"]
    assert main(["speak", str(whole), "[speaker carl] ae", f"--output={tmp_path}/no.wav"]) == 2
    assert "There is no speaker 'carl': the model has low, high." in capfd.readouterr().err
    model = os2s.load(str(whole), {"griffin_lim_iterations": 0})
    low, high = (model.synthesize("ae", speaker=name)[0] for name in ("low", "high"))
    assert len(low) != len(high) or np.abs(low - high).max() > 1e-4
    (by_default, _), (by_name, _) = model.synthesize(["ae", "[speaker high] ae"])
    np.testing.assert_allclose(by_default, low, atol=1e-3)
    np.testing.assert_allclose(by_name, high, atol=1e-3)
    with pytest.raises(DataError, match="There is no speaker 'carl': the model has low, high"):
        model.synthesize("ae", speaker="carl")


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["toy-voice", "toy-centaur"])
def test_models_with_attention_learn_several_speakers(recipe, speakers, tmp_path):
    run = tmp_path / "run"
    assert of_speakers(speakers, f"--logdir={run}", "--max_steps=4", recipe=recipe) == 0
    weights = [load_file(run / f"model.ckpt-{step}/weights.safetensors")["encoder/speakers/table"] for step in (2, 4)]
    assert len(weights[1]) == 2 and (np.abs(weights[1] - weights[0]).max(1) > 0).all()
    model = os2s.load(str(run), {"griffin_lim_iterations": 0})
    texts = ["ae i", "[speaker high] ae i", "[speaker low] ou e i a"]
    for together, text in zip(model.synthesize(texts), texts, strict=True):
        alone = model.synthesize(text)[0]
        np.testing.assert_allclose(together[0], alone, atol=1e-3)


@pytest.mark.slow
def test_two_toy_voices_are_understood_and_have_their_own_pitch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_toy_voice("toy_voice_data", {"train": 300, "dev": 20, "test": 20}, voices=2)
    assert main([f"--config_file={RECIPES}/toy-speakers.py", "--mode=train_eval"]) == 0
    rows = [line.split("|") for line in Path("toy_voice_data/test_speakers.csv").read_text().splitlines()]
    model = os2s.load("toy-speakers")
    for speaker, pitch in PITCHES.items():
        texts = [row[2] for row in rows if row[1] == speaker]
        sounds = model.synthesize(texts, speaker=speaker)
        letters = [text.replace(" ", "") for text in texts]
        errors = sum(Levenshtein.distance(text, heard(*sound)) for text, sound in zip(letters, sounds, strict=True))
        assert errors <= 0.05 * sum(map(len, letters))
        voiced = np.concatenate([analysed(*sound).pitch for sound in sounds])
        assert np.nanmedian(voiced) == pytest.approx(pitch, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["toy-voice", "toy-centaur"])
def test_the_toy_voice_is_understood(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_toy_voice("toy_voice_data", {"train": 300, "dev": 20, "test": 20})
    assert main([f"--config_file={RECIPES}/{recipe}.py", "--mode=train_eval"]) == 0
    texts = [line.split("|")[1] for line in Path("toy_voice_data/test.csv").read_text().splitlines()]
    model = os2s.load(recipe)
    letters = [text.replace(" ", "") for text in texts]
    errors = sum(Levenshtein.distance(text, heard(*sound))
                 for text, sound in zip(letters, model.synthesize(texts), strict=True))
    assert errors <= 0.05 * sum(map(len, letters))
