"""Reports what half precision would lose in each layer of a trained model, and gives advice.

usage: python scripts/precision_report.py --config_file=CONFIG --logdir=RUN [--batches=4] [--data=train|eval]
         [--loss_scales=1024,16384] [--by=layer|tensor] [--output=FILE] [--key/subkey=value ...]

Runs forward and backward passes in float32, with the checkpoint in RUN that evaluation would use, on batches
spread evenly over the data; dropout is active on training data. Prints Markdown with the ranges of
activations and gradients, the fractions that float16 and bfloat16 would lose, and advice.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.cli import parse_options
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.output_file import OutputFiles, check_no_input
from open_seq2seq.utils.script import ScriptParser, run_script
from open_seq2seq.utils.tensorflow_import import import_tensorflow

if TYPE_CHECKING:
    from open_seq2seq.checkpoints import Checkpoint
    from open_seq2seq.models.model import Model

# Config entries that are removed from the components whose default dtype is that of the model: dtype, because it might
# override float32, and recompute, because the gradients of activations inside recomputed layers cannot be measured.
LEFT_OUT = ("dtype", "recompute")


def parse_args(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line; returns the config values separately."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--config_file", required=True, help="the run's config")
    parser.add_argument("--batches", type=int, default=4, help="number of batches (default: %(default)s)")
    parser.add_argument("--data", choices=["train", "eval"], default="train",
                        help="section of the config that gives data and batch size (default: %(default)s)")
    parser.add_argument("--loss_scales", default="", help="comma-separated loss scales to report besides 1 (default: "
                        "that of the checkpoint)")
    parser.add_argument("--by", choices=["layer", "tensor"], default="layer",
                        help="whether a row of the tables is a layer or a tensor (default: %(default)s)")
    parser.add_argument("--trust_code", action="store_true",
                        help="let a config in a logdir import and run code from outside the package")
    parser.add_argument("--output", help="also write the report to this file")
    return parser.parse_known_args(argv)


def parse_scales(text: str) -> list[float]:
    """Returns the numbers in a text such as ``1024,16384``.

    Raises:
      UserError: the text contains anything but positive numbers.
    """
    try:
        scales = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        scales = [0.0]
    if not all(0.0 < scale < float("inf") for scale in scales):
        raise UserError(f"--loss_scales is '{text}' but has to be a comma-separated list of positive numbers.")
    return scales


def restored_model(args: argparse.Namespace, overrides: list[str]) -> tuple[Model, Checkpoint]:
    """Builds the config's model in float32 and restores its weights from a checkpoint.

    Returns:
      The model and the checkpoint.

    Raises:
      UserError: the config has a mistake, or no checkpoint fits the model.
    """
    from open_seq2seq.checkpoints import choosing
    from open_seq2seq.checkpoints.inputs import RunInputs
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.run.logdir import check_logdir
    from open_seq2seq.run.restoring import restore_weights
    from open_seq2seq.run.training_setup import describe_sections

    trust = ["--trust_code"] if args.trust_code else []
    options = parse_options([f"--config_file={args.config_file}", f"--mode={args.data}", *trust, *overrides])
    check_no_input([args.output], options.config.config_file.files)
    spec = describe_sections(options)[args.data]
    if spec.params.get("loss") is None:
        raise ConfigError(["'loss' is missing: the report needs the gradients of a loss."])
    spec.params["dtype"] = "float32"
    for name, part in spec.model_class.all_parts().items():
        if part.follows_dtype:
            given = spec.params.get(f"{name}_params") or {}
            spec.params[f"{name}_params"] = {key: value for key, value in given.items() if key not in LEFT_OUT}
    # The mode is eval even for training data, because the check of mode train refuses a logdir that is not empty.
    logdir = check_logdir(dataclasses.replace(options, mode="eval"), spec.params)
    model = build_model(spec)
    checkpoint = choosing.for_inference(logdir.checkpoint_dir, model.params)
    restore_weights(model, RunInputs(model, None, {}), checkpoint)
    return model, checkpoint


def present_scale(checkpoint: Checkpoint, params: Any) -> float:
    """Returns the loss scale of the checkpoint or else of the config; 1 if neither contains a number."""
    if "loss_scale/scale" in checkpoint.optimizer:
        return float(checkpoint.optimizer["loss_scale/scale"])
    given = params["loss_scaling"]
    return float(given) if isinstance(given, (int, float)) else 1.0


def main(argv: list[str] | None = None) -> None:
    """Measures and prints the report."""
    args, overrides = parse_args(argv)
    scales = parse_scales(args.loss_scales)
    if args.batches < 1:
        raise UserError(f"--batches is {args.batches} but has to be at least 1.")
    import_tensorflow()
    model, checkpoint = restored_model(args, overrides)
    from open_seq2seq.training.precision import PrecisionProbe, conversions_of, format_report, pick_batches

    present = present_scale(checkpoint, model.params)
    conversions = conversions_of(list(dict.fromkeys([*(scales or [present]), present])))
    found = PrecisionProbe(model, conversions).run(pick_batches(model, args.batches))
    text = (f"# Precision report: {checkpoint.path}\n\n{args.batches} batches of the {args.data} data, in float32.\n\n"
            + format_report(found, conversions, present, detailed=args.by == "tensor"))
    print(text, end="")
    if args.output:
        with OutputFiles() as outputs:
            outputs.open(args.output).write(text)


if __name__ == "__main__":
    run_script(main)
