"""Exports the model of a log directory: loads it, finds examples for the check, and writes the folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.export.export import REPORT, export
from open_seq2seq.export.formats import format_of
from open_seq2seq.models.builder import build_data_layer
from open_seq2seq.run import session, training_setup
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import OutputFiles

EXAMPLES = 200
"""Largest number of examples with which an export is checked."""


def export_run(load_options: RunOptions, data_options: Callable[[], RunOptions], format_name: str,
               folder: str) -> dict[str, Any]:
    """Exports a model; returns the report of its check.

    Args:
      load_options: the options with which the model is loaded.
      data_options: returns the options of the run whose data the export is checked with.
      format_name: one of ``formats.FORMATS``.
      folder: the folder to write; an earlier export is replaced.

    Raises:
      UserError: the model cannot be loaded or exported, there are no examples, or the export has not passed its check.
    """
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.isfile(os.path.join(folder, REPORT)):
        raise UserError(f"The folder {folder} contains files, but no earlier export: choose another folder, or remove "
                        "this one.")
    with OutputFiles() as outputs:
        place = outputs.folder(folder)
        trained = session.load(load_options)
        compared = trained.variant(format_of(format_name).search(trained.model))
        report = export(trained.model, format_name, place, compared.infer, lambda: _examples(data_options), folder)
    deco_print(f"Wrote {folder} ({report['bytes'] / 1e6:.1f} MB); its README.md says how to load it")
    return report


def _examples(data_options: Callable[[], RunOptions]) -> Sequence[Any]:
    """Returns inputs for the check: those of the validation data, or of the files that were given."""
    try:
        options = data_options()
        specs = training_setup.describe_sections(options)
        examples = build_data_layer(specs[options.mode]).interactive_examples(EXAMPLES)
    except NotImplementedError as error:
        raise UserError(f"An export is checked with examples, but {error}") from error
    except UserError as error:
        error.add_note("An export is checked with examples of the validation data: give other files with "
                       "--infer_files.")
        raise
    if not examples:
        raise UserError("There are no examples to check the export with: give files with --infer_files.")
    return examples
