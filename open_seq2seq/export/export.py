"""Writes an export: the model in a format, its vocabulary, a README and the report of its check.

The check compares the results of the export, computed by its runtime in a new process, with those of inference.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.names import in_package
from open_seq2seq.export import outside, sentencepiece  # the latter also registers the graph form of its tokenizers
from open_seq2seq.export.formats import Format, format_of
from open_seq2seq.models.model import Model
from open_seq2seq.models.serving import Answer, ServingFunction
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import NoGraphForm, UserError

REPORT = "report.json"
"""Name of the file of an export that contains the report of its check."""
VOCABULARY = "vocabulary"
"""Name of the folder of an export that contains copies of the files that the model was trained with."""
_IN_BATCH = 32  # examples
_SINGLE = 50  # examples that are also computed one by one

Infer = Callable[[Sequence[Any]], list[Any]]


@dataclasses.dataclass(frozen=True)
class Report:
    """How the results of a function compare with those of inference.

    Attributes:
      examples: number of results compared; an example counts twice if it was computed both alone and in a batch.
      equal: number of those whose texts are equal.
      largest_difference: largest difference between numbers such as scores or logits, where the texts are equal.
      seconds: median time of an example that is computed alone, without the first.
      seconds_of_infer: the same for ``TrainedModel.infer``.
      first_unequal: (expected, found) of the first example that is not equal.
    """

    examples: int
    equal: int
    largest_difference: float
    seconds: float
    seconds_of_infer: float
    first_unequal: tuple[Answer, Answer] | None = None


def check(chosen: Format, functions: Sequence[ServingFunction], folder: Path, infer: Infer,
          examples: Sequence[Any]) -> dict[str, Report]:
    """Compares an export with inference; returns a report for each function.

    Args:
      chosen: the format.
      functions: the functions of the export.
      folder: the export.
      infer: computes the results of inference for inputs, without an export.
      examples: the inputs.

    Raises:
      UserError: the export cannot be used, or its results differ.
    """
    results = infer(examples)
    seconds_of_infer = _times(lambda number: infer([examples[number]]), min(len(examples), _SINGLE))
    batches = [np.arange(begin, min(begin + _IN_BATCH, len(examples))) for begin in range(0, len(examples), _IN_BATCH)]
    batches += [np.array([number]) for number in range(min(len(examples), _SINGLE))]
    calls = [(function, numbers) for function in functions for numbers in batches]
    outputs, seconds = _run(chosen, folder, [
        (function.name, function.feed([examples[number] for number in numbers.tolist()], numbers.astype(np.int64)))
        for function, numbers in calls])
    reports = {}
    for function in functions:
        indices = [index for index, (one, _) in enumerate(calls) if one is function]
        expected = _expected(function, results, examples)
        pairs = [(expected[number], answer) for index in indices
                 for number, answer in zip(calls[index][1], function.answers(outputs[index]), strict=True)]
        alone = [seconds[index] for index in indices if len(calls[index][1]) == 1]
        reports[function.name] = _compared(pairs, float(np.median(alone[1:] or alone)), seconds_of_infer)
        _judge(chosen, function, reports[function.name])
    return reports


def _expected(function: ServingFunction, results: Sequence[Any], examples: Sequence[Any]) -> list[Answer]:
    """Returns what a function should answer to each example, given the results of inference."""
    answers = [function.expected(result) for result in results]
    if function.numbers is None:
        return answers
    numbers = [one for begin in range(0, len(examples), _IN_BATCH)
               for one in function.numbers(examples[begin:begin + _IN_BATCH])]
    return [answer._replace(numbers=one) for answer, one in zip(answers, numbers, strict=True)]


def _times(call: Callable[[int], Any], count: int) -> float:
    seconds = []
    for number in range(count):
        start = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:] or seconds))


def _compared(pairs: Sequence[tuple[Answer, Answer]], seconds: float, seconds_of_infer: float) -> Report:
    unequal = [pair for pair in pairs if pair[0].texts != pair[1].texts]
    differences = [_difference(expected.numbers, answer.numbers)
                   for expected, answer in pairs if expected.texts == answer.texts]
    largest = float(np.max(differences)) if differences else 0.0  # NaN if one of them is
    return Report(len(pairs), len(pairs) - len(unequal), largest, seconds, seconds_of_infer,
                  unequal[0] if unequal else None)


def _difference(expected: Any, numbers: Any) -> float:
    if np.shape(expected) != np.shape(numbers):
        return math.inf
    return float(np.max(np.abs(np.subtract(expected, numbers)), initial=0.0))


def _judge(chosen: Format, function: ServingFunction, report: Report) -> None:
    """Raises UserError if the results of a function differ too much."""
    name = f"The function {function.name} of the {chosen.title}"
    if report.equal < chosen.least_equal * report.examples:
        expected, answer = report.first_unequal or (Answer(()), Answer(()))
        raise UserError(f"{name} computes only {report.equal} of {report.examples} results as inference does, so "
                        f"nothing was written; the first that differs is {answer.texts!r:.200} instead of "
                        f"{expected.texts!r:.200}.")
    most = chosen.most_difference if function.numbers is None else sys.float_info.max
    if not report.largest_difference <= most:
        raise UserError(f"{name} computes numbers that differ by {report.largest_difference:.2g} from those of "
                        f"inference, but at most {most:g} is accepted, so nothing was written.")


def _run(chosen: Format, folder: Path,
         calls: Sequence[tuple[str, dict[str, np.ndarray]]]) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Returns the outputs of each call, and its time in seconds; see ``outside``.

    Raises:
      UserError: the process failed.
    """
    with tempfile.TemporaryDirectory() as place:
        inputs, results = Path(place) / "calls.npz", Path(place) / "results.npz"
        with open(inputs, "xb") as file:
            np.savez(file, **outside.packed({f"{number}:{name}:{key}": value for number, (name, feed)
                                             in enumerate(calls) for key, value in feed.items()}))
        # On the processor, because this process may have taken the memory of the GPU.
        done = subprocess.run([sys.executable, "-P", outside.__file__, chosen.name, str(folder.resolve()), str(inputs),
                               str(results)], cwd=place, capture_output=True, text=True, errors="replace", check=False,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
        if done.returncode:
            last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise UserError(f"The {chosen.title} cannot be used in a process of its own, so nothing was written: "
                            f"{last:.500}")
        with np.load(results) as file:
            arrays = outside.unpacked(dict(file))
    outputs: list[dict[str, np.ndarray]] = [{} for _ in calls]
    for key, value in arrays.items():
        number, _, name = key.partition(":")
        if name:
            outputs[int(number)][name] = value
    return outputs, arrays["seconds"]


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
