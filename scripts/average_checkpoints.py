"""Averages the weights of several checkpoints of a run, which often improves accuracy a little.

usage: python scripts/average_checkpoints.py --logdir=RUN --last=5 --output=AVERAGED
       python scripts/average_checkpoints.py RUN/model.ckpt-900 RUN/model.ckpt-1000 --output=AVERAGED

Writes AVERAGED/model.ckpt-<step>, a complete checkpoint. Evaluate it with
python run.py --mode=eval --logdir=AVERAGED (or --mode=infer), or start a run from it with load_model.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

from open_seq2seq.checkpoints import average_checkpoints, of_one_stretch, write_snapshot
from open_seq2seq.checkpoints.folders import LOGS, list_checkpoints
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("checkpoints", nargs="*",
                        help="folders of the checkpoints, the newest last; alternatively, give --logdir")
    parser.add_argument("--logdir", help="average the newest checkpoints of this run")
    parser.add_argument("--last", type=int, help="number of checkpoints to average with --logdir (default: 5)")
    parser.add_argument("--output", required=True, help="folder to write the averaged checkpoint to")
    return parser.parse_args(argv)


def chosen_checkpoints(args: argparse.Namespace) -> list[Path]:
    """Returns the folders of the checkpoints to average.

    With --logdir, these are the newest checkpoints of the run, oldest first; otherwise the given folders, in the given
    order. Prints a warning if the learning rate changed between checkpoints of the run.

    Raises:
      UserError: both or neither of --logdir and checkpoint folders were given, or --last is invalid.
      CheckpointError: the run has no checkpoint, or fewer than --last.
    """
    if bool(args.checkpoints) == bool(args.logdir):
        raise UserError("Give either --logdir or checkpoint folders.")
    if args.checkpoints:
        if args.last is not None:
            raise UserError("--last is only for --logdir: leave it out if checkpoint folders are given.")
        return [Path(path) for path in args.checkpoints]
    last = 5 if args.last is None else args.last
    if last < 1:
        raise UserError(f"--last is {last} but has to be at least 1.")
    folder = Path(args.logdir)
    found = list_checkpoints(folder) or list_checkpoints(folder / LOGS)
    if not found:
        raise CheckpointError(f"The folder {folder} has no checkpoint: give the logdir that training wrote to.")
    if len(found) < last:
        raise CheckpointError(f"{folder} contains {len(found)} checkpoints but --last is {last}: give a smaller "
                              "--last, or train with a larger num_checkpoints.")
    used = of_one_stretch(found[:last])
    if used < last:
        deco_print(f"WARNING: the learning rate changed after {found[used].name}, so the average may be worse than the "
                   f"newest checkpoint: compare them, or give --last={used}.")
    return found[:last][::-1]


def main(argv: list[str] | None = None) -> None:
    """Averages the checkpoints and writes the result."""
    args = parse_args(argv)
    paths = chosen_checkpoints(args)
    snapshot = average_checkpoints(paths)
    target = Path(args.output) / f"model.ckpt-{snapshot.state['step']}"
    if target.exists():
        raise UserError(f"{target} exists already: choose another --output.")
    write_snapshot(snapshot, target)
    deco_print(f"Averaged {', '.join(str(path) for path in paths)}")
    deco_print(f"into {target}: evaluate it with --logdir={args.output}")


if __name__ == "__main__":
    run_script(main)
