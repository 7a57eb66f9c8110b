"""What ``--mode=report`` writes: an HTML page, and the model card of a run in the form of the Hugging Face Hub.

The page needs no other files and no network; Bokeh draws its curves in the browser.
"""

from __future__ import annotations

import base64
import contextlib
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints.packed import CARD
from open_seq2seq.config.yaml_text import dump_yaml
from open_seq2seq.metrics.names import LOSSES, is_score, metric_name, shown_value
from open_seq2seq.metrics.trackers import flattened
from open_seq2seq.models.model import COMMANDS
from open_seq2seq.report.content import Content, read_content
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError

REPORT, COMPARISON = "report.html", "comparison.html"
"""Names of the page in the logdir: about its run, and about several runs, of which it is the first."""
_MARK = b"<!DOCTYPE html><!-- report of a run by OpenSeq2Seq -->\n"
_CARD_MARK = b"---\n# Written by OpenSeq2Seq, and written again by --mode=report unless this line is removed.\n"
_LIBRARY = "open-seq2seq"
_MOST_TEXT = 1000  # characters of one text
_MOST_SAMPLES = 5  # steps whose samples are shown
_MOST_COLUMNS = 20  # of the table of the worst examples
_MOST_METRICS, _MOST_CHARTS = 500, 40
_MOST_SETTINGS = 500  # rows of the table of settings that differ
COLORS = ("#3b82c4", "#d9632a", "#2f9e57", "#9b5bd0", "#c2417a", "#8a7a1f")
"""Colours of curves."""
_GREY = "#8a8f98"  # of axes and their labels: legible on white and on black
_MOST_POINTS = 500  # of a curve
# The browser may load nothing, whatever the page contains.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; media-src data:"
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2430; --dim: #5a6270; --line: #d5d9e0; --page: #fff; --box: #f5f6f8; }
@media (prefers-color-scheme: dark) {
:root { --ink: #e3e6eb; --dim: #9aa3b0; --line: #3a404a; --page: #16191e; --box: #20242b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 1.5rem auto;
max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; } .best { font-size: 1.25rem; margin: .2rem 0 1rem; } .dim, .legend { color: var(--dim); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; } .legend { margin: 0 0 0 3rem; font-size: 13px; }
.media { display: flex; flex-wrap: wrap; gap: 1rem; } .media img { background: #fff; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin-bottom: 1rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
overflow-wrap: anywhere; min-width: 5rem; } td:first-child { min-width: 9rem; color: var(--dim); }
pre { background: var(--box); padding: .8rem; overflow-x: auto; font-size: 12.5px; } img { max-width: 100%; }
summary { cursor: pointer; color: var(--dim); }
"""


def write_report(logdir: Path, *others: Path, license: str = "", languages: Sequence[str] = (),
                 datasets: Sequence[str] = ()) -> Path:
    """Writes the page about the run in a logdir, or about several runs side by side, to the logdir; returns its path.

    A single run also gets a model card.

    Args:
      logdir: the logdir, which gets ``report.html`` and ``README.md``, or ``comparison.html`` if there are others.
      others: the logdirs of more runs.
      license, languages, datasets: see ``model_card``.

    Raises:
      UserError: a logdir contains no run, or the page cannot be written.
    """
    contents = [read_content(one) for one in (logdir, *others)]
    path = write_page(logdir / (COMPARISON if others else REPORT), page(contents))
    with explaining(logdir / CARD, "a card"):
        if not others and write_card(logdir, contents[0], license, languages, datasets) is None:
            deco_print(f"{logdir / CARD} is not a card that OpenSeq2Seq has written; it is left as it is.")
    return path


def write_page(path: Path, text: str) -> Path:
    """Writes the result of ``page`` to a file; returns its path.

    Raises:
      UserError: the file cannot be written, or is not a page that this package has written.
    """
    with explaining(path, "a report"), disk.writing(path, lambda file: file.read(len(_MARK)) == _MARK,
                                                    alone=True) as file:
        file.write(_MARK + text.encode(errors="replace"))
    return path


def page(contents: Sequence[Content], title: str = "", first: Mapping[str, str] | None = None) -> str:
    """Returns the page about one or several runs, without its first line, which marks the file as a report.

    Args:
      contents: what was read of each run; of a sweep, there may be none.
      title: title of the page; by default, the names of the runs.
      first: sections before those about the runs: heading → HTML.
    """
    names = _names(contents)
    name = escape(title or ", ".join(names))
    sections = {**(first or {}), "Results": _results(names, contents), "Curves": _curves(names, contents)}
    for heading, show in (("Samples", _samples), ("Worst examples", _worst), ("Settings", _settings)):
        shown = {of: text for of, content in zip(names, contents, strict=True) if (text := show(content))}
        if heading == "Settings" and len(contents) > 1:
            sections["Settings that differ"] = _differences(names, contents)
        sections[heading] = "".join((f"<h3>{escape(of)}</h3>" if len(contents) > 1 else "") + text
                                    for of, text in shown.items())
    body = (_head(names, contents) if contents else "") + "".join(
        f"<h2>{heading}</h2>{text}" for heading, text in sections.items() if text)
    return (f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f"<title>{name}</title><style>{_STYLE}</style></head><body><h1>{name}</h1>{body}</body></html>\n")


def _names(contents: Sequence[Content]) -> list[str]:
    """Returns different names of the runs: those of their folders, or their paths if two folders have the same name."""
    names = [content.name for content in contents]
    return names if len({*names}) == len(names) else [str(content.folder) for content in contents]


def _head(names: Sequence[str], contents: Sequence[Content]) -> str:
    facts = [content.facts() for content in contents]
    if len(contents) == 1:
        best = facts[0].pop("Best", "")
        return f'<p class="best">{escape(best)}</p>' + table([], [[name, text] for name, text in facts[0].items()])
    kinds = dict.fromkeys(name for of_run in facts for name in of_run)
    return table(["", *names], [[kind, *(of_run.get(kind, "") for of_run in facts)] for kind in kinds])


def _results(names: Sequence[str], contents: Sequence[Content]) -> str:
    rows = []
    for metric in _ordered(contents):
        for name, content in zip(names, contents, strict=True):
            if values := _finite(content.metrics.get(metric, {})):
                last, rises = max(values), metric_name(metric).rises
                best = (max if rises else min)(values, key=values.__getitem__)
                shown = [f"{shown_value(metric, values[step])} at {step:,}" for step in (last, best)]
                rows.append([metric_name(metric).title, *([name] if len(contents) > 1 else []), shown[0],
                             shown[1] if is_score(metric) else ""])
    columns = ["metric", *(["run"] if len(contents) > 1 else []), "last, at step", "best"]
    notes = [f"{name}: {text}" for content in contents for name, text in content.signatures.items()]
    notes += [f"Checkpoints: {', '.join(content.checkpoints)}" for content in contents if content.checkpoints]
    return (table(columns, rows) if rows else "") + "".join(f'<p class="dim">{escape(text[:_MOST_TEXT])}</p>'
                                                            for text in notes)


def _curves(names: Sequence[str], contents: Sequence[Content]) -> str:
    charts: dict[str, dict[str, dict[int, float]]] = {}
    for metric in _ordered(contents):
        known = metric_name(metric)
        for name, content in zip(names, contents, strict=True):
            values = {step: value * known.factor for step, value in _finite(content.metrics.get(metric, {})).items()}
            together = len(contents) == 1 and metric in LOSSES
            # A curve of a single value shows nothing, except beside another loss or another run.
            if values and (together or len(contents) > 1 or len({*values.values()}) > 1):
                title, series = ("Loss", known.title) if together else (known.title, name)
                charts.setdefault(title, {})[series] = values
    different = {title: series for title, series in charts.items()
                 if len({value for values in series.values() for value in values.values()}) > 1}
    drawn = figures(dict(list(different.items())[:_MOST_CHARTS]), names if len(names) > 1 else ())
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def _finite(values: Mapping[int, float]) -> dict[int, float]:
    return {step: value for step, value in values.items() if math.isfinite(value)}


def _ordered(contents: Sequence[Content]) -> list[str]:
    """Returns the metrics to show: losses first, then those that people have named, then all others.

    The epoch and metrics with a slash in their name, such as values for each variable, are left out.
    """
    names = dict.fromkeys(name for content in contents for name in content.metrics if "/" not in name)
    names.pop("epoch", None)
    ordered = sorted(names, key=lambda name: (name not in LOSSES, not is_score(name),
                                              not name.lower().startswith("eval"), name))
    return ordered[:_MOST_METRICS]


def _samples(content: Content) -> str:
    parts = [_media("img", "image/png", content.images), _media("audio", "audio/wav", content.sounds)]
    for step, samples in list(content.samples.items())[:_MOST_SAMPLES]:
        tables = "".join(table([], [[_words(name), text] for name, text in texts.items()]) for texts in samples)
        parts.append(f"<h3>{escape(_words(step))}</h3>{tables}")
    return "".join(parts)


def _media(tag: str, kind: str, files: Mapping[str, bytes]) -> str:
    shown = [f'<figure><figcaption>{escape(_words(Path(name).stem))}</figcaption><{tag} '
             f'{"controls" if tag == "audio" else f"""alt="{escape(name)}" """} '
             f'src="data:{kind};base64,{base64.b64encode(data).decode()}">'
             f'{"</audio>" if tag == "audio" else ""}</figure>' for name, data in files.items()]
    return f'<div class="media">{"".join(shown)}</div>' if shown else ""


def _words(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").split())


def _worst(content: Content) -> str:
    step, rows = content.worst
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))[:_MOST_COLUMNS]
    return f'<p class="dim">From the evaluation at step {step:,}.</p>' + table(
        names, [[row.get(name, "") for name in names] for row in rows])


def _settings(content: Content) -> str:
    return f"<details><summary>The config</summary><pre>{escape(content.config)}</pre></details>" \
        if content.config else ""


def _differences(names: Sequence[str], contents: Sequence[Content]) -> str:
    flat = [{path: str(value) for path, value in flattened(content.sections).items()} for content in contents]
    keys = [key for key in dict.fromkeys(key for one in flat for key in one) if len({one.get(key) for one in flat}) > 1]
    rows = [[key, *(one.get(key, "–") for one in flat)] for key in keys[:_MOST_SETTINGS]]
    return table(["", *names], rows) if rows else ""


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns an HTML table with escaped and shortened texts; ``names`` are those of the columns, or empty."""
    head = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>" if names else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(text[:_MOST_TEXT])}</td>' for text in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{head}{body}</table></div>'


def figures(charts: Mapping[str, Mapping[str, Mapping[int, float]]], runs: Sequence[str] = ()) -> str:
    """Returns HTML figures with curves over the steps, and the scripts that draw them.

    Values that are not finite are left out, and long series are thinned. No name becomes a label that Bokeh draws: it
    would load a library for names that look like formulas.

    Args:
      charts: title of a chart → name of a series → step → value; every chart has a finite value.
      runs: the series that have the same colour and an entry in the legend of each chart; () if there are none.
    """
    if not charts:
        return ""
    from bokeh.embed import components
    from bokeh.resources import Resources

    colors = {title: {name: COLORS[([*runs] or [*series]).index(name) % len(COLORS)] for name in series}
              for title, series in charts.items()}
    script, places = components({str(number): _chart(series, colors[title])
                                 for number, (title, series) in enumerate(charts.items())})
    library = Resources(mode="inline", components=["bokeh"], log_level="error").render_js()
    drawn = [f"<figure><figcaption>{escape(title)}</figcaption>{places[str(number)]}"
             f"{_legend(colors[title]) if runs or len(series) > 1 else ''}</figure>"
             for number, (title, series) in enumerate(charts.items())]
    return "".join(drawn) + library + script


def _chart(series: Mapping[str, Mapping[int, float]], colors: Mapping[str, str]) -> Any:
    """Returns a Bokeh figure with a line for each series, which has a colour by its name."""
    from bokeh.models import ColumnDataSource, HoverTool, NumeralTickFormatter
    from bokeh.plotting import figure

    chart = figure(height=230, sizing_mode="stretch_width", tools="xbox_zoom,reset", background_fill_alpha=0.0,
                   border_fill_alpha=0.0, outline_line_alpha=0.0, min_border_right=20)
    for name, values in series.items():
        color = colors[name]
        points = thinned([(step, value) for step, value in sorted(values.items()) if math.isfinite(value)])
        steps, heights = [step for step, _ in points], [value for _, value in points]
        source = ColumnDataSource({"step": steps, "value": heights, "name": [name] * len(points)})
        chart.line("step", "value", source=source, line_width=2, line_color=color)
        if len(points) <= 30:
            chart.scatter("step", "value", source=source, size=6, color=color)
    chart.add_tools(HoverTool(tooltips=[("", "@name"), ("step", "@step{0,0}"), ("value", "@value{0.[0000]}")],
                              mode="mouse"))
    chart.toolbar.logo, chart.toolbar.autohide = None, True
    chart.xaxis.formatter = NumeralTickFormatter(format="0,0")
    chart.axis.axis_line_color = chart.axis.major_label_text_color = chart.axis.major_tick_line_color = _GREY
    chart.axis.minor_tick_line_color, chart.axis.major_label_text_font_size = None, "12px"
    chart.grid.grid_line_color, chart.grid.grid_line_alpha = _GREY, 0.25
    return chart


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


def _legend(colors: Mapping[str, str]) -> str:
    entries = [f'<span style="color:{color}">&#9632;</span> {escape(name)} &nbsp;' for name, color in colors.items()]
    return f'<p class="legend">{"".join(entries)}</p>'


@contextlib.contextmanager
def explaining(path: Path, what: str) -> Iterator[None]:
    """Context manager that turns errors of writing a file into a sentence.

    Args:
      path: the file.
      what: what it contains, such as ``a report``.

    Raises:
      UserError: the file cannot be written, or is not one of this package.
    """
    try:
        yield
    except disk.ForeignError as error:
        raise UserError(f"{path} is not {what} that OpenSeq2Seq has written ({error.strerror}): move it, or give "
                        "another name.") from error
    except BlockingIOError as error:
        raise UserError(f"{path} is being written by another process: try again when it has ended.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): free space, or choose a folder that you may "
                        "write to.") from error


def write_card(logdir: Path, content: Content, license: str = "", languages: Sequence[str] = (),
               datasets: Sequence[str] = ()) -> Path | None:
    """Writes the card of a run; returns its path, or None if there is a ``README.md`` that this package did not write.

    Raises:
      OSError: the card cannot be written.
    """
    path = logdir / CARD
    with contextlib.suppress(disk.ForeignError):
        with disk.writing(path, lambda file: file.read(len(_CARD_MARK)) == _CARD_MARK, alone=True) as file:
            file.write(model_card(content, license, languages, datasets).encode(errors="replace"))
        return path
    return None


def model_card(content: Content, license: str = "", languages: Sequence[str] = (), datasets: Sequence[str] = (),
               packed: str = "") -> str:
    """Returns the text of a card.

    Args:
      content: the run.
      license: identifier of the licence on the Hub, such as ``apache-2.0``; "" to leave it out.
      languages: codes of languages, such as ``en``.
      datasets: names of data sets on the Hub.
      packed: name of the file that the model is packed in; "" for a log directory.
    """
    verb, task = content.use
    listed = [[names] if names and isinstance(names, str) else [*names] for names in (languages, datasets)]
    head: dict[str, Any] = {"license": license, "language": listed[0], "library_name": _LIBRARY,
                            "pipeline_tag": task, "datasets": listed[1],
                            "tags": [_LIBRARY, *dict.fromkeys(filter(None, map(content.part, ("encoder", "decoder"))))],
                            "model-index": _model_index(content, task)}
    text = dump_yaml({name: value for name, value in head.items() if value})
    facts = "".join(f"| {_escaped(name)} | {_escaped(fact)} |\n" for name, fact in content.facts().items())
    scores = "".join(f"| {_escaped(metric_name(name).title)} | {_escaped(shown_value(name, value))} |\n"
                     for name, value in content.scores.items())
    name = packed or content.name
    word = shlex.quote(name)
    command = f"{COMMANDS.get(verb, verb)} {word} my_input" if verb else f"--mode=infer --logdir={word}"
    return (f"{_CARD_MARK.decode()}{text}---\n\n# {_escaped(content.name)}\n\n| | |\n|---|---|\n{facts}\n"
            + (f"## Scores\n\n| metric | value |\n|---|---|\n{scores}\n" if scores else "")
            + f"## Use\n\n```python\nimport open_seq2seq as os2s\n\nmodel = os2s.load({name!r})\n"
            f"print(model.{verb or 'infer'}(inputs))\n```\n\n```bash\nopen_seq2seq {command}\n```\n")


def _model_index(content: Content, task: str | None) -> list[dict[str, Any]]:
    """Returns the scores as the Hub reads them, unscaled values with their signature; [] without scores."""
    signatures = {f"{name}".lower(): text for name, text in content.signatures.items()}
    metrics = []
    for name, value in content.scores.items():
        known = metric_name(name)
        if name not in LOSSES:
            about = {"type": known.hub_type or known.title.lower(), "name": known.title,
                     "value": round(value * known.factor, 4)}
            signature = signatures.get(known.title.partition(" (")[0].lower())
            metrics.append({**about, **({"args": {"signature": signature}} if signature else {})})
    path = content.data_files().get("evaluation", "evaluation data")
    data = {"type": Path(path).parent.name or path, "name": path}
    return [{"name": content.name, "results": [{"task": {"type": task or "other"}, "dataset": data,
                                                "metrics": metrics}]}] if metrics else []


def _escaped(text: str) -> str:
    """Returns a text of a run without what Markdown or HTML would act on."""
    words = " ".join(text.split())
    return "".join(f"&#{ord(char)};" if char in "<>|[]`*\\&" else char for char in words)
