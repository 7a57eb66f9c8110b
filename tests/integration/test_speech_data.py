"""Speech data through the command: --check, training, resuming in the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_seq2seq.cli import main
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech

CONFIG = '''
import sys
sys.path.insert(0, {here!r})
from tiny_recognizer import Convolutions, Ctc, Letters, TinyRecognizer

base_model = TinyRecognizer
base_params = {{
    "random_seed": 1, "batch_size_per_gpu": 8, "max_steps": 6, "optimizer": "Adam", "lr_policy": "fixed_lr",
    "lr_policy_params": {{"learning_rate": 0.003}}, "dtype": "float32", "save_checkpoint_steps": 100,
    "eval_steps": 1000, "logdir": {root!r} + "/run", "print_loss_steps": 20, "num_checkpoints": 9,
    "data_layer": "Speech2TextDataLayer",
    "data_layer_params": {{
        "dataset_files": [{root!r} + "/train.csv"], "vocab_file": {root!r} + "/vocab.txt", "sample_freq": 8000,
        "input_type": "logfbank", "num_audio_features": 40, "backend": "librosa", "dither": 1e-5,
        "augmentation": {{"speed_perturbation_ratio": 0.05, "noise_level_min": -70, "noise_level_max": -50,
                         "n_freq_mask": 1, "width_freq_mask": 4, "n_time_mask": 1, "width_time_mask": 4}}}},
    "encoder": Convolutions, "encoder_params": {{"num_features": 40, "hidden_size": 96}},
    "decoder": Letters, "decoder_params": {{"hidden_size": 96}}, "loss": Ctc,
}}
eval_params = {{"data_layer_params": {{"dataset_files": [{root!r} + "/dev.csv"]}}}}
'''


def prepare(root: Path, train: int) -> str:
    write_toy_speech(str(root), {"train": train, "dev": 20}, rate=8000)
    (root / "config.py").write_text(CONFIG.format(root=str(root), here=str(Path(__file__).parent)))
    return f"--config_file={root}/config.py"


@pytest.mark.long
@pytest.mark.parametrize(("backend", "cached"), [("librosa", True), pytest.param("tf", False, marks=pytest.mark.slow)])
def test_a_resumed_run_draws_what_the_whole_one_drew(tmp_path, backend, cached):
    config = prepare(tmp_path, 24)  # three batches an epoch
    settings = [config, "--mode=train", f"--data_layer_params/backend={backend}",
                f"--data_layer_params/cache_features={cached}", "--save_checkpoint_steps=100"]
    assert main([*settings, f"--logdir={tmp_path}/whole"]) == 0
    assert main([*settings, f"--logdir={tmp_path}/parts", "--max_steps=4"]) == 0
    assert main([*settings, f"--logdir={tmp_path}/parts", "--continue_learning"]) == 0
    whole, parts = (tmp_path / name / "model.ckpt-6" / "weights.safetensors" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()


# Batches by seconds are tried by the unit tests of the data layer.
@pytest.mark.long
@pytest.mark.parametrize("unit", ["sentences", pytest.param("seconds", marks=pytest.mark.slow)])
def test_check(tmp_path, capfd, unit):
    config = prepare(tmp_path, 24)
    settings = [config, "--mode=train_eval", "--check", f"--data_layer_params/batch_size_unit={unit}"]
    assert main(settings) == 0
    out = capfd.readouterr().out
    assert "24 of 24 recordings were decoded" in out and "The config can be run" in out

    broken = tmp_path / "wav" / "train-0007.wav"
    content = bytearray(broken.read_bytes())
    content[44:] = bytes(len(content) - 44)  # silence, which the header does not show
    broken.write_bytes(content)
    assert main(settings) == 2
    captured = capfd.readouterr()
    assert "train.csv:9: wav/train-0007.wav is silent" in captured.err and "Traceback" not in captured.err
    assert main([*settings, "--data_layer_params/on_bad_example=skip"]) == 0
    assert "to be skipped: 1 bad example: 1 silent" in capfd.readouterr().out


@pytest.mark.long
def test_training_stops_or_goes_on_at_a_bad_recording(tmp_path, capfd):
    config = prepare(tmp_path, 24)
    broken = tmp_path / "wav" / "train-0007.wav"
    broken.write_bytes(broken.read_bytes()[:300])
    assert main([config, "--mode=train"]) == 2
    assert "train.csv:9: wav/train-0007.wav is truncated" in capfd.readouterr().err
    assert main([config, "--mode=train", "--data_layer_params/on_bad_example=skip"]) == 0
    assert "1 truncated" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["psf", "librosa", "tf"])
def test_the_toy_language_is_learned(tmp_path, capfd, backend):
    config = prepare(tmp_path, 400)
    assert main([config, "--mode=train_eval", "--max_steps=900", f"--data_layer_params/backend={backend}"]) == 0
    right = float(capfd.readouterr().out.rpartition("Whole utterances right: ")[2].split()[0])
    assert right >= 0.8
