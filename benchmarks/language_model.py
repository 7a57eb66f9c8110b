"""Times language models: an LSTM beside PyTorch's nn.LSTM, and the Transformer's generation with and without a cache.

    python benchmarks/language_model.py --torch_python ~/torch/bin/python
    python benchmarks/language_model.py --parts step --hidden 512 --batch 64 --length 70 --dtypes float32,mixed

``--parts`` selects what is measured. ``stack`` is the recurrent stack alone, forward and backward, with the gradients
of its inputs and weights; ``step`` is a training step with embeddings, softmax over the whole vocabulary with tied
weights, and Adam. All programs take turns on chunks of ``--length`` random tokens, without dropout. The lines "raw
products" below these tables give the time of the matrix products alone, without any other operation. ``generation`` is
the time in which a Transformer of ``--transformer_layers`` and ``--transformer_hidden`` continues a text of
``--context`` random tokens with the most likely tokens; with the cache, it includes reading the text.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.measuring.generation import generation_times
from benchmarks.measuring.machine import describe_machine
from benchmarks.measuring.processes import Failure, call
from benchmarks.measuring.products import Product, describe_products
from benchmarks.measuring.programs import run_program
from benchmarks.measuring.settings import make_setting
from benchmarks.measuring.side_by_side import Pass, comparison_table, gradient_pass, mean_pass, take_turns
from benchmarks.measuring.small_models import write_config
from benchmarks.measuring.torch_process import TorchProcess
from benchmarks.measuring.turns import Worker
from open_seq2seq.utils.errors import UserError

PARTS = ("stack", "step", "generation")
_CHUNKS = 16  # number of chunks in each row of the batch, in an epoch


def write_lstm(folder: Path, options: argparse.Namespace) -> str:
    """Writes a text, its vocabulary and a config of the LSTM; returns the config's path."""
    from open_seq2seq.data.lm.vocabulary import LMVocabulary

    words = options.ids - 2  # besides <unk> and <eos>
    LMVocabulary.of_counts(Counter({f"w{number}": 1 for number in range(words)})).save(str(folder / "vocab.txt"))
    text = np.random.default_rng(0).integers(words, size=options.batch * options.length * _CHUNKS)
    (folder / "text.txt").write_text(" ".join(f"w{word}" for word in text) + "\n", encoding="utf-8")
    return str(write_config(folder / "config.py", "LSTMLM", {"base_params": _params(folder, options)}))


def _params(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "batch_size_per_gpu": options.batch, "max_steps": 100_000, "random_seed": 0, "logdir": str(folder / "run"),
        "optimizer": "Adam", "lr_policy": "fixed_lr", "lr_policy_params": {"learning_rate": 1e-4},
        "encoder": "LMEncoder",
        "encoder_params": {"core_cell": "LSTMCell", "core_cell_params": {"num_units": options.hidden},
                           "encoder_layers": options.layers, "emb_size": options.hidden, "weight_tied": True},
        "decoder": "FakeDecoder",
        "loss": "BasicSequenceLoss", "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},
        "data_layer": "WKTDataLayer",
        "data_layer_params": {"text_file": str(folder / "text.txt"), "lm_vocab_file": str(folder / "vocab.txt"),
                              "processed_data_folder": str(folder), "bptt": options.length}}


def stack_seconds(trainer: Any, batch: int, length: int, passes: int) -> float:
    """Returns the mean seconds of a forward and backward pass through the recurrent stack of a trainer's model.

    Args:
      trainer: the trainer.
      batch: number of sequences.
      length: number of time steps.
      passes: number of passes over which the mean is taken.
    """
    return mean_pass(_stack_pass(trainer, batch, length), passes)()


@functools.cache
def _stack_pass(trainer: Any, batch: int, length: int) -> Pass:
    import tensorflow as tf

    from open_seq2seq.parts.precision import weight_cast_scope

    encoder = trainer.model.encoder

    def forward(x: Any) -> Any:
        with weight_cast_scope():
            steps = tf.cast(tf.transpose(x, [1, 0, 2]), encoder.dtype_of("recurrence"))
            return tf.cast(tf.transpose(encoder.stack(steps, tf.fill([batch], length))[0], [1, 0, 2]), tf.float32)

    x = tf.random.stateless_normal([batch, length, encoder.params["emb_size"]], [1, 2])
    return gradient_pass(forward, x, encoder.stack.trainable_variables)


