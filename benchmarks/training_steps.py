"""Times training steps, also of other toolkits: a language model, GNMT, a ResNet for CIFAR, Tacotron 2 or WaveNet.

    python benchmarks/training_steps.py lm --torch_python ~/torch/bin/python
    python benchmarks/training_steps.py gnmt --input_feeding --layers 2 --hidden 320 --torch_python ~/torch/bin/python
    python benchmarks/training_steps.py resnet --dtypes mixed --keras_jit
    python benchmarks/training_steps.py tacotron --hidden 512 --layers 1 --torch_python ~/torch/bin/python
    python benchmarks/training_steps.py wavenet --hidden 64 --layers 10 --blocks 3 --batch 2 --frames 64

All toolkits take turns on random data. PyTorch is measured if ``--torch_python`` names an interpreter that has it.

``lm`` is an LSTM with softmax over the whole vocabulary with tied weights, on chunks of ``--length`` tokens, without
dropout. ``gnmt`` translates sentences of ``--length`` tokens, so that nothing is padded. Its decoder is that of
NVIDIA's GNMT v2, which computes the attention for all target positions at once, or with ``--input_feeding`` that of
NVIDIA's OpenSeq2Seq, which computes the attention in its loop over the positions. ``resnet`` trains on images that are
padded, cropped at random, mirrored at random and standardised: by the toolkit's own input pipeline, by ``tf.data`` for
Keras' ``fit``, and in the loop of PyTorch. ``tacotron`` learns to speak texts of ``--length`` symbols in ``--frames``
frames, one in each step, with teacher forcing; with 1,024 units and 2 layers, it is the published network without
magnitudes, and all sizes but those of the attention fall with ``--hidden``. ``wavenet`` learns the samples of clips of
``--frames`` frames with ``--blocks`` blocks of ``--layers`` layers; the example is the published network.

The lines "input wait" give the share of the time for which the toolkit's steps wait for input. The last lines, "raw
products", give the time of matrix products with as many multiplications and additions as those of a step, without any
other operation.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.measuring.peer_process import PeerProcess
from benchmarks.measuring.products import Product, describe_products
from benchmarks.measuring.programs import Pass, comparison_table, describe_machine, make_parser, run_program, take_turns
from benchmarks.measuring.settings import dtype_overrides
from benchmarks.measuring.small_models import base_params, write_config
from benchmarks.measuring.trainings import Training
from open_seq2seq.utils.errors import UserError

_BATCHES = 16  # in an epoch
_SIDE, _CLASSES = 32, 10  # of CIFAR
_LETTERS, _MELS, _ATTENTION, _RATE, _HOP = 26, 80, 128, 22_050, 256  # of Tacotron 2
_LEVELS = 256  # of WaveNet


class Network(NamedTuple):
    """A network to train.

    Attributes:
      base_model: the config's model.
      params: the config's parameters.
      products: the matrix products of a forward pass.
      objects: number of objects in a batch.
      unit: name of these objects.
    """

    base_model: str
    params: dict[str, Any]
    products: list[Product]
    objects: int
    unit: str


def lm(folder: Path, options: argparse.Namespace) -> Network:
    """Writes a text and its vocabulary to a folder; returns the language model."""
    from open_seq2seq.data.lm.tokenizers import LMVocabulary

    hidden, rows = options.hidden, options.batch * options.length
    words = options.ids - 2  # besides <unk> and <eos>
    LMVocabulary.of_counts(Counter({f"w{number}": 1 for number in range(words)})).save(str(folder / "vocab.txt"))
    _write_words(folder / "text.txt", words, 1, rows * _BATCHES)
    return Network("LSTMLM", {
        "encoder": "LMEncoder",
        "encoder_params": {"core_cell": "LSTMCell", "core_cell_params": {"num_units": hidden},
                           "encoder_layers": options.layers, "emb_size": hidden, "weight_tied": True},
        "decoder": "FakeDecoder",
        "loss": "BasicSequenceLoss", "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},
        "data_layer": "WKTDataLayer",
        "data_layer_params": {"text_file": str(folder / "text.txt"), "lm_vocab_file": str(folder / "vocab.txt"),
                              "processed_data_folder": str(folder), "bptt": options.length}},
        [Product(options.layers, rows, hidden, 4 * hidden),
         Product(options.layers, options.batch, hidden, 4 * hidden, options.length),
         Product(1, rows, hidden, options.ids)], rows, "tokens")


def _write_words(path: Path, words: int, lines: int, length: int) -> None:
    """Writes lines of ``length`` random words out of ``words``."""
    rows = np.random.default_rng(0).integers(words, size=[lines, length])
    path.write_text("".join(" ".join(f"w{word}" for word in row) + "\n" for row in rows), encoding="utf-8")


def gnmt(folder: Path, options: argparse.Namespace) -> Network:
    """Writes sentence pairs and their vocabulary to a folder; returns GNMT."""
    hidden, batch, length, layers, fed = (options.hidden, options.batch, options.length, options.layers,
                                          int(options.input_feeding))
    rows, gates, words = batch * length, 4 * hidden, options.ids - 8  # besides the special tokens
    (folder / "vocab.txt").write_text("".join(f"w{number}\n" for number in range(words)), encoding="utf-8")
    for side in ("source", "target"):  # the data layer appends the end symbol, the last of ``length`` tokens
        _write_words(folder / f"train.{side}", words, batch * _BATCHES, length - 1)
    cell = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": hidden, "forget_bias": 1.0}}
    vocabulary = str(folder / "vocab.txt")
    return Network("Text2Text", {
        "encoder": "GNMTLikeEncoderWithEmbedding",
        "encoder_params": {"src_emb_size": hidden, "encoder_layers": layers, "encoder_dp_input_keep_prob": 0.8,
                           "encoder_use_skip_connections": True, **cell},
        "decoder": "RNNDecoderWithAttention",
        "decoder_params": {"tgt_emb_size": hidden, "decoder_layers": layers, "decoder_dp_input_keep_prob": 0.8,
                           "decoder_use_skip_connections": True, "attention_type": "gnmt_v2",
                           "attention_layer_size": hidden, "input_feeding": options.input_feeding, "weight_tied": True,
                           "share_source_embedding": True, "GO_SYMBOL": 2, "END_SYMBOL": 1, **cell},
        "loss": "PaddedCrossEntropyLossWithSmoothing", "loss_params": {"label_smoothing": 0.1},
        "data_layer": "ParallelTextDataLayer",
        "data_layer_params": {"src_vocab_file": vocabulary, "tgt_vocab_file": vocabulary, "delimiter": " ",
                              "special_tokens_already_in_vocab": False, "use_start_token": False,
                              "max_length": length, "pad_vocab_to_eight": False, "shuffle": True,
                              "source_file": str(folder / "train.source"),
                              "target_file": str(folder / "train.target")}},
        [Product(3, rows, hidden, gates), Product(1, rows, 2 * hidden, gates),
         Product(layers - 2, rows, hidden, gates),  # inputs
         Product(layers - 1, rows, 2 * hidden, gates), Product(fed, batch, hidden, gates, length),
         Product(2 * layers + 1, batch, hidden, gates, length),  # states
         Product(1, rows, hidden, hidden), Product(1 - fed, rows, hidden, hidden),
         Product(fed, batch, hidden, hidden, length), Product(1, rows, hidden, options.ids)],
        rows, "target tokens")


def resnet(folder: Path, options: argparse.Namespace) -> Network:
    """Writes images to a folder; returns the ResNet."""
    from open_seq2seq.data.image2label.toy_images import write_toy_cifar

    write_toy_cifar(str(folder / "images"), options.images, 1)
    products, channels = [Product(1, options.batch * _SIDE ** 2, 3 * 9, 16)], 16
    for group in range(3):
        filters, rows = 16 << group, options.batch * (_SIDE >> group) ** 2
        products += [Product(1, rows, 9 * channels, filters), Product(1, rows, channels, filters),
                     Product(2 * options.blocks - 1, rows, 9 * filters, filters)]
        channels = filters
    return Network("Image2Label", {
        "optimizer": "Momentum", "optimizer_params": {"momentum": 0.9}, "lr_policy_params": {"learning_rate": 0.1},
        "regularizer": "l2_regularizer", "regularizer_params": {"scale": 5e-4},
        "encoder": "ResNetEncoder",
        "encoder_params": {"block_sizes": [options.blocks] * 3, "version": 1, "first_num_filters": 16,
                           "first_kernel_size": 3, "first_conv_stride": 1, "first_pool_size": 0,
                           "regularize_bn": False, "bn_momentum": 0.97},
        "decoder": "FullyConnectedDecoder", "loss": "CrossEntropyLoss",
        "data_layer": "CifarDataLayer",
        "data_layer_params": {"data_dir": str(folder / "images"), "image_size": _SIDE, "crop_padding": 4,
                              "shuffle": True}},
        [*products, Product(1, options.batch, channels, _CLASSES)], options.batch, "images")


def write_noise(folder: Path, count: int, samples: int, rate: int, length: int) -> list[str]:
    """Writes ``wavs/0.wav`` …, recordings of noise, and the alphabet ``vocab.txt``; returns random texts for them.

    Args:
      folder: an existing folder.
      count: number of recordings.
      samples: samples in each.
      rate: sampling rate in Hz.
      length: letters in each text.
    """
    import soundfile

    random = np.random.default_rng(0)
    letters = [chr(ord("a") + number) for number in range(_LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(letters) + "\n", encoding="utf-8")
    (folder / "wavs").mkdir()
    for number in range(count):
        soundfile.write(str(folder / "wavs" / f"{number}.wav"), random.normal(0.0, 0.1, samples), rate, "PCM_16")
    return ["".join(random.choice(letters, length)) for _ in range(count)]


def tacotron(folder: Path, options: argparse.Namespace) -> Network:
    """Writes recordings of noise and their texts to a folder; returns Tacotron 2."""
    hidden, length = options.hidden, options.length
    texts = write_noise(folder, options.batch * _BATCHES, (options.frames - 1) * _HOP, _RATE, length)
    (folder / "clips.csv").write_text("".join(f"{number}|{text}\n" for number, text in enumerate(texts)),
                                      encoding="utf-8")
    size, rows, symbols = hidden // 2, options.batch * options.frames, options.batch * length
    convolution = {"kernel_size": [5], "stride": [1], "num_channels": size, "padding": "SAME"}
    postnet = [{**convolution, "activation_fn": "tanh"}] * 4 + [
        {**convolution, "num_channels": -1, "activation_fn": None}]
    return Network("Text2SpeechTacotron", {
        "encoder": "Tacotron2Encoder",
        "encoder_params": {"src_emb_size": size, "conv_layers": [convolution] * 3, "cnn_dropout_prob": 0.5,
                           "activation_fn": "relu", "num_rnn_layers": 1, "rnn_cell_dim": size // 2,
                           "rnn_type": "LSTMCell", "rnn_unidirectional": False, "rnn_dropout_prob": 0.0,
                           "use_cudnn_rnn": False},
        "decoder": "Tacotron2Decoder",
        "decoder_params": {"attention_layer_size": _ATTENTION, "attention_type": "location", "attention_bias": True,
                           "decoder_cell_units": hidden, "decoder_cell_type": "LSTMCell",
                           "decoder_layers": options.layers, "dropout_prob": 0.1, "enable_prenet": True,
                           "prenet_layers": 2, "prenet_units": hidden // 4, "enable_postnet": True,
                           "postnet_keep_dropout_prob": 0.5, "postnet_conv_layers": postnet},
        "loss": "Text2SpeechLoss", "data_layer": "Text2SpeechDataLayer",
        "data_layer_params": {"dataset": "LJ", "dataset_location": str(folder), "vocab_file": str(folder / "vocab.txt"),
                              "dataset_files": [str(folder / "clips.csv")], "output_type": "mel",
                              "num_audio_features": _MELS, "feature_normalize": False, "pad_EOS": False,
                              "use_cache": True}},
        [Product(3, symbols, 5 * size, size), Product(2, symbols, size, 2 * size),
         Product(2, options.batch, size // 2, 2 * size, length), Product(1, symbols, size, _ATTENTION),
         Product(1, rows, _MELS, hidden // 4), Product(1, rows, hidden // 4, hidden // 4),
         Product(1, options.batch, hidden // 4 + size + hidden, 4 * hidden, options.frames),
         Product(options.layers - 1, options.batch, 2 * hidden, 4 * hidden, options.frames),
         Product(1, options.batch, hidden, _ATTENTION, options.frames), Product(1, rows, hidden + size, _MELS),
         Product(1, rows, 5 * _MELS, size), Product(3, rows, 5 * size, size), Product(1, rows, 5 * size, _MELS)],
        rows, "frames")


def wavenet(folder: Path, options: argparse.Namespace) -> Network:
    """Writes recordings of noise to a folder; returns WaveNet."""
    hidden, layers, taps = options.hidden, options.blocks * options.layers, 3
    texts = write_noise(folder, options.batch * _BATCHES, (options.frames - 1) * _HOP, _RATE, 3)
    (folder / "clips.csv").write_text("".join(f"{number}|{text}\n" for number, text in enumerate(texts)),
                                      encoding="utf-8")
    rows = options.batch * (options.frames * _HOP - 1)  # the last sample is not read
    predicted = rows - options.batch * (taps - 1) * options.blocks * (2 ** options.layers - 1)
    if predicted < 1:
        raise UserError("For wavenet, --frames has to be larger: clips are shorter than the receptive field.")
    return Network("Text2SpeechWavenet", {
        "encoder": "WavenetEncoder",
        "encoder_params": {"layer_type": "conv1d", "kernel_size": taps, "strides": 1, "padding": "VALID",
                           "blocks": options.blocks, "layers_per_block": options.layers, "filters": hidden,
                           "quantization_channels": _LEVELS},
        "decoder": "FakeDecoder", "loss": "WavenetLoss", "data_layer": "WavenetDataLayer",
        "data_layer_params": {"dataset_location": str(folder), "dataset_files": [str(folder / "clips.csv")],
                              "num_audio_features": _MELS, "use_cache": True}},
        [Product(2 * layers, rows, taps * hidden // 2, hidden), Product(2 * layers, rows, hidden, hidden),
         Product(2, options.batch * options.frames, _MELS // 2, hidden), Product(1, predicted, hidden, hidden),
         Product(1, predicted, hidden, _LEVELS)], predicted, "samples")


def measure(network: Network, folder: Path, options: argparse.Namespace, on_gpu: bool) -> str:
    """Measures all toolkits in turns; returns the table, and the share of the time spent waiting for input."""
    config = str(write_config(folder / "config.py", network.base_model, {
        "base_params": {**base_params(folder, options.batch), **network.params}}))
    passes: dict[str, Pass] = {}
    with contextlib.ExitStack() as stack:
        if options.network == "resnet":
            passes["Keras' fit"] = stack.enter_context(PeerProcess("keras_resnet", options))
        if options.torch_python:
            passes["PyTorch, float32"] = stack.enter_context(PeerProcess("torch_networks", options))
        trainings = [stack.enter_context(Training(name, config, dtype_overrides(name, on_gpu), 2))
                     for name in options.dtypes.split(",")]
        passes |= {f"ours, {training.label}": functools.partial(training.run_round, options.steps)
                   for training in trainings}
        durations = take_turns(passes, options.rounds)
    waits = {training.label: statistics.fmean(done.input_wait for done in training.rounds) for training in trainings}
    return "\n".join([comparison_table(durations, network.unit, network.objects),
                      *(f"input wait of ours, {label}: {wait:.1%}" for label, wait in waits.items())])


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Returns the parsed options; raises UserError if a value is invalid."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("network", choices=("lm", "gnmt", "resnet", "tacotron", "wavenet"))
    add("--layers", type=int, default=2, help="lm: layers; gnmt: layers of the encoder, and of the decoder; tacotron: "
                                              "of the decoder; wavenet: of a block")
    add("--hidden", type=int, default=256, help="lm, gnmt: units of each layer, and size of the embeddings; tacotron: "
                                                "units of the decoder, a multiple of 4; wavenet: channels")
    add("--ids", type=int, help="lm, gnmt: size of the vocabulary (default: 33278, 8000)")
    add("--batch", type=int, help="chunks, sentence pairs, images, texts or clips of a batch (default: lm 32, tacotron "
                                   "16, wavenet 2, else 128)")
    add("--length", type=int, help="lm: tokens of a chunk; gnmt: of a sentence on each side; tacotron: symbols of a "
                                    "text (default: 35, 32, 64)")
    add("--frames", type=int, default=256, help="tacotron: frames of a text; wavenet: of a clip")
    add("--input_feeding", action="store_true", help="gnmt: the decoder of NVIDIA's OpenSeq2Seq")
    add("--blocks", type=int, default=3, help="resnet: residual blocks in each of the three groups (3 is "
                                                "ResNet-20); wavenet: blocks")
    add("--images", type=int, default=12_800, help="resnet: images to choose from")
    add("--keras_jit", action="store_true", help="resnet: compile Keras' steps with XLA")
    add("--dtypes", default="float32,mixed", help="comma-separated dtypes of the toolkit's steps")
    add("--rounds", type=int, default=5, help="rounds of each")
    add("--steps", type=int, default=5, help="steps per round")
    add("--threads", type=int, default=os.cpu_count(), help="threads per library")
    add("--torch_python", default="", help="Python interpreter that has PyTorch")
    options = parser.parse_args(argv)
    options.ids = options.ids or (33_278 if options.network == "lm" else 8000)
    batch, length = {"lm": (32, 35), "tacotron": (16, 64), "wavenet": (2, 32)}.get(options.network, (128, 32))
    options.batch, options.length = options.batch or batch, options.length or length
    if options.network == "gnmt" and min(options.layers, options.length) < 2 or options.ids < 16:
        raise UserError("For gnmt, --layers and --length have to be at least 2, and --ids at least 16.")
    if options.network == "tacotron" and (options.hidden % 4 or options.frames < 2):
        raise UserError("For tacotron, --hidden has to be a multiple of 4, and --frames at least 2.")
    if options.network == "wavenet" and (options.hidden % 2 or options.torch_python):
        raise UserError("For wavenet, --hidden has to be a multiple of 2, and --torch_python cannot be used: PyTorch "
                        "has no such network to compare.")
    if options.images < max(5, options.batch):
        raise UserError("--images has to be at least 5 and at least --batch.")
    return options


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    options = parse_arguments(argv)
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(options.threads)
    machine, gpus = describe_machine()
    print(f"* {machine}, {options.threads} threads")
    if not options.torch_python:
        print("* PyTorch is not measured: --torch_python names no interpreter that has it")
    with tempfile.TemporaryDirectory() as folder:
        network = {"lm": lm, "gnmt": gnmt, "resnet": resnet, "tacotron": tacotron,
                   "wavenet": wavenet}[options.network](Path(folder), options)
        print(measure(network, Path(folder), options, gpus > 0))
    print(describe_products(network.products, options.threads))


if __name__ == "__main__":
    run_program(main)
