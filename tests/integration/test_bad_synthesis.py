"""Settings, clips and spectrograms that WaveNet, vocoders and Centaur cannot use: one sentence and exit code 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from open_seq2seq.cli import main
from open_seq2seq.data.text2speech.toy_voice import RATE, write_toy_voice

RECIPES = Path(__file__).parents[2] / "example_configs/text2speech"
LAYER = "data_layer_params"
CAUSAL = "{'kernel_size': [5], 'stride': [%d], 'num_channels': %d, 'padding': 'VALID', 'is_causal': True}"

SETTINGS = [
    ("toy-wavenet", ["--encoder_params/filters=31"], "filters' is 31, but must be a multiple of 2"),
    ("toy-wavenet", [f"--{LAYER}/num_audio_features=39"], "num_audio_features' is 39, but must be an even number"),
    ("toy-wavenet", ["--encoder_params/upsampling_strides=[16,4]"], "integers whose product is 128"),
    ("toy-wavenet", ["--encoder_params/mixture_components=0"], "mixture_components' is 0"),
    ("toy-wavenet", ["--encoder_params/padding=SAME"], "encoder_params/padding' is"),
    ("toy-wavenet", [f"--{LAYER}/segment_frames=2", f"--{LAYER}/context_frames=1"],
     "has 384 samples, of which none has the 511 samples"),
    ("toy-wavenet", ["--fold_frames=2"], "fold_frames' is 2"),
    ("toy-wavenet", ["--sampling_temperature=-1.0"], "sampling_temperature' is -1.0"),
    ("toy-wavenet", [f"--train_params/{LAYER}/dataset_files=['none.csv']"], "none.csv"),
    ("toy-wavenet", [f"--train_params/{LAYER}/dataset_files=['%/lost.csv']"], "lost does not exist"),
    ("toy-wavenet", [f"--train_params/{LAYER}/dataset_files=['%/quiet.csv']"], "is silent"),
    ("toy-vocoder", ["--loss_params/resolutions=[510]"], "resolutions' is [510], but must be different multiples of 4"),
    ("toy-vocoder", ["--encoder_params/source=noise"], "encoder_params/source' is"),
    ("toy-vocoder", ["--encoder_params/blocks=-1"], "encoder_params/blocks' is -1"),
    ("toy-vocoder", [f"--{LAYER}/n_fft=510"], "n_fft' is 510, but must be a multiple of 4"),
    ("toy-vocoder", ["--loss=None"], "'loss'"),
    ("toy-voice", ["--vocoder=no-vocoder"], "'vocoder' is no-vocoder, which does not exist"),
    ("toy-centaur", [f"--decoder_params/conv_layers=[{CAUSAL % (2, 128)}]"], "stride' is [2], but must be [1]"),
    ("toy-centaur", [f"--decoder_params/conv_layers=[{CAUSAL % (1, 64)}]"], "num_channels' is 64, but must be 128"),
    ("toy-centaur", ["--decoder_params/attention_heads=3"], "attention_heads' is 3 but has to divide hidden_size"),
    ("toy-centaur", ["--decoder_params/force_layers=[2]"], "force_layers' is [2], but has to be a list"),
    ("toy-centaur", ["--decoder_params/back_step_size=2"], "back_step_size' is 2, but has to be below window_size"),
    ("toy-centaur", [f"--decoder_params/mag_conv_layers=[{CAUSAL % (1, 128)}]"], "mag_conv_layers' has to be []"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("voice")
    write_toy_voice(str(folder), {"train": 4, "dev": 2, "test": 2})
    soundfile.write(folder / "wavs/quiet.wav", np.zeros(4000), RATE)
    for name in ("lost", "quiet"):
        (folder / f"{name}.csv").write_text(f"{name}|a|a\ntrain-0000|a|a\n")
    np.save(folder / "narrow.npy", np.zeros([5, 39], np.float32))
    np.save(folder / "endless.npy", np.full([5, 40], np.inf, np.float32))
    (folder / "text.npy").write_text("no array")
    return folder


def command(folder: Path, recipe: str, *words: str) -> int:
    vocabulary = [] if recipe in ("toy-wavenet", "toy-vocoder") else [f"--{LAYER}/vocab_file={folder}/vocab.txt"]
    return main([f"--config_file={RECIPES}/{recipe}.py", f"--{LAYER}/dataset_location={folder}",
                 f"--train_params/{LAYER}/dataset_files=['{folder}/train.csv']", "--max_steps=1",
                 "--batch_size_per_gpu=2", "--save_summaries_steps=None", "--print_samples_steps=None", *vocabulary,
                 *(word.replace("%", str(folder)) for word in words)])


def sentence(capfd) -> str:
    """Returns what an ended command has said on standard error, if that is one line."""
    error = capfd.readouterr().err
    assert "Traceback" not in error
    return "\n".join(line for line in error.splitlines() if line.strip())


@pytest.mark.long
@pytest.mark.parametrize(("recipe", "words", "message"), SETTINGS)
def test_training_is_refused(folder, tmp_path, capfd, recipe, words, message):
    assert command(folder, recipe, f"--logdir={tmp_path}/run", *words) == 2
    said = sentence(capfd)
    assert message in said and said.count("\n") == 0, said


@pytest.mark.long
def test_spectrograms_and_vocoders_that_do_not_fit_are_refused(folder, tmp_path, capfd):
    logdir = f"--logdir={tmp_path}/wavenet"
    assert command(folder, "toy-wavenet", logdir, "--encoder_params/filters=4") == 0
    for name, message in (("narrow.npy", "is no spectrogram of the model: it must be numbers [frames, 40]"),
                          ("endless.npy", "has values that are not finite"), ("text.npy", "is not a file .npy"),
                          ("none.npy", "none.npy")):
        capfd.readouterr()
        assert main(["--mode=infer", logdir, "--infer_files", f"{folder}/{name}",
                     f"--infer_output_file={tmp_path}/out"]) == 2
        assert message in (said := sentence(capfd)) and said.count("\n") == 0
    assert command(folder, "toy-voice", f"--logdir={tmp_path}/voice") == 0
    capfd.readouterr()
    assert main(["speak", f"{tmp_path}/voice", "ae", f"--vocoder={tmp_path}/wavenet"]) == 2
    assert "a Text2SpeechWavenet: give the log directory of a Text2SpeechVocoder" in sentence(capfd)
