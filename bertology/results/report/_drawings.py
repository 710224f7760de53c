"""Charts as SVG inside a page, in the colours of its theme: scores by layer with intervals, and heatmaps of heads.

They are drawn here and not by a script, so that they are there where scripts are off, and print as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.ticker import MaxNLocator

from bertology.results.views.grid import axis_ends, interval_of, is_fraction, number, unit
from bertology.results.views.heads import head_place
from bertology.results.views.layers import Score

_WIDTH, _HEIGHT = 560.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 14.0, 14.0, 44.0
_COLOURS = 6
"""Of lines, in the page's style sheet."""
_TICKS = 5
_CELL = 30.0
_MOST_PLAIN = 1e7
"""Ticks from here on are written with exponents."""


@dataclass(frozen=True)
class Curve:
    """Scores of one thing by layer."""

    name: str
    scores: Mapping[int, Score]


def curves(lines: Sequence[Curve], *, metric: str, label: str, axis: str = "layer") -> str:
    """Scores by layer, one line a curve with its 95 % intervals as a band.

    Args:
        lines: at most six are told apart by colour.
        metric: name of the metric, which decides how values are written.
        label: what the chart is for a reader who does not see it.
        axis: name of the horizontal axis.

    Returns:
        An ``svg`` element with a legend; each point has its value as its title. Without any finite score, a sentence.
    """
    values = [v for one in lines for s in one.scores.values() for v in (s.value, s.low, s.high) if v is not None]
    values = [value for value in values if math.isfinite(value)]
    layers = sorted({layer for one in lines for layer in one.scores})
    if not values or not layers:
        return "<p>No layer has a score.</p>"
    ticks = _ticks(min(values), max(values), metric)
    frame = _Frame(layers[0], layers[-1], ticks[0], ticks[-1])
    parts = [_axes(frame, layers, ticks, metric, axis)]
    parts += [_curve(one, frame, place % _COLOURS, metric) for place, one in enumerate(lines)]
    box = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}"'
    legend = "".join(
        f'<li><span class="key fill-{place % _COLOURS}"></span>{escape(one.name)}</li>'
        for place, one in enumerate(lines)
    )
    drawing = f'<svg class="plot" {box} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    return f'{drawing}<ul class="legend">{legend}</ul>'


def head_heatmap(heads: Mapping[str, Score], *, metric: str, label: str) -> str:
    """Values of attention heads: rows are layers, the first at the bottom, columns are heads.

    Shades run from the smallest to the largest value, which are written below.

    Args:
        heads: values by name, such as ``L2H1``.
        metric: name of the metric, which decides how values are written.
        label: what the drawing is for a reader who does not see it.
    """
    places = {name: head_place(name) for name in heads}
    layers = sorted({layer for layer, _ in places.values()}, reverse=True)
    n_heads = max(head for _, head in places.values())
    values = [score.value for score in heads.values() if math.isfinite(score.value)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    cells = []
    for name, (layer, head) in places.items():
        x, y = _LEFT + (head - 1) * _CELL, _TOP + layers.index(layer) * _CELL
        score = heads[name]
        shade = (score.value - low) / ((high - low) or 1.0) if math.isfinite(score.value) else 0.0
        cells.append(
            f'<rect class="cell" x="{x:.0f}" y="{y:.0f}" width="{_CELL - 2:g}" height="{_CELL - 2:g}" rx="3" '
            f'fill-opacity="{shade:.3f}"><title>{escape(f"{name}: {_written(score, metric)}")}</title></rect>'
        )
    width, height = _LEFT + n_heads * _CELL + _RIGHT, _TOP + len(layers) * _CELL + _BOTTOM
    names = [_text(_LEFT - 10, _TOP + (row + 0.6) * _CELL, f"L{layer}", "end") for row, layer in enumerate(layers)]
    bottom = _TOP + len(layers) * _CELL + 16
    names += [_text(_LEFT + (head + 0.5) * _CELL, bottom, str(head + 1)) for head in range(n_heads)]
    names.append(_text(_LEFT + n_heads * _CELL / 2, bottom + 20, "head"))
    box = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    drawing = f'<svg class="plot heads" {box} role="img" aria-label="{escape(label)}">{"".join(cells + names)}</svg>'
    ends = " to ".join(number(value, metric=metric) for value in (low, high))
    return f'{drawing}<p class="hint">Shades from {ends}{escape(unit(metric))[1:]}.</p>'


@dataclass(frozen=True)
class _Frame:
    """Where values of a chart stand on the drawing."""

    first: float
    last: float
    low: float
    high: float

    def x(self, layer: float) -> float:
        span = (self.last - self.first) or 1.0
        inside = _WIDTH - _LEFT - _RIGHT
        return _LEFT + inside * ((layer - self.first) / span if self.last > self.first else 0.5)

    def y(self, value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (self.high - value) / (self.high - self.low)


def _ticks(low: float, high: float, metric: str) -> list[float]:
    """Round numbers that enclose both values, ascending."""
    ends = axis_ends(low, high, metric=metric)
    return [float(tick) for tick in MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)]


def _axes(frame: _Frame, layers: Sequence[int], ticks: Sequence[float], metric: str, axis: str) -> str:
    parts = []
    for tick, written in zip(ticks, _labels(ticks, metric), strict=True):
        y = frame.y(tick)
        parts.append(f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 8, y + 4, written, "end"))
    every = math.ceil(len(layers) / 13)
    parts += [_text(frame.x(layer), _HEIGHT - _BOTTOM + 18, str(layer)) for layer in layers[::every]]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, axis))
    return "".join(parts)


def _labels(ticks: Sequence[float], metric: str) -> list[str]:
    """Ticks as text, all with the decimals that their steps need; very large and very small ones with exponents."""
    scale = 100 if is_fraction(metric) else 1
    most, step = scale * max(map(abs, ticks)), scale * (ticks[1] - ticks[0])
    digits = next((count for count in range(9) if math.isclose(step, round(step, count), rel_tol=1e-6)), None)
    form = f".{digits}f" if digits is not None and most < _MOST_PLAIN else ".7g"
    return [f"{scale * tick + 0.0:{form}}".replace("-", "−") for tick in ticks]


def _curve(one: Curve, frame: _Frame, colour: int, metric: str) -> str:
    points = [(layer, score) for layer, score in sorted(one.scores.items()) if math.isfinite(score.value)]
    path = " ".join(f"{frame.x(layer):.1f},{frame.y(score.value):.1f}" for layer, score in points)
    band = [(layer, s.low, s.high) for layer, s in points if s.low is not None and s.high is not None]
    parts = []
    if len(band) > 1 and np.isfinite([bounds[1:] for bounds in band]).all():
        outline = [(layer, high) for layer, _, high in band] + [(layer, low) for layer, low, _ in reversed(band)]
        corners = " ".join(f"{frame.x(layer):.1f},{frame.y(value):.1f}" for layer, value in outline)
        parts.append(f'<polygon class="band fill-{colour}" points="{corners}"/>')
    parts.append(f'<polyline class="line stroke-{colour}" points="{path}"/>')
    for layer, score in points:
        title = escape(f"{one.name}, {layer}: {_written(score, metric)}")
        place = f'cx="{frame.x(layer):.1f}" cy="{frame.y(score.value):.1f}"'
        parts.append(f'<circle class="fill-{colour}" {place} r="3.5"><title>{title}</title></circle>')
    return "".join(parts)


def _written(score: Score, metric: str) -> str:
    return f"{number(score.value, metric=metric)} {interval_of(score, metric)}".rstrip()


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
