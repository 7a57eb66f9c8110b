"""Replays a batch on which training diverged, and reports which values are not finite.

usage: python scripts/replay_batch.py --logdir=RUN --batch=RUN/divergence/step-100
       python scripts/replay_batch.py --logdir=RUN --batch=RUN/divergence/step-100 --dtype=float32

Uses the checkpoint that was the newest when training diverged, or newly initialised weights if there was none, and the
dtype, loss scale and dropout of that step; --dtype replaces the dtype. Nothing is trained or written.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints import assign_strictly, load_checkpoint
from open_seq2seq.checkpoints.folders import LOGS
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import resolve
from open_seq2seq.models.builder import build_model, describe_section
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers import trainable_variables
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.parts.component import named_variables
from open_seq2seq.training.loop.diagnosis import Diagnosis, Examiner
from open_seq2seq.training.loop.kept_batch import CONFIG, check_event, read_batch, read_carried
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--logdir", required=True, help="logdir of the run that diverged")
    parser.add_argument("--batch", required=True, help="folder of the saved batch: RUN/divergence/step-N")
    parser.add_argument("--dtype", help="dtype of the computation (default: that of the step)")
    parser.add_argument("--trust_code", action="store_true",
                        help="let the config beside the batch import and run code from outside the package")
    parser.add_argument("--checkpoint", help="checkpoint folder (default: the newest checkpoint before the step)")
    return parser.parse_args(argv)


def checkpoint_of(args: argparse.Namespace, event: dict[str, Any]) -> Path | None:
    """Returns the folder of the checkpoint to use; None, for newly initialised weights, if the run had none yet.

    Raises:
      CheckpointError: the checkpoint no longer exists.
    """
    if args.checkpoint:
        return Path(args.checkpoint)
    name = event["checkpoint"] or ""
    if not re.fullmatch(r"model\.ckpt-\d+", name):
        return None
    places = [Path(args.logdir, *folder, kind + name.removeprefix("model"))
              for folder in ([], [LOGS]) for kind in ("model", "diverged")]
    for place in places:
        if place.is_dir():
            return place
    raise CheckpointError(f"{places[0]}, the newest checkpoint at step {event['step']}, no longer exists: give another "
                          "one with --checkpoint.")


def build(args: argparse.Namespace, event: dict[str, Any]) -> Model:
    """Builds the run's model and restores its weights."""
    path = checkpoint_of(args, event)
    arithmetic = [Override(None, ("dtype",), args.dtype or event["dtype"]),
                  Override(None, ("mixed_choice",), event.get("mixed_choice"))]
    file = load_config(Path(args.batch) / CONFIG, trusted=args.trust_code)
    spec = describe_section(resolve(file, "train", arithmetic), "train")
    deco_print(precision_of(spec.params).note)
    model = build_model(spec, event["seed"])
    if path is not None:
        # The trained weights, not their moving average, because the training step did not use the average.
        assign_strictly(named_variables(model), load_checkpoint(path).weights, path)
    deco_print(f"weights: {path if path is not None else 'the initial weights of a new run'}")
    return model


def report(found: Diagnosis, batch: dict[str, Any], event: dict[str, Any], model: Model) -> None:
    """Prints the findings."""
    deco_print(f"step {event['step']} of the run: {event['reason']}")
    deco_print(f"loss: {found.loss:g}, loss scale of the step: {event['loss_scale']:g}")
    for what, names in (("arrays of the batch", found.inputs), ("variables", found.values),
                        ("gradients", found.gradients)):
        deco_print(f"non-finite {what}: {len(names)}")
        for name in names:
            deco_print(name, offset=1)
    for row in found.rows:
        example = int(batch["ids"][row])
        deco_print(f"example whose own loss is not finite: {model.data_layer.describe_example(example)} (id {example})")
    if found.finite:
        deco_print("With these weights and this dtype, all values are finite.")


def first_operation(examiner: Examiner, batch: dict[str, Any], event: dict[str, Any],
                    carried: dict[str, np.ndarray]) -> str | None:
    """Describes the first operation with a non-finite result, with its line of code unless it is in the backward pass.

    Returns None if there is none.
    """
    tf.debugging.enable_check_numerics()
    try:
        examiner.examine(batch, event["micro_batch"], event["loss_scale"], carried)
    except tf.errors.InvalidArgumentError as error:
        return _shortened(error.message)
    finally:
        tf.debugging.disable_check_numerics()
    return None


def _shortened(message: str) -> str:
    """Shortens TensorFlow's message to operation, line and kind of values; returns it unchanged if it lacks these."""
    node = re.search(r"Detected at node (\S+?)(?:/CheckNumericsV2)? defined at", message)
    places = re.findall(r'^\s*File "([^"]+)", line (\d+), in (\w+)', message, re.MULTILINE)
    finding = re.search(r"Tensor had (.+?) values", message)
    if not (node and places and finding):
        return message
    file, line, function = places[-1]
    where = "in the backward pass" if "gradient_tape/" in node[1] else f"at {file}:{line}, in {function}"
    return f"{node[1].removeprefix('gradient_tape/')} {where}: {finding[1]}"


def main(argv: list[str] | None = None) -> None:
    """Builds the model, runs the batch and prints the findings."""
    args = parse_args(argv)
    arrays, event = read_batch(Path(args.batch))
    check_event(Path(args.batch), event)
    carried = read_carried(Path(args.batch))
    model = build(args, event)
    try:
        batch = tf.nest.pack_sequence_as(model.data_layer.input_signature, tf.nest.flatten(arrays))
    except ValueError as error:
        raise UserError(f"The batch in {args.batch} does not have the structure that the model's data layer produces: "
                        "give a batch that this run has written.") from error
    variables = named_variables(model)
    trainable = trainable_variables({name: v for name, v in variables.items() if v.trainable},
                                    model.params["freeze_variables_regex"])
    examiner = Examiner(model, variables, trainable, event["seed"])
    found = examiner.examine(batch, event["micro_batch"], event["loss_scale"], carried)
    report(found, batch, event, model)
    if not found.finite:
        message = first_operation(Examiner(model, variables, trainable, event["seed"]), batch, event,
                                  carried)
        if message:
            deco_print(f"first operation with a non-finite result: {message}")


if __name__ == "__main__":
    run_script(main)
