"""Writes a checkpoint of NVIDIA's OpenSeq2Seq as a logdir of this package.

usage: python scripts/import_checkpoint.py OLD.py OLD/model.ckpt-1000 LOGDIR

OLD.py is the config of the model; its vocabularies have to exist and, without infer_params, the data of eval_params.
Evaluate the model with python run.py --mode=eval --logdir=LOGDIR (or --mode=infer), or start a run from it with
load_model.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

import numpy as np

from open_seq2seq.checkpoints import Snapshot, match, write_snapshot
from open_seq2seq.checkpoints.folders import regular_name
from open_seq2seq.checkpoints.inputs import RunInputs, read_assets
from open_seq2seq.checkpoints.original import OriginalFiles, read_converted
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.serialize import complete_yaml
from open_seq2seq.models.builder import build_model
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run.run import Run
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("config", help="the config of the model, a .py file")
    parser.add_argument("checkpoint", help="path of the checkpoint's files without .index, or their folder")
    parser.add_argument("logdir", help="folder to write; it must not exist or be empty")
    return parser.parse_args(argv)


def build(config: str, logdir: str) -> tuple[Model, RunInputs, str]:
    """Builds the model of a config; returns it, the files that it has read and the config as YAML.

    Args:
      config: path of the original's config.
      logdir: the log directory that is to contain the checkpoint.

    Raises:
      UserError: the config, or a file that it names, cannot be used.
    """
    has_inference = any(name in load_config(config).sections for name in ("infer_params", "interactive_infer_params"))
    # Interactive inference needs no data.
    options = Run(config, logdir=logdir).options("interactive_infer" if has_inference else "eval")
    config_yaml = complete_yaml(options.config.as_sections())
    spec = options.specs[options.mode]
    assets = read_assets(spec)
    model = build_model(spec)
    return model, RunInputs(model, None, assets), config_yaml


def converted(checkpoint: str, model: Model) -> tuple[int, dict[str, np.ndarray]]:
    """Returns the number of updates and the weights in a checkpoint of the original.

    Args:
      checkpoint: the path of its files, or of a folder, whose newest checkpoint is meant.
      model: the model.

    Raises:
      CheckpointError: there is no checkpoint, it cannot be used, a variable of the model has no value of its shape in
        it, or an array of it is not used.
    """
    files = OriginalFiles.at(checkpoint) or OriginalFiles.newest_in(checkpoint)
    if files is None:
        raise CheckpointError(f"There is no checkpoint of TensorFlow at {checkpoint}: give the path of its files "
                              "without .index, such as model.ckpt-1000.")
    step, conversion = read_converted(files, model)
    lines = match(named_variables(model), conversion.weights).lines()
    problems = [*lines, *(f"Not used from the checkpoint: {name}" for name in conversion.unused)]
    if problems:
        more = f"; and {len(problems) - 2} more" if len(problems) > 2 else ""
        raise CheckpointError(f"The checkpoint {files} does not fit this config: {'; '.join(problems[:2])}"
                              f"{more}. Give the config that it was trained with.")
    return step, conversion.weights


def main(argv: list[str] | None = None) -> None:
    """Converts the checkpoint and writes the log directory."""
    args = parse_args(argv)
    logdir = Path(args.logdir)
    if logdir.exists() and (not logdir.is_dir() or any(logdir.iterdir())):
        raise UserError(f"{logdir} already exists: give a new folder.")
    model, inputs, config_yaml = build(args.config, args.logdir)
    step, weights = converted(args.checkpoint, model)
    folder = logdir / regular_name(step)
    write_snapshot(Snapshot(weights, {}, {"step": step}, config_yaml, dict(inputs.contents())), folder)
    deco_print(f"Wrote {folder}: {len(weights)} variables. Use the model with --logdir={logdir}")


if __name__ == "__main__":
    run_script(main)
