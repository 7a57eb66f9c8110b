"""The recipes of speech synthesis train at a small width on the toy voice; sizes of the published networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings
from open_seq2seq.data.text2speech.toy_voice import write_toy_voice
from open_seq2seq.encoders import VocosEncoder
from open_seq2seq.parts.component import named_variables
from tests.unit.example_configs.recipes import EXAMPLES, assert_trains, num_weights, params_of

FOLDER = EXAMPLES / "text2speech"
RECIPES = sorted(FOLDER.glob("*.py"))
NARROW = ("num_channels", "rnn_cell_dim", "src_emb_size", "emb_size", "attention_layer_size", "decoder_cell_units",
          "prenet_units", "duration_units", "embedding_size", "output_size", "hidden_size", "prenet_hidden_size",
          "inner_size")
# Trained weights of the original, with its vocabulary of 94 symbols; its two cuDNN cells have second biases of 4 x 256.
# The tokens of styles, 32 x 512, are not trained.
WEIGHTS = {"tacotron_float": 26_925_153 - 2048, "tacotron_gst": 30_374_721 - 2048 + 16_384,
           "centaur_float": 22_574_244}
# At a small width these train the same layers as the others, or tests of whole commands train them.
LIKE_OTHERS = ("tacotron_float", "tacotron_mixed", "tacotron_float_8gpu", "tacotron_mixed_8gpu", "toy-centaur",
               "toy-speakers", "toy-voice", "toy-vocoder", "wavenet_mixed", "wavenet_float_8gpu", "wavenet_mixed_8gpu")


@pytest.fixture(scope="session")
def voice(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("voice")
    write_toy_voice(str(folder), {"train": 2}, voices=2)
    return folder


def narrowed(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: narrowed(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [narrowed(item) for item in value]
    return max(8, value // 16) if key in NARROW and value > 0 else value


@pytest.mark.long
@pytest.mark.parametrize("recipe", [pytest.param(recipe, id=recipe.stem, marks=[
    pytest.mark.slow] if recipe.stem in LIKE_OTHERS else []) for recipe in RECIPES])
def test_recipe_trains(recipe: Path, voice: Path, tmp_path: Path):
    base_model, params = params_of(recipe)
    params = narrowed(params)
    params.update(logdir=None, batch_size_per_gpu=2, num_epochs=None, max_steps=2, save_summaries_steps=None)
    aligned = "train_speakers_aligned.csv" if params["data_layer_params"].get("speakers") else "train_aligned.csv"
    params["data_layer_params"].update(dataset_files=[str(voice / aligned)], dataset_location=str(voice),
                                       duration_min=0)
    if base_model == "Text2SpeechWavenet":
        params["encoder_params"].update(blocks=1, layers_per_block=3, filters=8)
    elif base_model == "Text2SpeechVocoder":
        params["data_layer_params"].update(sample_freq=8000, n_fft=512, segment_frames=12)
    else:
        params["data_layer_params"].update(symbols="characters", vocab_file=str(voice / "vocab.txt"))
    assert_trains(base_model, params, tmp_path)


def test_a_vocoder_for_cpus_has_few_weights():
    params = params_of(FOLDER / "kathleen-vocoder.py")[1]["encoder_params"]
    encoder = VocosEncoder({**params, "settings": SpectrogramSettings()})
    assert sum(variable.shape.num_elements() for variable in named_variables(encoder).values()) == 1_871_107


@pytest.mark.parametrize("recipe", WEIGHTS)
def test_number_of_weights(recipe: str, tmp_path: Path, voice: Path):
    base_model, params = params_of(FOLDER / f"{recipe}.py")
    (tmp_path / "vocab.txt").write_text("\n".join(map(chr, range(0x20, 0x20 + 91))) + "\n", encoding="utf-8")
    params["data_layer_params"].update(dataset_files=[str(voice / "train.csv")], dataset_location=str(voice),
                                       vocab_file=str(tmp_path / "vocab.txt"), duration_min=0, style_input=None)
    assert num_weights(base_model, params) == WEIGHTS[recipe]
