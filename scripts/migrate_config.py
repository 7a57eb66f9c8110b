"""Writes a config of NVIDIA's OpenSeq2Seq as YAML, with the names and defaults of today.

usage: python scripts/migrate_config.py OLD.py NEW.yaml

NEW.yaml trains the same model as OLD.py. Its first lines name the parameters that are set because the defaults of
NVIDIA's OpenSeq2Seq and of this package differ.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

from open_seq2seq.config.data_note import SCHEMA_LINE
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.original_defaults import use_original_defaults
from open_seq2seq.config.serialize import complete_yaml
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("old", help="the config, a .py file")
    parser.add_argument("new", help="the .yaml file to write")
    return parser.parse_args(argv)


def migrated(path: str) -> str:
    """Returns a config as YAML.

    Raises:
      ConfigError: the config cannot be read, or contains a value that YAML cannot, such as a lambda.
    """
    config = load_config(path)
    changed = use_original_defaults(config)
    lines = [f"From {os.path.basename(path)}, a config of NVIDIA's OpenSeq2Seq." if config.old_names else
             f"From {os.path.basename(path)}."]
    if changed:
        lines += ["So that it means the same as there:", *(f"  {line}" for line in changed)]
    return SCHEMA_LINE + "".join(f"# {line}\n" for line in lines) + complete_yaml(
        {"base_model": config.base_model, **config.sections})


def main(argv: list[str] | None = None) -> None:
    """Writes the new config."""
    args = parse_args(argv)
    if not args.new.endswith((".yaml", ".yml")):
        raise UserError(f"{args.new} has to end in .yaml: only YAML files are written.")
    if os.path.lexists(args.new):
        raise UserError(f"{args.new} already exists: give another name, or remove the file.")
    text = migrated(args.old)
    with disk.writing(args.new, disk.always) as file:
        file.write(text.encode())
    deco_print(f"Wrote {args.new}")


if __name__ == "__main__":
    run_script(main)
