"""The HTML page of a report, which needs no other files and no network."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

from open_seq2seq.training.loop.metrics_file import Metrics, read_metrics, tables_in
from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import DataError, UserError

_WIDTH, _HEIGHT = 460, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 30, 12, 28  # margins, which hold the labels
_COLORS = ("#1764ab", "#c2410c", "#15803d", "#7e22ce")
_MOST_POINTS = 500
_TICKS = 4


def curve(series: Mapping[str, Mapping[int, float]]) -> str:
    """Returns an SVG element with one line per series over the steps, followed by an HTML legend if there are several.

    Values that are not finite are left out, and long series are thinned.

    Args:
      series: step → value, by name; at least one has a finite value.
    """
    curves = {name: thinned([(step, value) for step, value in sorted(values.items()) if math.isfinite(value)])
            for name, values in series.items()}
    points = [point for row in curves.values() for point in row]
    xs, ys = _range([x for x, _ in points]), _range([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        return (_LEFT + (x - xs[0]) / (xs[1] - xs[0]) * (_WIDTH - _LEFT - _RIGHT),
                _TOP + (ys[1] - y) / (ys[1] - ys[0]) * (_HEIGHT - _TOP - _BOTTOM))

    parts = []
    for tick in range(_TICKS + 1):
        x, y = (low + (high - low) * tick / _TICKS for low, high in (xs, ys))
        across, up = place(x, y)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up:.1f}" y2="{up:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{up + 4:.1f}" text-anchor="end">{_number(y)}</text>')
        parts.append(f'<text x="{across:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{_number(round(x))}</text>')
    for color, row in zip(_COLORS * len(curves), curves.values(), strict=False):
        placed = [place(x, y) for x, y in row]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.6" points="{line}"/>')
        dots = placed if len(placed) <= 30 else placed[-1:]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{color}"/>' for x, y in dots]
    names = html.escape(", ".join(series))
    return (f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{names} over steps">' + "".join(parts)
            + "</svg>" + _legend(list(curves)))


def thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Returns points (step, value) for a curve.

    More than 500 points are divided into at most 500 groups of equal size, and each group is replaced by its mean. The
    last point is kept.
    """
    size = math.ceil(len(points) / _MOST_POINTS)
    if size <= 1:
        return list(points)
    stretches = [points[start:start + size] for start in range(0, len(points) - 1, size)]
    return [(stretch[len(stretch) // 2][0], sum(value for _, value in stretch) / len(stretch))
            for stretch in stretches] + [points[-1]]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    entries = [f'<span style="color:{color}">&#9632; {html.escape(name)}</span>'
               for color, name in zip(_COLORS * len(names), names, strict=False)]
    return f'<p class="legend">{" ".join(entries)}</p>'


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
    checkpoints: list[str] = field(default_factory=list)
    samples: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    sounds: dict[str, bytes] = field(default_factory=dict)
    worst: tuple[int, list[dict[str, str]]] = (0, [])
    signatures: dict[str, str] = field(default_factory=dict)


def read_content(logdir: Path) -> Content:
    """Reads a logdir, or its subfolder ``logs`` if only that contains a run, as with ``--enable_logs``.

    Raises:
      UserError: the folder does not exist, or contains no run.
    """
    if not logdir.is_dir():
        raise UserError(f"The logdir {logdir} does not exist or is not a folder: give the folder of a run, as in "
                        "--mode=report --logdir=my_run.")
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
    _read_samples(content)
    return content


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
    if path.is_symlink() or not path.is_file():
        return ""
    with contextlib.suppress(DataError):
        return read_data(str(path), most_bytes=_MOST_BYTES).decode(errors="replace")
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
    most = _MOST_FILE_BYTES[path.suffix]
    if path.is_file() and path.stat().st_size <= most:
        with contextlib.suppress(DataError):
            return read_data(str(path), most_bytes=most)
    return b""


REPORT = "report.html"
"""Name of the page in the logdir."""
_MARK = b"<!DOCTYPE html><!-- report of a run by OpenSeq2Seq -->\n"
_MOST_TEXT = 1000  # characters of one text
_MOST_SAMPLES = 5  # steps whose samples are shown
_MOST_COLUMNS = 20  # of the table of the worst examples
_MOST_METRICS = 500
_FIRST = ("train_loss", "val_loss", "eval_loss")  # listed first, and drawn in one chart
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2430; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #d5d9e0; }
figure { display: inline-block; margin: .6rem .6rem 0 0; width: 29.5rem; max-width: 100%; vertical-align: top; }
figcaption { font-weight: 600; } svg { width: 100%; } svg text { font: 11px sans-serif; fill: #5a6270; }
.grid { stroke: #e4e7ec; } .legend { margin: 0 0 0 3.6rem; font-size: 13px; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top;
padding: .25rem .7rem .25rem 0; border-bottom: 1px solid #e4e7ec; overflow-wrap: anywhere; min-width: 4.5rem; }
td:first-child { min-width: 11rem; }
pre { background: #f5f6f8; padding: .8rem; overflow-x: auto; font-size: 12.5px; } img { max-width: 100%; }
"""


def write_report(logdir: Path) -> Path:
    """Writes the report of the run in a logdir to ``report.html`` there, and returns its path.

    Raises:
      UserError: the logdir contains no run, or the page cannot be written.
    """
    content = read_content(logdir)
    path = logdir / REPORT
    try:
        with disk.writing(path, _is_report) as file:
            file.write(_MARK + page(content).encode(errors="replace"))
    except disk.ForeignError as error:
        raise UserError(f"{path} is not a report that OpenSeq2Seq has written: move it, and start again.") from error
    except OSError as error:
        raise UserError(f"The report {path} cannot be written ({error.strerror}): free space, or copy the logdir to "
                        "a folder that you may write to.") from error
    return path


def _is_report(file: BinaryIO) -> bool:
    return file.read(len(_MARK)) == _MARK


def page(content: Content) -> str:
    """Returns the page without its first line, which marks the file as a report."""
    name = escape(content.folder.resolve().name)
    sections = {"Results": _results(content), "Curves": _curves(content), "Samples": _samples(content),
                "Worst examples": _worst(content), "Settings": _settings(content)}
    body = "".join(f"<h2>{title}</h2>{text}" for title, text in sections.items() if text)
    return (f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{name}</title><style>{_STYLE}</style></head><body><h1>{name}</h1>{body}</body></html>\n")


def _results(content: Content) -> str:
    rows = []
    for name in _ordered(content.metrics):
        values = {step: value for step, value in content.metrics[name].items() if math.isfinite(value)}
        if values:
            last, low, high = max(values), min(values, key=values.__getitem__), max(values, key=values.__getitem__)
            rows.append([name, f"{_shown(values[last])} at {last:,}", f"{_shown(values[low])} at {low:,}",
                         f"{_shown(values[high])} at {high:,}"])
    checkpoints = escape(", ".join(content.checkpoints))
    listed = f"<p>Checkpoints: {checkpoints}</p>" if checkpoints else ""
    computed = "".join(f"<p>{escape(f'{name}: {text}'[:_MOST_TEXT])}</p>" for name, text in content.signatures.items())
    return (_table(["metric", "last, at step", "lowest", "highest"], rows) if rows else "") + computed + listed


def _curves(content: Content) -> str:
    values = {name: len(_different(content.metrics[name])) for name in _ordered(content.metrics)}
    losses = {name: content.metrics[name] for name in _FIRST if values.get(name)}
    curves = {name: content.metrics[name] for name, count in values.items() if count > 1 and name not in losses}
    charts = {**({", ".join(losses): losses} if losses else {}), **{name: {name: curves[name]} for name in curves}}
    return "".join(f"<figure><figcaption>{escape(title)}</figcaption>{curve(series)}</figure>"
                   for title, series in charts.items())


def _different(values: Mapping[int, float]) -> set[float]:
    """Returns the distinct finite values of a metric; if there is only one, a curve would show nothing."""
    return {value for value in values.values() if math.isfinite(value)}


def _ordered(metrics: Mapping[str, object]) -> list[str]:
    """Returns the metrics to show: losses first, then names that begin with ``eval``, then all others.

    The epoch and metrics with a slash in their name, such as values for each variable, are left out.
    """
    names = [name for name in metrics if "/" not in name and name != "epoch"]
    ordered = sorted(names, key=lambda name: (name not in _FIRST, not name.lower().startswith("eval"), name))
    return ordered[:_MOST_METRICS]


def _samples(content: Content) -> str:
    parts = [f"<h3>{escape(step)}</h3>" + "".join(_table([], [[name, text] for name, text in texts.items()])
                                                  for texts in samples_of_step)
             for step, samples_of_step in list(content.samples.items())[:_MOST_SAMPLES]]
    parts += [f'<figure><figcaption>{escape(name)}</figcaption><img alt="{escape(name)}" '
              f'src="data:image/png;base64,{base64.b64encode(data).decode()}"></figure>'
              for name, data in content.images.items()]
    parts += [f'<figure><figcaption>{escape(name)}</figcaption><audio controls '
              f'src="data:audio/wav;base64,{base64.b64encode(data).decode()}"></audio></figure>'
              for name, data in content.sounds.items()]
    return "".join(parts)


def _worst(content: Content) -> str:
    step, rows = content.worst
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))[:_MOST_COLUMNS]
    return f"<p>From the evaluation at step {step:,}.</p>" + _table(names, [[row.get(name, "") for name in names]
                                                                         for row in rows])


def _settings(content: Content) -> str:
    return f"<pre>{escape(content.config)}</pre>" if content.config else ""


def _shown(value: float) -> str:
    return f"{value:.4g}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>" if names else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(text[:_MOST_TEXT])}</td>' for text in row)}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"
