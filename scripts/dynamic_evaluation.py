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

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.cli import parse_options
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import run_script


def parse_args(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line; returns the script's own flags, and the other arguments, which are those of run.py."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (default: %(default)s)")
    parser.add_argument("--decay", type=float, default=0.0,
                        help="fraction of the difference from the trained weights that each update removes "
                        "(default: %(default)s)")
    parser.add_argument("--clip", type=float, default=0.25,
                        help="largest global norm of the gradient (default: %(default)s)")
    return parser.parse_known_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    own, others = parse_args(argv)
    if not (own.rate >= 0.0 and 0.0 <= own.decay < 1.0 and own.clip > 0.0):
        raise UserError(f"--rate is {own.rate}, --decay {own.decay} and --clip {own.clip}, but the rate has to be at "
                        "least 0, the decay from 0 to below 1, and the clip above 0.")
    defaults = ["--mode=eval", "--eval_batch_size_per_gpu=1", "--data_layer_params/carry_state=True"]
    options = parse_options([*defaults, *others])
    from open_seq2seq.metrics.perplexity import text_perplexity
    from open_seq2seq.training.inference.lm.dynamic_evaluation import DynamicSettings, dynamic_surprise
    from open_seq2seq.training.run import session

    surprise, tokens = dynamic_surprise(session.load_model(options), DynamicSettings(own.rate, own.decay, own.clip))
    deco_print(f"Perplexity by dynamic evaluation: {text_perplexity(surprise, tokens).per_token:.2f} per token "
               f"({tokens:,} tokens)")


if __name__ == "__main__":
    run_script(main)
