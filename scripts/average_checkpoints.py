"""Averages the weights of several checkpoints of one run, which often gains a little accuracy.

usage: python scripts/average_checkpoints.py --logdir=RUN --last=5 --output=AVERAGED
       python scripts/average_checkpoints.py RUN/model.ckpt-900 RUN/model.ckpt-1000 --output=AVERAGED

It writes AVERAGED/model.ckpt-<step>, a whole checkpoint: use it by
python run.py --config_file=… --mode=eval --logdir=AVERAGED (or infer), or as load_model.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.training.checkpoints import average_checkpoints, write_snapshot
from open_seq2seq.training.checkpoints.folders import LOGS, list_checkpoints
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError
from open_seq2seq.utils.script import run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("checkpoints", nargs="*", help="checkpoint folders; or name a run by --logdir")
    parser.add_argument("--logdir", help="take the newest checkpoints of this run")
    parser.add_argument("--last", type=int, help="how many of them (default: 5)")
    parser.add_argument("--output", required=True, help="folder in which the averaged checkpoint is written")
    return parser.parse_args(argv)


def chosen_checkpoints(args: argparse.Namespace) -> list[Path]:
    """Returns the folders to average, oldest first.

    Raises:
      UserError: both or neither of the two ways to choose them were used.
      CheckpointError: the run has fewer checkpoints.
    """
    if bool(args.checkpoints) == bool(args.logdir):
        raise UserError("Name either a run by --logdir, or checkpoint folders.")
    if args.checkpoints:
        if args.last is not None:
            raise UserError("--last goes with --logdir: leave it out when checkpoint folders are named.")
        return [Path(path) for path in args.checkpoints]
    last = 5 if args.last is None else args.last
    if last < 1:
        raise UserError(f"--last is {last} but has to be at least 1.")
    folder = Path(args.logdir)
    found = list_checkpoints(folder) or list_checkpoints(folder / LOGS)
    if len(found) < last:
        raise CheckpointError(f"{folder} holds {len(found)} checkpoints but --last is {last}: give a smaller number, "
                              "or train with a larger num_checkpoints.")
    return found[:last][::-1]


def main(argv: list[str] | None = None) -> None:
    """Averages and writes."""
    args = parse_args(argv)
    paths = chosen_checkpoints(args)
    snapshot = average_checkpoints(paths)
    target = Path(args.output) / f"model.ckpt-{snapshot.state['step']}"
    if target.exists():
        raise UserError(f"{target} exists already: choose another --output.")
    write_snapshot(snapshot, target)
    deco_print(f"Averaged {', '.join(str(path) for path in paths)}")
    deco_print(f"into {target}: evaluate it by --logdir={args.output}")


if __name__ == "__main__":
    run_script(main)
