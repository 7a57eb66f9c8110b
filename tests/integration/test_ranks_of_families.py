"""Each family on two ranks: the updates of ``iter_size`` 2, dropout included, and a resumed run of the same bits.

All families share two launches, because a launch takes longer than the small runs in it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.cli import main
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.data.image2label.toy_images import SHAPES, write_toy_folders
from open_seq2seq.data.text2speech.toy_voice import RATE, write_toy_voice
from scripts.create_toy_text import main as create_toy_text
from tests.integration.ranks import NEEDS_HOROVOD, assert_identical, on_ranks
from tests.unit.models.test_multi_decoder_model import params_in
from tests.unit.models.test_pairs import corpus, params_of  # noqa: F401  # a fixture

pytestmark = [*NEEDS_HOROVOD, pytest.mark.timeout(1800)]  # the first test waits for all the runs of `runs`

STEPS, STOP = 3, 2
SETTINGS = {"batch_size_per_gpu": 2, "max_steps": STEPS, "save_checkpoint_steps": 1, "num_checkpoints": 9,
            "random_seed": 5, "dtype": "float32", "print_loss_steps": None, "optimizer": "Momentum",
            "optimizer_params": {"momentum": 0.5}, "lr_policy": "fixed_lr", "lr_policy_params": {"learning_rate": 0.1}}


def language_model(root: Path) -> dict[str, Any]:
    """An LSTM with dropout of its weights, whose state is carried from chunk to chunk."""
    create_toy_text([f"--output_dir={root}/text", "--lines=50"])
    return {"encoder": "LMEncoder",
            "encoder_params": {"core_cell": "LSTMCell", "core_cell_params": {"num_units": 8}, "encoder_layers": 1,
                               "emb_size": 8, "weight_tied": True, "variational_recurrent": True,
                               "encoder_emb_keep_prob": 0.9, "recurrent_weight_keep_prob": 0.8},
            "decoder": "FakeDecoder", "loss": "BasicSequenceLoss",
            "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},
            "activation_regularization": 2.0, "temporal_activation_regularization": 1.0,
            "data_layer": "WKTDataLayer",
            "data_layer_params": {"data_root": f"{root}/text", "processed_data_folder": f"{root}/processed", "bptt": 6,
                                  "carry_state": True}}


def image_classifier(root: Path) -> dict[str, Any]:
    """A small ResNet on augmented images; its moving statistics are those of the last batch alone."""
    write_toy_folders(f"{root}/images", {"train": 20})
    return {"encoder": "ResNetEncoder",
            "encoder_params": {"block_sizes": [1, 1], "first_num_filters": 4, "first_kernel_size": 3,
                               "first_conv_stride": 1, "first_pool_size": 0, "bn_momentum": 0.0},
            "decoder": "FullyConnectedDecoder", "loss": "CrossEntropyLoss", "batch_size_per_gpu": 4,
            "data_layer": "ImageFolderDataLayer",
            "data_layer_params": {"folder": f"{root}/images/train", "classes": list(SHAPES), "image_size": 16,
                                  "resize_size": 16, "train_crop": "resized", "color_jitter": 0.2, "mixup": 0.2}}


def voice(root: Path) -> dict[str, Any]:
    """A small Tacotron 2 with all its dropout and guided attention."""
    write_toy_voice(f"{root}/voice", {"train": 12})
    conv = {"kernel_size": [3], "stride": [1], "num_channels": 8, "padding": "SAME"}
    return {"encoder": "Tacotron2Encoder",
            "encoder_params": {"cnn_dropout_prob": 0.1, "rnn_dropout_prob": 0.1, "src_emb_size": 8,
                               "conv_layers": [conv], "activation_fn": "relu", "num_rnn_layers": 1, "rnn_cell_dim": 8,
                               "use_cudnn_rnn": False, "rnn_type": "LSTMCell", "rnn_unidirectional": False},
            "decoder": "Tacotron2Decoder",
            "decoder_params": {"attention_layer_size": 8, "attention_type": "location", "decoder_cell_units": 8,
                               "decoder_cell_type": "LSTMCell", "decoder_layers": 1, "dropout_prob": 0.1,
                               "enable_prenet": True, "prenet_layers": 1, "prenet_units": 8, "reduction_factor": 2,
                               "enable_postnet": True, "postnet_keep_dropout_prob": 0.9,
                               "postnet_conv_layers": [{**conv, "num_channels": -1, "activation_fn": None}]},
            "loss": "Text2SpeechLoss", "loss_params": {"guided_attention_weight": 1.0},
            "data_layer": "Text2SpeechDataLayer",
            "data_layer_params": {"dataset": "LJ", "dataset_location": f"{root}/voice", "output_type": "mel",
                                  "dataset_files": [f"{root}/voice/train.csv"], "vocab_file": f"{root}/voice/vocab.txt",
                                  "num_audio_features": 10, "feature_normalize": False, "sample_freq": RATE,
                                  "n_fft": 512, "pad_to": 2}}


def convolutional_voice(root: Path) -> dict[str, Any]:
    """A small Centaur with all its dropout, on the clips of ``voice``."""
    conv = {"kernel_size": [3], "stride": [1], "num_channels": 8, "padding": "SAME"}
    causal = {**conv, "padding": "VALID", "is_causal": True}
    params = voice(root)
    return {**params, "encoder": "CentaurEncoder",
            "encoder_params": {"embedding_size": 8, "output_size": 8, "conv_layers": [conv], "cnn_dropout_prob": 0.1},
            "decoder": "CentaurDecoder",
            "decoder_params": {"prenet_layers": 1, "prenet_hidden_size": 8, "hidden_size": 8, "conv_layers": [causal],
                               "mag_conv_layers": [causal], "attention_layers": 2, "reduction_factor": 2,
                               "self_attention_conv_params": causal, "attention_dropout": 0.1,
                               "layer_postprocess_dropout": 0.1},
            "data_layer_params": {**params["data_layer_params"], "output_type": "both",
                                  "num_audio_features": {"mel": 10, "magnitude": 257}}}


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory, corpus: dict[str, Any]) -> dict[str, Path]:  # noqa: F811
    """The config file of each family."""
    root = tmp_path_factory.mktemp("families")
    texts = {**corpus, "shuffle": True}
    families = {
        "recurrent": ("Text2Text", params_of("GNMTLikeEncoderWithEmbedding", "RNNDecoderWithAttention", texts)),
        "convolutional": ("Text2Text", params_of("ConvS2SEncoder", "ConvS2SDecoder", texts)),
        "several languages": ("MultiDecoderModel", params_in(root)),
        "language model": ("LSTMLM", language_model(root)),
        "images": ("Image2Label", image_classifier(root)),
        "voice": ("Text2SpeechTacotron", voice(root)),
        "convolutional voice": ("Text2SpeechCentaur", convolutional_voice(root))}
    files = {}
    for family, (model, params) in families.items():
        files[family] = root / f"{family.replace(' ', '_')}.yaml"
        files[family].write_text(to_yaml({"base_model": model, "base_params": {**params, **SETTINGS}}))
    return files


def arguments(config: Path, run: str, *more: str) -> list[str]:
    return [f"--config_file={config}", "--mode=train", f"--logdir={config.with_suffix('')}/{run}", *more]


@pytest.fixture(scope="module")
def runs(configs: dict[str, Path]) -> dict[str, Path]:
    """For each family the folder of its runs: ``single``, ``whole`` on two ranks, and ``parts``, its end.

    The classifier of images also has ``first``: one update from the first rank's micro-batch alone.
    """
    folder = next(iter(configs.values())).parent
    for config in configs.values():
        assert main(arguments(config, "single", "--iter_size=2")) == 0
    assert main(arguments(configs["images"], "first", "--max_steps=1")) == 0
    first, *others = [arguments(config, "whole") for config in configs.values()]
    code, output = on_ranks(2, folder, *first, then=others)
    assert code == 0, output
    for config in configs.values():
        name = f"model.ckpt-{STOP}"
        shutil.copytree(config.with_suffix("") / "whole" / name, config.with_suffix("") / "parts" / name)
    first, *others = [arguments(config, "parts", "--continue_learning") for config in configs.values()]
    code, output = on_ranks(2, folder, *first, then=others)
    assert code == 0, output
    return {family: config.with_suffix("") for family, config in configs.items()}


def saved(folder: Path, run: str, file: str, step: int = STEPS) -> dict[str, np.ndarray]:
    return load_file(folder / run / f"model.ckpt-{step}" / f"{file}.safetensors")


STATISTICS = ("/moving_mean", "/moving_variance")
FAMILIES = ("recurrent", "convolutional", "several languages", "language model", "images", "voice",
            "convolutional voice")


@pytest.mark.parametrize("family", FAMILIES)
def test_two_ranks_are_iter_size_2(family: str, runs: dict[str, Path]):
    stopped, ended = (saved(runs[family], "whole", "weights", step) for step in (STOP, STEPS))
    assert not any(np.array_equal(values, ended[name]) for name, values in stopped.items())
    for file in ("weights", "optimizer"):
        single, ranks = (saved(runs[family], run, file) for run in ("single", "whole"))
        assert single.keys() == ranks.keys()
        for name, values in single.items():
            if not name.endswith(STATISTICS):  # which are those of the last micro-batch, and averages over ranks
                np.testing.assert_allclose(ranks[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resumed_run_is_the_same_to_the_bit(family: str, runs: dict[str, Path]):
    for file in ("weights", "optimizer"):
        assert_identical(saved(runs[family], "whole", file), saved(runs[family], "parts", file))


def test_statistics_of_batch_norm_are_means_over_ranks(runs: dict[str, Path]):
    """With the momentum 0 they are those of one batch: of the first rank, and of the second micro-batch."""
    first, single, ranks = (saved(runs["images"], run, "weights", 1) for run in ("first", "single", "whole"))
    names = [name for name in ranks if name.endswith(STATISTICS)]
    assert names
    for name in names:
        assert not np.allclose(first[name], single[name], rtol=1e-2)
        np.testing.assert_allclose(ranks[name], (first[name] + single[name]) / 2, rtol=1e-4, atol=1e-6, err_msg=name)