def stack_products(options: argparse.Namespace) -> list[Product]:
    """Returns the products of a forward pass through the stack."""
    hidden, layers = options.hidden, options.layers
    return [Product(layers, options.batch * options.length, hidden, 4 * hidden),
            Product(layers, options.batch, hidden, 4 * hidden, options.length)]


def step_products(options: argparse.Namespace) -> list[Product]:
    """Returns the products of a forward pass of the whole network."""
    return [*stack_products(options), Product(1, options.batch * options.length, options.hidden, options.ids)]


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Returns the mean milliseconds per pass in each round, by part and by the program's name."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(options.threads)
    on_gpu = describe_machine().on_gpu
    passes: dict[str, dict[str, Pass]] = {part: {} for part in PARTS if part in options.parts and part != "generation"}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if options.torch_python:
            for part in passes:
                passes[part]["PyTorch, float32"] = mean_pass(stack.enter_context(_torch(part, options)), options.steps)
        config = write_lstm(Path(folder), options)
        for name in options.dtypes.split(","):
            worker = stack.enter_context(Worker(make_setting(name, on_gpu), config, [], 2))
            label = f"ours, {worker.result.label}"
            ours: dict[str, Pass] = {
                "step": worker.steps_pass(options.steps),
                "stack": functools.partial(worker.call, stack_seconds, options.batch, options.length, options.steps)}
            for part in passes:
                passes[part][label] = ours[part]
        return {part: take_turns(of_part, options.rounds) for part, of_part in passes.items()}


def _torch(part: str, options: argparse.Namespace) -> TorchProcess:
    sizes = [options.batch, options.length]
    if part == "stack":
        return TorchProcess(options.torch_python, "torch_recurrence", [
            "lstm", options.layers, options.hidden, options.hidden, *sizes, 0, options.threads, "float32"])
    return TorchProcess(options.torch_python, "torch_language_model", [
        options.layers, options.hidden, options.ids, *sizes, options.threads])


def report_generation(options: argparse.Namespace) -> None:
    """Measures generation and prints its table.

    Raises:
      Failure: the texts that were generated with and without the cache differ.
    """
    found, same = call(generation_times, options)
    print(f"\ngeneration of {options.new_tokens} tokens after {options.context}:")
    print(comparison_table(found, "tokens", options.new_tokens))
    if not same:
        raise Failure("The text generated with the cache differs from the text generated without it.")
    print("both texts are equal")


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Returns the parsed options; raises UserError if a value is invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated parts (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="layers of the LSTM")
    parser.add_argument("--hidden", type=int, default=256, help="units of each layer, and size of the embeddings")
    parser.add_argument("--ids", type=int, default=33_278, help="size of the vocabulary")
    parser.add_argument("--batch", type=int, default=32, help="rows of text")
    parser.add_argument("--length", type=int, default=35, help="tokens per chunk")
    parser.add_argument("--dtypes", default="float32,mixed", help="comma-separated dtypes of the toolkit's LSTM")
    parser.add_argument("--transformer_layers", type=int, default=4, help="layers of the Transformer")
    parser.add_argument("--transformer_hidden", type=int, default=256, help="channels of the Transformer, which has a "
                        "head for each 64 of them, and four times as many inside the feed-forward layers")
    parser.add_argument("--context", type=int, default=256, help="tokens of the text to continue")
    parser.add_argument("--new_tokens", type=int, default=64, help="tokens to generate")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--steps", type=int, default=5, help="steps or passes per round, except in generation")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per library")
    parser.add_argument("--torch_python", default="", help="Python interpreter that has PyTorch")
    options = parser.parse_args(argv)
    options.parts = options.parts.split(",")
    if unknown := sorted(set(options.parts) - set(PARTS)):
        raise UserError(f"--parts has the unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}.")
    if options.ids < 3:
        raise UserError("--ids has to be at least 3: two tokens are <unk> and <eos>.")
    return options


def main(argv: list[str]) -> None:
    """Measures and prints the tables."""
    options = parse_arguments(argv)
    print(f"* {describe_machine()}, {options.threads} threads")
    products = {"stack": stack_products(options), "step": step_products(options)}
    if set(options.parts) & set(products) and not options.torch_python:
        print("* PyTorch is not measured: --torch_python names no interpreter that has it")
    for part, found in (measure(options) if set(options.parts) & set(products) else {}).items():
        print(f"\n{part}, {options.batch * options.length:,} tokens:")
        print(comparison_table(found, "tokens", options.batch * options.length))
        print("\n".join(describe_products("raw products", products[part], options.threads)))
    if "generation" in options.parts:
        report_generation(options)


if __name__ == "__main__":
    run_program(main)
