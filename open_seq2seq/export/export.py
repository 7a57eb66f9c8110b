"""Writes an export: the model in a format, its vocabulary, a README and the report of its check."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import in_package
from open_seq2seq.export import sentencepiece  # noqa: F401  # the graph form of its tokenizers
from open_seq2seq.export.check import Infer, Report, check
from open_seq2seq.export.formats import Format, format_of
from open_seq2seq.models.model import Model
from open_seq2seq.models.serving import ServingFunction
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import NoGraphForm, UserError

REPORT = "report.json"
"""Name of the file of an export that contains the report of its check."""
VOCABULARY = "vocabulary"
"""Name of the folder of an export that contains copies of the files that the model was trained with."""


def export(model: Model, format_name: str, folder: Path, infer: Infer, examples: Callable[[], Sequence[Any]],
           name: str) -> dict[str, Any]:
    """Writes an export into a new folder, checks it, and returns its report.

    Args:
      model: the model, built for ``interactive_infer``, with the weights to export.
      format_name: one of ``formats.FORMATS``.
      folder: the folder, which is empty.
      infer: computes the results of inference for inputs.
      examples: returns the inputs with which the export is checked.
      name: final path of the folder, for messages and the README.

    Raises:
      UserError: the model cannot be exported in this format, or the export has not passed its check.
    """
    chosen = format_of(format_name)
    functions, refused = exportable(model, chosen)
    inputs = examples()
    refused |= chosen.write(model, functions, folder) or {}
    functions = [function for function in functions if function.name not in refused]
    for function, why in refused.items():
        deco_print(f"Not exported: {function}, because {why}. Exported: {', '.join(one.name for one in functions)}")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    _copy_vocabulary(model, folder)
    disk.write_new(folder / "README.md", _readme(chosen, functions, refused, name))
    if missing := chosen.missing_runtime:
        deco_print(f"WARNING: the export is not checked, because {missing} cannot be imported: {chosen.needs}")
    reports = {} if missing else check(chosen, functions, folder, infer, inputs)
    for function, report in reports.items():
        deco_print(_line(function, report))
    contents = {"format": chosen.name, "bytes": size, "tensorflow": tf.__version__,
                "functions": {function: _plain(report) for function, report in reports.items()},
                "not_exported": refused}
    disk.write_new(folder / REPORT, json.dumps(contents, indent=2) + "\n")
    return contents


def exportable(model: Model, chosen: Format) -> tuple[list[ServingFunction], dict[str, str]]:
    """Returns the functions of a model that can be written in a format, and why the others, by name, cannot.

    Raises:
      UserError: there is none.
    """
    try:
        declared = chosen.functions(model)
    except (AttributeError, KeyError) as error:
        if in_package(type(model)) and in_package(type(model.data_layer)):
            raise
        raise UserError(f"{type(model).__name__} with {type(model.data_layer).__name__} cannot be exported, because it "
                        f"lacks what the functions of an export read ({error}): override serving_functions.") from error
    if not declared:
        raise UserError(f"{type(model).__name__} declares no functions to export (serving_functions), so it cannot be "
                        "exported.")
    functions, refused = [], {}
    for function in declared:
        try:
            if not function.is_core and not chosen.holds_raw:
                raise NoGraphForm(f"the format {chosen.name} has no texts")
            function.resources()
        except NoGraphForm as error:
            refused[function.name] = str(error)
        else:
            functions.append(function)
    if not functions:
        reasons = "; ".join(f"{name}, because {why}" for name, why in refused.items())
        raise UserError(f"{type(model).__name__} has no function that the format {chosen.name} holds: {reasons}.")
    return functions, refused


def _copy_vocabulary(model: Model, folder: Path) -> None:
    """Copies the files that the model was trained with, such as vocabularies, under the names that checkpoints use."""
    files = {name: Path(path) for name, path in model.data_layer.assets().items() if Path(path).is_file()}
    if files:
        (folder / VOCABULARY).mkdir()
    for name, path in files.items():
        disk.copy_new(path, folder / VOCABULARY / name)


def _line(function: str, report: Report) -> str:
    return (f"{function}: {report.equal} of {report.examples} results are those of inference, scores differ by at most "
            f"{report.largest_difference:.1g}; {report.seconds * 1000:.1f} ms for one example, inference "
            f"{report.seconds_of_infer * 1000:.1f} ms")


def _plain(report: Report) -> dict[str, Any]:
    values = dataclasses.asdict(report)
    del values["first_unequal"]
    return {**values, "share_equal": report.equal / report.examples}


def _readme(chosen: Format, functions: Sequence[ServingFunction], refused: Mapping[str, str], name: str) -> str:
    """Returns the text of the README."""
    lines = [*chosen.head, f"# {Path(name).name}", "",
             f"A trained model as {chosen.title}, which needs: `{chosen.needs}`. "
             "`report.json` compares its results with those of the toolkit that trained it.", ""]
    if any(sentencepiece.is_resource(one) for function in functions for one in function.resources()):
        lines += [f"The texts are tokenised by TensorFlow Text: `{sentencepiece.INSTALL}`. Write "
                  "`import tensorflow_text` above the lines that load the model.", ""]
    for function in functions:
        lines += [f"## {function.name}", "", "| input | shape | type |", "|---|---|---|"]
        lines += [f"| `{key}` | {_shape(spec)} | {spec.dtype.name} |" for key, spec in function.inputs.items()]
        lines += ["", "| output | contents |", "|---|---|"]
        lines += [f"| `{key}` | {described} |" for key, described in function.outputs.items()]
        lines += ["", "```python", *chosen.loading(function, Path(name).name), "```", ""]
    if refused:
        lines += ["## Not exported", "", *(f"- `{function}`, because {why}" for function, why in refused.items()), ""]
    return "\n".join(lines)


def _shape(spec: tf.TensorSpec) -> str:
    names = ["batch", "time"]
    return "[" + ", ".join(names[place] if size is None else str(size)
                           for place, size in enumerate(spec.shape.as_list())) + "]"
