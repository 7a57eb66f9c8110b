"""Measures this processor and prints its row of the table in docs/mixed-precision.md.

    python benchmarks/processors.py

Measures the speed of raw operations, of training four small models in float32 and mixed (alternately), and of beam
search. Takes up to six minutes on an otherwise idle machine. All data are generated in a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import add_turns, describe_machine, make_parser, markdown_table, run_program
from benchmarks.measuring.raw_speeds import processor_speeds
from benchmarks.measuring.settings import prepare
from benchmarks.measuring.small_models import TRANSFORMER, write_small_models
from benchmarks.measuring.trainings import Training
from open_seq2seq.utils.errors import UserError

_TYPES = ("float32", "mixed")


def training_cell(config: Path, options: argparse.Namespace) -> str:
    """Trains a model in both dtypes alternately; returns the cell of the table."""
    with contextlib.ExitStack() as stack:
        trainings = [stack.enter_context(Training(name, str(config), [f"--dtype={name}"], options.warmup))
                     for name in _TYPES]
        for _ in range(options.rounds):
            for training in trainings:
                training.run_round(options.steps)
    before, after = (statistics.median(done.speed for done in training.rounds) for training in trainings)
    return speedup(before, after, trainings[0].about.object_name)


def speedup(before: float, after: float, unit: str) -> str:
    """Returns the speed-up of mixed over float32, and both speeds: ``**1.92×** 9,840 → 18,890 tokens/s``."""
    return f"**{after / before:.2f}×** {before:,.0f} → {after:,.0f} {unit}/s"


def decoding_speed(config_file: str, dtype: str, rounds: int) -> float:
    """Returns the speed of beam search in sentences per second, in the fastest pass over the test set."""
    import tensorflow as tf

    from open_seq2seq.data.batching import evaluation_plan
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.parts.forward_pass import forward_pass

    model = build_model(prepare(config_file, "infer", [f"--dtype={dtype}"], {})[0]["infer"], seed=0)
    plan = evaluation_plan(model.data_layer)
    batches = [model.data_layer.make_batch(plan.batch(number)) for number in range(len(plan))]

    @tf.function(autograph=False, input_signature=[model.data_layer.input_signature])
    def predict(batch: Any) -> Any:
        with forward_pass():
            return model.predict(batch)

    seconds = []
    for _ in range(1 + rounds):  # the first pass traces the function and is not timed
        start = time.perf_counter()
        for batch in batches:
            tf.nest.map_structure(lambda output: output.numpy(), predict(batch))
        seconds.append(time.perf_counter() - start)
    return sum(len(batch["ids"]) for batch in batches) / min(seconds[1:])


def main(argv: list[str]) -> None:
    """Measures this processor and prints the row."""
    parser = make_parser(__doc__)
    add_turns(parser, steps=6, warmup=3, rounds=3)
    options = parser.parse_args(argv)
    machine, gpus = describe_machine()
    if gpus:
        raise UserError("A GPU is visible, but this benchmark measures the CPU: set CUDA_VISIBLE_DEVICES=-1.")
    # A single round is for trials of this program, in which the raw operations are measured only once, too.
    raw = processor_speeds() if options.rounds > 1 else processor_speeds(0.0, 1)
    with tempfile.TemporaryDirectory(prefix="os2s-processors-") as folder:
        configs = write_small_models(Path(folder))
        cells = [training_cell(config, options) for config in configs.values()]
        before, after = (call(decoding_speed, str(configs[TRANSFORMER]), name, options.rounds) for name in _TYPES)
    gains = ", ".join(f"{speeds['bfloat16'] / speeds['float32']:.2f}×" for speeds in raw.values())
    print(markdown_table(
        ["processor", "raw products, float32", f"raw bfloat16: {', '.join(raw)}", *configs, "decoding"],
        [[machine, f"{raw['product']['float32']:,.0f} GFLOP/s", gains, *cells, speedup(before, after, "sentences")]]))


if __name__ == "__main__":
    run_program(main)
