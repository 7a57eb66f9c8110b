"""The HTML page of a report, which needs no other files and no network."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import BinaryIO

from open_seq2seq.report.content import Content, read_content
from open_seq2seq.report.curves import curve
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

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
    found = {name: content.metrics[name] for name, count in values.items() if count > 1 and name not in losses}
    charts = {**({", ".join(losses): losses} if losses else {}), **{name: {name: found[name]} for name in found}}
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
                                                  for texts in found)
             for step, found in list(content.samples.items())[:_MOST_SAMPLES]]
    parts += [f'<figure><figcaption>{escape(name)}</figcaption><img alt="{escape(name)}" '
              f'src="data:image/png;base64,{base64.b64encode(data).decode()}"></figure>'
              for name, data in content.images.items()]
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
