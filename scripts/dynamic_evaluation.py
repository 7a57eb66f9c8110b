"""Evaluates a language model that learns from each chunk of the text after the chunk has been scored.

usage: python scripts/dynamic_evaluation.py --rate=0.1 --config_file=config.py [values of the config]

See Krause et al. 2018, https://arxiv.org/abs/1709.07432. The text is read as one sequence (eval_batch_size_per_gpu 1)
unless the command line says otherwise. Each chunk starts with the recurrent state in which the previous chunk ended.
The checkpoint is not changed.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.cli import parse_options
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.script import ScriptParser, finite_float, run_script

if TYPE_CHECKING:
    from open_seq2seq.models.model import Model


def parse_args(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line; returns the script's own flags, and the other arguments, which are those of run.py."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--rate", type=finite_float, default=0.1, help="learning rate (default: %(default)s)")
    parser.add_argument("--decay", type=finite_float, default=0.0,
                        help="fraction of the difference from the trained weights that each update removes "
                        "(default: %(default)s)")
    parser.add_argument("--clip", type=float, default=0.25,
                        help="largest global norm of the gradient; inf disables clipping (default: %(default)s)")
    return parser.parse_known_args(argv)


def load(arguments: list[str]) -> Model:
    """Returns the model that arguments of run.py describe, with restored weights, for evaluation with carried states.

    Raises:
      UserError: the arguments or the config are invalid, the data cannot carry states, or there is no checkpoint.
    """
    defaults = ["--mode=eval", "--eval_batch_size_per_gpu=1", "--data_layer_params/carry_state=True"]
    try:
        options = parse_options([*defaults, *arguments])
        from open_seq2seq.run import session  # imports TensorFlow

        return session.load(options).model
    except ConfigError as error:
        if not any("Unknown parameter 'data_layer_params/carry_state'" in problem for problem in error.problems):
            raise
        raise UserError("Dynamic evaluation needs a language model whose data layer can carry states from chunk to "
                        "chunk, such as WKTDataLayer: give its config or logdir.") from error


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    own, others = parse_args(argv)
    if not (own.rate >= 0.0 and 0.0 <= own.decay < 1.0 and own.clip > 0.0):
        raise UserError(f"--rate is {own.rate}, --decay {own.decay} and --clip {own.clip}, but the rate has to be at "
                        "least 0, the decay from 0 to below 1, and the clip above 0.")
    model = load(others)
    from open_seq2seq.inference.lm.dynamic_evaluation import DynamicSettings, evaluate_dynamically

    evaluate_dynamically(model, DynamicSettings(own.rate, own.decay, own.clip))


if __name__ == "__main__":
    run_script(main)
