"""Curves of metrics, drawn in the browser by Bokeh, whose script the page contains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

COLORS = ("#3b82c4", "#d9632a", "#2f9e57", "#9b5bd0", "#c2417a", "#8a7a1f")
_GREY = "#8a8f98"  # of axes and their labels: legible on white and on black
_MOST_POINTS = 500


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
