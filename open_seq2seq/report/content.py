"""Reads what a report and a model card show from a log directory, which may be somebody else's."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints import read_state
from open_seq2seq.checkpoints.choosing import offered
from open_seq2seq.checkpoints.state import METRICS
from open_seq2seq.config.names import registered
from open_seq2seq.config.yaml_text import load_yaml_value
from open_seq2seq.metrics.names import LOSSES, is_score, metric_name, shown_value
from open_seq2seq.training.loop.metrics_file import Metrics, read_metrics, tables_in
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import CheckpointError, DataError, UserError

_PARAMETERS = re.compile(r"^Total trainable parameters: ([\d,]{1,30})$", re.MULTILINE)
_MOST_FACT = 300  # characters
_STEP = re.compile(r"(?:model\.ckpt|step)-(\d{1,15})$")
_MOST_BYTES = 1 << 20  # size of the largest text file that is read
_MOST_FILES = 6  # images, and as many sounds
_MOST_FILE_BYTES = {".png": 150_000, ".wav": 700_000}  # the page contains the files, so these limit its size
_MOST_EXAMPLES = 100  # worst examples that are shown; training writes ten
_LOGS = "logs"  # subfolder of a run with --enable_logs


@dataclass
class Content:
    """What a report shows.

    Attributes:
      folder: the folder that was read.
      metrics: values of the metrics by name and step: name → step → value.
      config: the newest checkpoint's config as YAML; "" if there is none.
      sections: the same by section; {} if there is none, or it cannot be read.
      state: the state of the checkpoint that inference uses; {} if there is none.
      parameters: number of trained parameters; "" if unknown.
      checkpoints: names of the checkpoints, oldest first, and of the best models.
      samples: for each step with texts, the name of its folder → a list of dicts (name → text); the newest step first.
      images: contents of PNG files by file name, from the newest step that has any.
      sounds: contents of WAV files by file name, from the newest step that has any.
      worst: (step of the last evaluation that kept worst examples, the examples as dicts: name → text).
      signatures: how the scores of the last evaluation that stated it were computed, by name of the score.
    """

    folder: Path
    metrics: Metrics
    config: str = ""
    sections: dict[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    parameters: str = ""
    checkpoints: list[str] = field(default_factory=list)
    samples: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    sounds: dict[str, bytes] = field(default_factory=dict)
    worst: tuple[int, list[dict[str, str]]] = (0, [])
    signatures: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the folder, without ``logs``."""
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == _LOGS else folder.name

    def section(self, name: str) -> dict[str, Any]:
        """Returns the parameters of a section of the config; {} if it has none."""
        section = self.sections.get(name)
        return section if isinstance(section, dict) else {}

    @property
    def params_of_inference(self) -> dict[str, Any]:
        """The parameters of inference, by which it chooses its checkpoint."""
        return {**self.section("base_params"), **self.section("infer_params")}

    def part(self, name: str) -> str:
        """Returns the name of a part of the model, such as its encoder, without package; "" if there is none."""
        return re.split(r"[.:/]", str(self.section("base_params").get(name, "")))[-1]

    @property
    def scores(self) -> dict[str, float]:
        """The metrics of the checkpoint that inference uses, the main one first."""
        scores = {str(name): float(value) for name, value in (self.state.get(METRICS) or {}).items()}
        main = self.section("base_params").get("best_metric")
        return dict(sorted(scores.items(), key=lambda one: (one[0] in LOSSES, one[0] != main)))

    def facts(self) -> dict[str, str]:
        """Returns what the head of a page says about the run, by name; what is unknown is left out."""
        data = self.data_files()
        parts = [name for name in map(self.part, ("encoder", "decoder")) if name]
        facts = {"Task": (self.use[1] or "").replace("-", " "),
                 "Model": str(self.sections.get("base_model", "")) + (f" with {', '.join(parts)}" if parts else ""),
                 "Data": ", ".join(f"{name}: {path}" for name, path in data.items()),
                 "Parameters": self.parameters, "Precision": str(self.section("base_params").get("dtype", "")),
                 "Processor": str(self.state.get("processor", "")), "Time": _duration(self.state.get("seconds")),
                 "Steps": f"{self.state['step']:,}" if "step" in self.state else "",
                 "Best": self.best()}
        return {name: text[:_MOST_FACT] for name, text in facts.items() if text}

    @property
    def use(self) -> tuple[str | None, str | None]:
        """(``Model.verb``, ``Model.hub_task``) of the model; None for models of other packages, which are not run."""
        model = self._model_class()
        return model.use_of({**self.section("base_params"), **self.section("train_params")}) if model else (None, None)

    @property
    def needed_models(self) -> dict[str, str]:
        """``Model.needed_models`` of inference; empty for models of other packages."""
        model = self._model_class()
        return model.needed_models(self.params_of_inference) if model else {}

    def _model_class(self) -> Any:
        import open_seq2seq.models  # noqa: F401 (it registers the models)

        return registered("model").get(str(self.sections.get("base_model")), (None, []))[0]

    def data_files(self) -> dict[str, str]:
        """Returns the first file of the data of training and of evaluation, by ``training`` and ``evaluation``."""
        data, paths = self.state.get("data") or {}, {}
        for section, title in (("train", "training"), ("eval", "evaluation")):
            files = data.get(section, {}).get("files", {})
            first: dict[str, str] = next(iter(files.values()), {})
            paths[title] = str(first.get("path", ""))
        return {title: path for title, path in paths.items() if path}

    def best(self) -> str:
        """Returns the main metric of the checkpoint that inference uses, or the best loss, in words."""
        if self.scores:
            name, value = next(iter(self.scores.items()))
            return f"{metric_name(name).title}: {shown_value(name, value)}"
        name = min(filter(is_score, self.metrics), key=lambda name: (name in LOSSES, name == LOSSES[0]), default="")
        values = [value for value in self.metrics.get(name, {}).values() if math.isfinite(value)]
        best = max if metric_name(name).rises else min
        return f"{metric_name(name).title}: {shown_value(name, best(values))}" if values else ""


