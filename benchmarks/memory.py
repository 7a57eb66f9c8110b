"""Measures the peak memory of training a config for several batch sizes, as a Markdown table.

    python benchmarks/memory.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --batch_sizes 4096,6144,8192

Each batch size, in the config's unit, is tried in a separate process, which makes a few updates on the batch that
contains the longest example. Unknown options override the config.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.processes import Failure, call
from benchmarks.measuring.programs import make_parser, markdown_table, run_program
from benchmarks.measuring.settings import make_trainer, peak_megabytes

_UPDATES = 3


def try_size(config_file: str, overrides: Sequence[str]) -> list[str]:
    """Makes some updates on the batch that contains the longest example.

    Returns:
      Cells of the table: number of objects in the batch (tokens, frames or images, without padding), peak memory in MB,
      seconds of the fastest update, objects per second.
    """
    trainer = make_trainer(config_file, overrides)
    _, examples = trainer.describe_epoch()
    seconds = []
    for _ in range(_UPDATES):
        start = time.perf_counter()
        trainer.try_batch(examples)
        trainer.optimizer.updates.numpy()  # waits for the device
        seconds.append(time.perf_counter() - start)
    objects = trainer.model.num_objects(trainer.model.data_layer.make_batch(examples))
    return [f"{objects:,}", f"{peak_megabytes():,.0f}", f"{min(seconds):.2f}", f"{objects / min(seconds):,.0f}"]


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--dtypes", default="float32,mixed", help="comma-separated dtypes")
    parser.add_argument("--batch_sizes", required=True, help="comma-separated batch sizes")
    options, overrides = parser.parse_known_args(argv)
    rows = []
    for dtype, size in itertools.product(options.dtypes.split(","), options.batch_sizes.split(",")):
        try:
            cells = call(try_size, options.config_file,
                         [*overrides, f"--dtype={dtype}", f"--batch_size_per_gpu={size}"])
        except Failure as failure:
            if not failure.out_of_memory:
                raise
            cells = ["–", "out of memory", "–", "–"]
        rows.append([dtype, size, *cells])
    print(markdown_table(["dtype", "batch size", "objects", "peak MB", "step s", "objects/s"], rows))


if __name__ == "__main__":
    run_program(main)
