"""Curves of metrics as SVG elements, which are embedded in an HTML page."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

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
    kept = {name: thinned([(step, value) for step, value in sorted(values.items()) if math.isfinite(value)])
            for name, values in series.items()}
    points = [point for row in kept.values() for point in row]
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
    for color, row in zip(_COLORS * len(kept), kept.values(), strict=False):
        placed = [place(x, y) for x, y in row]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.6" points="{line}"/>')
        dots = placed if len(placed) <= 30 else placed[-1:]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{color}"/>' for x, y in dots]
    names = html.escape(", ".join(series))
    return (f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{names} over steps">' + "".join(parts)
            + "</svg>" + _legend(list(kept)))


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
