"""Trains the toy models that the package contains, and packs each into one file of toy_models/.

The data are made by the repository's own scripts, so nothing is downloaded. All of it takes about a quarter of an hour
on one core; the same processor and versions give the same files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from open_seq2seq.utils.script import ScriptParser, quiet_tensorflow, run_script

quiet_tensorflow()

from open_seq2seq.run.run import Run
from open_seq2seq.utils.shipped import SCRIPTS, TOY_MODELS

_LICENSE = "apache-2.0"


class ToyModel(NamedTuple):
    """How a toy model is made.

    Attributes:
      data: the words of the command that makes its data.
      recipe: name of its recipe.
      values: values that differ from the recipe's, which make the model smaller or independent of the processor.
    """

    data: str
    recipe: str
    values: dict[str, Any]


_REVERSAL = {f"{part}_params/{name}": size for part in ("encoder", "decoder")
             for name, size in (("hidden_size", 64), ("filter_size", 256))}
MODELS = {
    "reversal": ToyModel("create_toy_data.py --output_dir=toy_text_data", "nmt-reversal-TT",
                         {**_REVERSAL, "lr_policy_params/d_model": 64, "max_steps": 2000, "eval_steps": 500}),
    "speech": ToyModel("create_toy_speech.py --output_dir=toy_speech_data --sample_freq=8000", "toy-w2l",
                       {"dtype": "float32"}),
    "labels": ToyModel("create_toy_data.py --task=labels", "toy-labels", {}),
    "images": ToyModel("create_toy_images.py --output_dir=toy_image_data", "toy-resnet8", {}),
    "text": ToyModel("create_toy_text.py --output_dir=toy_text_lm", "toy-lm", {}),
    "voice": ToyModel("create_toy_voice.py --output_dir=toy_voice_data", "toy-durations",
                      {"decoder_params/decoder_cell_units": 64}),
}


def make(name: str) -> None:
    """Makes the data of a toy model in the working directory, trains it there, and packs it."""
    model = MODELS[name]
    script, *words = model.data.split()
    subprocess.run([sys.executable, str(SCRIPTS / script), *words], check=True)
    run = Run(f"recipe:{model.recipe}", model.values, logdir=f"toy-{name}")
    run.train(evaluate=True)
    TOY_MODELS.mkdir(exist_ok=True)
    Run(logdir=f"toy-{name}").pack(TOY_MODELS / f"{name}.zip", license=_LICENSE)


def main() -> None:
    """Makes the models that are named on the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"models to make: {', '.join(MODELS)}; all by default")
    chosen: argparse.Namespace = parser.parse_args()
    if unknown := [name for name in chosen.names if name not in MODELS]:
        parser.error(f"there is no toy model {unknown[0]!r}; the models are {', '.join(MODELS)}")
    for name in chosen.names or MODELS:
        make(name)


if __name__ == "__main__":
    run_script(main)
