"""Recognisers through the command: training, evaluation, inference, on toy speech."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.data.audio.audio_files import read_audio
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech

pytestmark = pytest.mark.long

RECIPE = Path(__file__).parents[2] / "example_configs/speech2text/toy-w2l.py"


def settings(root: Path, *more: str) -> list[str]:
    lists = [f"--{section}_params/data_layer_params/dataset_files=['{root}/{name}.csv']"
             for section, name in (("train", "train"), ("eval", "dev"), ("infer", "dev"))]
    return [f"--config_file={RECIPE}", f"--logdir={root}/run", *lists,
            f"--data_layer_params/vocab_file={root}/vocab.txt", *more]


@pytest.mark.parametrize("backend", ["librosa", pytest.param("tf", marks=pytest.mark.slow)])
def test_train_evaluate_resume_and_transcribe(tmp_path, capfd, backend):
    write_toy_speech(str(tmp_path), {"train": 32, "dev": 5}, rate=8000)
    run = settings(tmp_path, f"--data_layer_params/backend={backend}", "--num_epochs=None", "--eval_steps=2")
    assert main([*run, "--mode=train_eval", "--max_steps=3", "--print_loss_steps=1", "--print_samples_steps=2"]) == 0
    out = capfd.readouterr().out
    assert "Validation WER" in out and "Sample prediction" in out and "audio frames" in out
    if backend == "librosa":
        assert main([*run, "--mode=train_eval", "--max_steps=5", "--continue_learning"]) == 0
        assert "Resuming training at step 3" in capfd.readouterr().out
        assert main([*run, "--mode=eval"]) == 0
        assert "Validation CER" in capfd.readouterr().out
    assert main([*run, "--mode=infer", f"--infer_output_file={tmp_path}/out.csv"]) == 0
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        assert [row["wav_filename"] for row in csv.DictReader(file)] == [f"wav/dev-{i:04d}.wav" for i in range(5)]
    if backend == "librosa":
        (tmp_path / "vocab.txt").unlink()  # the checkpoint has a copy
        check_a_logdir_is_enough(tmp_path, capfd)


def check_a_logdir_is_enough(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recordings = [f"{root}/wav/dev-0003.wav", f"{root}/wav/dev-0001.wav"]
    output = f"--infer_output_file={root}/few.csv"
    assert main(["--mode=infer", f"--logdir={root}/run", output, "--infer_files", *recordings]) == 0
    with open(root / "few.csv", encoding="utf-8", newline="") as file:
        assert [row["wav_filename"] for row in csv.DictReader(file)] == recordings
    capfd.readouterr()
    assert main(["transcribe", f"{root}/run", *recordings]) == 0
    assert capfd.readouterr().out == (root / "few.csv").read_text(encoding="utf-8")
    assert main(["transcribe", f"{root}/run", *recordings, "--format=json"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    with open(root / "few.csv", encoding="utf-8", newline="") as file:
        assert [[one["recording"], one["text"]] for one in found] == list(csv.reader(file))[1:]
    assert main(["transcribe", f"{root}/run", *recordings, "--format=srt"]) == 2
    assert "there are 2: give the name of a folder" in capfd.readouterr().err
    check_a_model_in_python(root, recordings)
    capfd.readouterr()
    assert main(["--mode=infer", f"--logdir={root}/run", output, "--infer_files", f"{root}/none.wav"]) == 2
    assert "none.wav, which does not exist" in capfd.readouterr().err
    assert main(["--mode=infer", f"--logdir={root}/wav", output, "--infer_files", *recordings]) == 2
    assert "has no checkpoint" in capfd.readouterr().err


def check_a_model_in_python(root: Path, recordings: list[str]) -> None:
    with open(root / "few.csv", encoding="utf-8", newline="") as file:
        expected = [row["predicted_transcript"] for row in csv.DictReader(file)]
    for values in ({}, {"batch_size_per_gpu": 3, "batch_size_unit": "seconds"}):
        model = open_seq2seq.load(f"{root}/run", values)
        audio = [(read_audio(name, 16000), 16000) for name in recordings]
        assert model.transcribe([*recordings, *audio, recordings[0]])[:2] == expected
        assert model.transcribe(recordings[1]) == expected[1]
        assert isinstance(model.transcribe(audio[0]), str)


@pytest.mark.parametrize(("backend", "cached"), [("librosa", True), pytest.param("tf", False, marks=pytest.mark.slow)])
def test_a_resumed_run_draws_what_the_whole_one_drew(tmp_path, backend, cached):
    """Speeds, noise and masks, of three batches an epoch."""
    write_toy_speech(str(tmp_path), {"train": 24}, rate=8000)
    layer = {"type": "conv1d", "repeat": 1, "kernel_size": [7], "stride": [2], "num_channels": 16, "padding": "SAME"}
    augmentation = {"speed_perturbation_ratio": 0.05, "noise_level_min": -70, "noise_level_max": -50, "n_freq_mask": 1,
                    "width_freq_mask": 4, "n_time_mask": 1, "width_time_mask": 4}
    run = [*settings(tmp_path), "--mode=train", "--dtype=float32", "--num_epochs=None", "--batch_size_per_gpu=8",
           "--save_checkpoint_steps=100", f"--data_layer_params/backend={backend}",
           f"--data_layer_params/cache_features={cached}", f"--encoder_params/convnet_layers={[layer]}",
           f"--train_params/data_layer_params/augmentation={augmentation}"]
    assert main([*run, f"--logdir={tmp_path}/whole", "--max_steps=6"]) == 0
    assert main([*run, f"--logdir={tmp_path}/parts", "--max_steps=4"]) == 0
    assert main([*run, f"--logdir={tmp_path}/parts", "--max_steps=6", "--continue_learning"]) == 0
    whole, parts = (tmp_path / name / "model.ckpt-6" / "weights.safetensors" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()


@pytest.mark.slow
def test_the_toy_recipe_learns(tmp_path, capfd):
    write_toy_speech(str(tmp_path), {"train": 400, "dev": 50}, rate=8000)
    assert main([*settings(tmp_path), "--mode=train_eval"]) == 0
    lines = [line for line in capfd.readouterr().out.splitlines() if "Validation WER" in line]
    assert float(lines[-1].split("WER: ")[1].split("%")[0]) < 10.0
