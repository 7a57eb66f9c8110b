"""Times training steps of a ResNet for CIFAR: the toolkit's, those of Keras's ``fit``, and those of a loop in PyTorch.

    python benchmarks/image_training.py --torch_python ~/torch/bin/python
    python benchmarks/image_training.py --blocks 5 --dtypes mixed --keras on

All take turns on random images, which are padded, cropped at random, mirrored at random and standardised. The toolkit
uses its own input pipeline; the lines "input wait" give the share of the time for which its steps wait for input. Keras
is measured with XLA (``jit_compile``) on and off. PyTorch, in channels-last layout, makes each batch in its loop. The
last lines, "raw products", give the time of matrix products with as many multiplications and additions as a step's
convolutions and last layer, without any other operation.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.keras_resnet import FitProcess
from benchmarks.measuring.machine import describe_machine
from benchmarks.measuring.products import Product, describe_products
from benchmarks.measuring.programs import run_program
from benchmarks.measuring.settings import make_setting
from benchmarks.measuring.side_by_side import Pass, comparison_table, mean_pass, take_turns
from benchmarks.measuring.small_models import write_config
from benchmarks.measuring.torch_process import TorchProcess
from benchmarks.measuring.turns import Worker
from open_seq2seq.utils.errors import UserError

CLASSES, SIDE = 10, 32


def write_resnet(folder: Path, options: argparse.Namespace) -> str:
    """Writes images and a config of the network; returns the config's path."""
    from open_seq2seq.data.image2label.toy_images import write_toy_cifar

    write_toy_cifar(str(folder / "images"), options.images, 1)
    return str(write_config(folder / "config.py", "Image2Label", {"base_params": _params(folder, options)}))


def _params(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "batch_size_per_gpu": options.batch, "max_steps": 100_000, "random_seed": 0, "logdir": str(folder / "run"),
        "optimizer": "Momentum", "optimizer_params": {"momentum": 0.9},
        "lr_policy": "fixed_lr", "lr_policy_params": {"learning_rate": 0.1},
        "regularizer": "l2_regularizer", "regularizer_params": {"scale": 5e-4},
        "encoder": "ResNetEncoder",
        "encoder_params": {"block_sizes": [options.blocks] * 3, "version": 1, "first_num_filters": 16,
                           "first_kernel_size": 3, "first_conv_stride": 1, "first_pool_size": 0,
                           "regularize_bn": False, "bn_momentum": 0.97},
        "decoder": "FullyConnectedDecoder", "loss": "CrossEntropyLoss",
        "data_layer": "CifarDataLayer",
        "data_layer_params": {"data_dir": str(folder / "images"), "image_size": SIDE, "crop_padding": 4,
                              "shuffle": True}}


def convolution_products(options: argparse.Namespace) -> list[Product]:
    """Returns matrix products with as many multiplications and additions as a forward pass of the network."""
    products, channels = [Product(1, options.batch * SIDE ** 2, 3 * 9, 16)], 16
    for group in range(3):
        filters, rows = 16 << group, options.batch * (SIDE >> group) ** 2
        products += [Product(1, rows, 9 * channels, filters), Product(1, rows, channels, filters),
                     Product(2 * options.blocks - 1, rows, 9 * filters, filters)]
        channels = filters
    return [*products, Product(1, options.batch, channels, CLASSES)]


def measure(options: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Measures all programs in turns.

    Returns:
      (mean milliseconds per step in each round by the program's name, the faster of Keras's settings first; by the
      setting's name, the fraction of the time for which the toolkit waited for input).
    """
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(options.threads)
    on_gpu = describe_machine().on_gpu
    sizes = [options.blocks, options.batch, options.images, CLASSES]
    passes: dict[str, Pass] = {}
    workers: dict[str, Worker] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for jit in options.keras:
            passes[f"Keras' fit, jit_compile {jit}"] = stack.enter_context(
                FitProcess(*sizes, options.steps, jit == "on"))
        if options.torch_python:
            torch = TorchProcess(options.torch_python, "torch_resnet", [*sizes, options.threads])
            passes["PyTorch, channels-last"] = mean_pass(stack.enter_context(torch), options.steps)
        config = write_resnet(Path(folder), options)
        for name in options.dtypes.split(","):
            worker = stack.enter_context(Worker(make_setting(name, on_gpu), config, [], 2))
            workers[f"ours, {worker.result.label}"] = worker
        passes.update((name, worker.steps_pass(options.steps)) for name, worker in workers.items())
        found = take_turns(passes, options.rounds)
        keras = sorted((name for name in found if name.startswith("Keras")),
                       key=lambda name: statistics.median(found[name]))
        found = {name: found[name] for name in [*keras, *found]}
        return found, {name: worker.result.input_wait for name, worker in workers.items()}


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Returns the parsed options; raises UserError if a value is invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=3, help="residual blocks in each of the three groups: 3 is "
                        "ResNet-20, 5 ResNet-32")
    parser.add_argument("--batch", type=int, default=128, help="images per batch")
    parser.add_argument("--images", type=int, default=12_800, help="images to choose from")
    parser.add_argument("--dtypes", default="float32,mixed", help="comma-separated dtypes of the toolkit's steps")
    parser.add_argument("--keras", default="off,on", help="comma-separated values of Keras's jit_compile, on or off; "
                        "empty for no Keras")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--steps", type=int, default=10, help="steps per round")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per library")
    parser.add_argument("--torch_python", default="", help="Python interpreter that has PyTorch")
    options = parser.parse_args(argv)
    options.keras = options.keras.split(",") if options.keras else []
    if unknown := sorted(set(options.keras) - {"on", "off"}):
        raise UserError(f"--keras has the unknown value {unknown[0]!r}: give on, off or both.")
    if options.images < max(5, options.batch):
        raise UserError("--images has to be at least 5 and at least --batch.")
    return options


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    options = parse_arguments(argv)
    print(f"* {describe_machine()}, {options.threads} threads; {options.batch} images a step")
    if not options.torch_python:
        print("* PyTorch is not measured: --torch_python names no interpreter that has it")
    found, waits = measure(options)
    print(comparison_table(found, "images", options.batch))
    for name, wait in waits.items():
        print(f"input wait of {name}: {wait:.1%}")
    print("\n".join(describe_products("raw products", convolution_products(options), options.threads)))


if __name__ == "__main__":
    run_program(main)
