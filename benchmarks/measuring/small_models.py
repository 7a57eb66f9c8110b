"""Four small models with generated data, used to compare processors."""

from __future__ import annotations

import pprint
from pathlib import Path
from typing import Any

import numpy as np

TRANSFORMER, JASPER, DEEP_SPEECH, RECURRENT = "Transformer", "Jasper-like", "DS2-like", "GRU stack"
_WORDS, _PAIRS, _UTTERANCES = 8000, 6000, 192
_FEATURES = 64


def write_small_models(folder: Path) -> dict[str, Path]:
    """Writes data and configs; returns the path of each model's config, by the model's name.

    Args:
      folder: existing folder to write to.
    """
    from open_seq2seq.data.speech2text.toy_speech import write_toy_speech

    _write_text(folder)
    write_toy_speech(str(folder / "speech"), {"train": _UTTERANCES, "test": 32}, (3, 4))
    convolutions = [{"kernel_size": [11, 41], "stride": [2, 2], "num_channels": 32, "padding": "SAME"},
                    {"kernel_size": [11, 21], "stride": [1, 2], "num_channels": 32, "padding": "SAME"}]
    configs = {TRANSFORMER: _transformer(folder), JASPER: _jasper(folder),
               DEEP_SPEECH: _deep_speech(folder, 16, convolutions, 256, bidirectional=True),
               RECURRENT: _deep_speech(folder, 32, [], 512, bidirectional=False)}
    return {name: write_config(folder / f"model_{number}.py", *config)
            for number, (name, config) in enumerate(configs.items())}


def write_config(path: Path, base_model: str, sections: dict[str, Any]) -> Path:
    """Writes a config to ``path``, which is returned."""
    lines = [f"base_model = {base_model!r}",
             *(f"{name} = {pprint.pformat(params)}" for name, params in sections.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _write_text(folder: Path) -> None:
    """Writes sentence pairs with Multi30k's lengths and vocabulary size; word frequencies follow Zipf's law."""
    random = np.random.default_rng(0)
    shares = 1.0 / np.arange(1, _WORDS + 1)
    (folder / "vocab.txt").write_text("".join(f"w{number}\n" for number in range(_WORDS)), encoding="utf-8")
    for name, count in (("train", _PAIRS), ("test", 256)):
        lengths = np.clip(random.normal(14.0, 4.0, count).round(), 4, 40).astype(int)
        for side in ("source", "target"):
            words = random.choice(_WORDS, [count, 40], p=shares / shares.sum())
            lines = [" ".join(f"w{word}" for word in row[:length]) for row, length in zip(words, lengths, strict=True)]
            (folder / f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def base_params(folder: Path, batch_size: int) -> dict[str, Any]:
    """Returns the parameters of a training with Adam."""
    return {"batch_size_per_gpu": batch_size, "max_steps": 100_000, "random_seed": 0, "logdir": str(folder / "run"),
            "optimizer": "Adam", "lr_policy": "fixed_lr", "lr_policy_params": {"learning_rate": 1e-4}}


def _transformer(folder: Path) -> tuple[str, dict[str, Any]]:
    """Returns the model of the Multi30k recipe: 3 + 3 layers of 256 channels, batches of 2048 tokens."""
    shared = {"hidden_size": 256, "num_heads": 4, "filter_size": 1024, "attention_dropout": 0.1, "relu_dropout": 0.1,
              "layer_postprocess_dropout": 0.3}
    text = {"src_vocab_file": str(folder / "vocab.txt"), "tgt_vocab_file": str(folder / "vocab.txt"),
            "special_tokens_already_in_vocab": False, "use_start_token": False, "delimiter": " ", "max_length": 64}
    base = {**base_params(folder, 2048), "encoder": "TransformerEncoder", "decoder": "TransformerDecoder",
            "encoder_params": {"encoder_layers": 3, "remove_padding": True, **shared},
            "decoder_params": {"num_hidden_layers": 3, "beam_size": 4, "alpha": 0.6, "extra_decode_length": 2,
                               "EOS_ID": 1, **shared},
            "loss": "PaddedCrossEntropyLossWithSmoothing", "loss_params": {"label_smoothing": 0.1},
            "data_layer": "ParallelTextDataLayer", "data_layer_params": text}
    train = {"source_file": str(folder / "train.source"), "target_file": str(folder / "train.target"),
             "batch_size_unit": "tokens", "shuffle": True}
    infer = {"source_file": str(folder / "test.source")}
    return "Text2Text", {"base_params": base, "train_params": {"data_layer_params": train},
                         "infer_params": {"batch_size_per_gpu": 64, "data_layer_params": infer}}


def _speech(folder: Path, batch_size: int, encoder: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    layer = {"input_type": "logfbank", "num_audio_features": _FEATURES, "cache_features": True,
             "cache_dir": str(folder / "features"), "vocab_file": str(folder / "speech" / "vocab.txt")}
    base = {**base_params(folder, batch_size), "encoder": encoder, "encoder_params": params,
            "decoder": "FullyConnectedCTCDecoder", "decoder_params": {"use_language_model": False}, "loss": "CTCLoss",
            "data_layer": "Speech2TextDataLayer", "data_layer_params": layer}
    files = {f"{mode}_params": {"data_layer_params": {"dataset_files": [str(folder / "speech" / f"{name}.csv")]}}
             for mode, name in (("train", "train"), ("infer", "test"))}
    return "Speech2Text", {"base_params": base, **files}


def _jasper(folder: Path) -> tuple[str, dict[str, Any]]:
    """Returns a model of convolutions over time with 256 to 512 channels and residual connections."""
    def block(repeat: int, taps: int, channels: int, stride: int = 1, residual: bool = False) -> dict[str, Any]:
        return {"type": "conv1d", "repeat": repeat, "kernel_size": [taps], "stride": [stride], "num_channels": channels,
                "padding": "SAME", "dilation": [1], "residual": residual}

    layers = [block(1, 11, 256, stride=2), block(2, 11, 256, residual=True), block(2, 13, 384, residual=True),
              block(1, 17, 512), block(1, 1, 512)]
    return _speech(folder, 16, "TDNNEncoder", {"convnet_layers": layers, "dropout_keep_prob": 0.8,
                                               "activation_fn": "relu"})


def _deep_speech(folder: Path, batch_size: int, convolutions: list[dict[str, Any]], units: int,
                 bidirectional: bool) -> tuple[str, dict[str, Any]]:
    """Returns a model of convolutions over time and frequency, then two recurrent layers."""
    return _speech(folder, batch_size, "DeepSpeech2Encoder", {
        "conv_layers": convolutions, "num_rnn_layers": 2, "rnn_type": "gru", "rnn_cell_dim": units,
        "rnn_unidirectional": not bidirectional, "use_cudnn_rnn": True, "row_conv": False, "n_hidden": 512,
        "dropout_keep_prob": 0.8, "activation_fn": "relu20"})
