"""Measures this processor and writes its row to benchmarks/results/processors.yaml and the documentation.

    python benchmarks/processors.py

Measures the speed of raw operations, of training four small models in float32 and mixed (alternately), and of beam
search. Takes up to six minutes on an otherwise idle machine. All data are generated in a temporary folder.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.cpu_products import RAW_LIMITS, raw_speeds
from benchmarks.measuring.machine import Machine, describe_machine
from benchmarks.measuring.processes import call
from benchmarks.measuring.processor_table import DOCUMENT, FIGURES, format_rows, put_row, put_table, read_rows
from benchmarks.measuring.programs import run_program
from benchmarks.measuring.settings import make_setting
from benchmarks.measuring.small_models import TRANSFORMER, write_small_models
from benchmarks.measuring.turns import workers_in_turns
from open_seq2seq.runners.processor_speed.cache import Speeds
from open_seq2seq.runners.processor_speed.probe import intra_op_threads
from open_seq2seq.utils.errors import UserError

TYPES = ("float32", "mixed")


def measure(options: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    """Measures this processor and returns its row of the table."""
    # A single round is for trials of this program, in which the raw operations are measured only once, too.
    raw = rounded(raw_speeds(*(RAW_LIMITS if options.rounds > 1 else (0.0, 1))))
    with tempfile.TemporaryDirectory(prefix="os2s-processors-") as folder:
        configs = write_small_models(Path(folder))
        training = {name: train(configs[name], options) for name in options.models or configs}
        decoding = {name: round(call(decoding_speed, str(configs[TRANSFORMER]), name, options.rounds), 2)
                    for name in TYPES}
    return {"processor": machine.cpu, "instructions": " ".join(machine.flags), "threads": intra_op_threads(),
            "tensorflow": machine.tensorflow, "date": datetime.date.today().isoformat(), "raw": raw,
            "training": training, "decoding": {"unit": "sentences", **decoding}}


def rounded(speeds: Speeds) -> Speeds:
    """Returns the speeds, in GFLOP/s, rounded to one decimal place."""
    return {kind: {name: round(value, 1) for name, value in by_type.items()} for kind, by_type in speeds.items()}


def train(config: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Trains a model in both dtypes alternately, and measures the speeds.

    Returns:
      The dict ``{"unit": objects that are counted, "float32": objects per second, "mixed": objects per second}``.
    """
    with workers_in_turns([make_setting(name, on_gpu=False) for name in TYPES], str(config), [], steps=options.steps,
                          warmup=options.warmup, rounds=options.rounds) as workers:
        speeds = {worker.result.name: round(worker.result.speed, 1) for worker in workers}
        return {"unit": workers[0].result.object_name, **speeds}


def decoding_speed(config_file: str, dtype: str, rounds: int) -> float:
    """Returns the speed of beam search in sentences per second, in the fastest pass over the test set."""
    import tensorflow as tf

    from open_seq2seq.config.loader import load_config
    from open_seq2seq.config.options import RunOptions
    from open_seq2seq.config.overrides import parse_overrides
    from open_seq2seq.config.resolve import resolve
    from open_seq2seq.data.batching import evaluation_plan
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.parts.precision import weight_cast_scope
    from open_seq2seq.run.training_setup import describe_sections
    from open_seq2seq.runners import Runner
    from open_seq2seq.runners.processor_speed.choice import settle_precision

    config = resolve(load_config(config_file), "infer", parse_overrides([f"--dtype={dtype}"], ["--config_file"]))
    specs = settle_precision(describe_sections(RunOptions(mode="infer", config=config)), Runner())
    model = build_model(specs["infer"], seed=0)
    plan = evaluation_plan(model.data_layer)
    batches = [model.data_layer.make_batch(plan.batch(number)) for number in range(len(plan))]

    @tf.function(autograph=False, input_signature=[model.data_layer.input_signature])
    def predict(batch: Any) -> Any:
        with weight_cast_scope():
            return model.predict(batch)

    seconds = []
    for _ in range(1 + rounds):  # the first pass traces the function and is not timed
        start = time.perf_counter()
        for batch in batches:
            tf.nest.map_structure(lambda output: output.numpy(), predict(batch))
        seconds.append(time.perf_counter() - start)
    return sum(len(batch["ids"]) for batch in batches) / min(seconds[1:])


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=6, help="updates per round (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=3, help="untimed updates after the first (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each dtype (default: %(default)s)")
    parser.add_argument("--models", nargs="+", help="train only these models, for trials with another --figures file")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="YAML file that contains the rows")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="page whose table is replaced")
    parser.add_argument("--table_only", action="store_true", help="measure nothing; only write the table from the rows")
    options = parser.parse_args(argv)
    if min(options.steps, options.rounds) < 1 or options.warmup < 0:
        parser.error("--steps and --rounds have to be at least 1, --warmup at least 0")
    return options


def main(argv: list[str]) -> None:
    """Measures this processor unless --table_only is given, and updates and prints the table."""
    options = parse_arguments(argv)
    if options.table_only:
        rows = read_rows(options.figures)
    else:
        machine = describe_machine()
        if machine.on_gpu:
            raise UserError("A GPU is visible, but this benchmark measures the CPU: set CUDA_VISIBLE_DEVICES=-1.")
        start = time.perf_counter()
        rows = put_row(measure(options, machine), options.figures)
        print(f"{machine}: measured in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    put_table(rows, options.document)
    print(format_rows(rows))


if __name__ == "__main__":
    run_program(main)