def read_content(logdir: Path) -> Content:
    """Reads a logdir, or its subfolder ``logs`` if only that contains a run, as with ``--enable_logs``.

    Raises:
      UserError: the folder does not exist, or contains no run.
    """
    if not logdir.is_dir():
        raise UserError(f"The logdir {logdir} does not exist or is not a folder: give the folder of a run.")
    folder = next((place for place in (logdir, logdir / _LOGS) if tables_in(place) or _steps(place, "model.ckpt-*")),
                  None)
    if folder is None:
        raise UserError(f"The logdir {logdir} contains neither a table metrics.csv nor checkpoints: give the folder of "
                        "a run.")
    tables = tables_in(folder)
    content = Content(folder, read_metrics(tables[-1]) if tables else {})
    checkpoints = _steps(folder, "model.ckpt-*")
    content.checkpoints = [path.name for path in checkpoints]
    content.checkpoints += [f"best_models/{path.name}" for path in _plain(folder / "best_models", "*-step-*")]
    for path in checkpoints:
        content.config = _text(path / "config.yaml") or content.config
    _read_model(content)
    _read_samples(content)
    return content


def _read_model(content: Content) -> None:
    sections = load_yaml_value(content.config, {})
    content.sections = sections if isinstance(sections, dict) else {}
    with contextlib.suppress(CheckpointError, OSError):
        paths = offered(content.folder, content.params_of_inference).paths
        content.state = next((read_state(path) for path in paths[:1]), {})
    for path in _plain(content.folder, "overview.txt*"):
        match = _PARAMETERS.search(_text(path))
        content.parameters = match[1] if match else content.parameters


def _read_samples(content: Content) -> None:
    for step in reversed(_steps(content.folder / "samples", "step-*")):
        texts = [text for path in _plain(step, "texts*.json") for text in _dicts([_json(path)])]
        if texts:
            content.samples[step.name] = texts
        for files, suffix in ((content.images, ".png"), (content.sounds, ".wav")):
            paths = [] if files else _plain(step, f"*{suffix}")
            files |= {path.name: data for path in paths[:_MOST_FILES] if (data := _small_file(path))}
        worst = _json(step / "worst_examples.json")
        if isinstance(worst, list) and not content.worst[1]:
            content.worst = int(step.name.rpartition("-")[2]), list(_dicts(worst[:_MOST_EXAMPLES]))
        scores = _json(step / "scores.json")
        if isinstance(scores, dict) and not content.signatures:
            content.signatures = {str(name): str(score["signature"]) for name, score in scores.items()
                                  if isinstance(score, dict) and "signature" in score}


def _plain(folder: Path, pattern: str) -> list[Path]:
    """Returns the entries of a folder that match a pattern, sorted by name, without symbolic links."""
    return [] if folder.is_symlink() else sorted(path for path in folder.glob(pattern) if not path.is_symlink())


def _steps(folder: Path, pattern: str) -> list[Path]:
    folders = [path for path in _plain(folder, pattern) if _STEP.match(path.name) and path.is_dir()]
    return sorted(folders, key=lambda path: int(path.name.rpartition("-")[2]))


def _text(path: Path) -> str:
    with contextlib.suppress(DataError):
        return "" if path.is_symlink() else read_data(str(path), most_bytes=_MOST_BYTES).decode(errors="replace")
    return ""


def _json(path: Path) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(_text(path) or "null")
    return None


def _dicts(values: list[Any]) -> Iterator[dict[str, str]]:
    for value in values:
        if isinstance(value, dict):
            yield {str(name): str(text) for name, text in value.items()}


def _small_file(path: Path) -> bytes:
    with contextlib.suppress(DataError):  # it is too large, or no file
        return read_data(str(path), most_bytes=_MOST_FILE_BYTES[path.suffix])
    return b""


def _duration(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e9:
        return ""
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"
