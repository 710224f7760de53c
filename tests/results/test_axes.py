"""Axes of charts: round ticks for any values, and ends at the bounds of a measure."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from bertology.results.figures import plot_tables
from bertology.results.report.comparison import Curve, curves, head_heatmap
from bertology.results.rows import Score
from bertology.results.table import axis_ends

POWERS = (-300, -100, -13, -6, -1, 0, 1, 6, 13, 100, 300)


def ticks_of(values, metric="loss_bits"):
    drawing = curves([Curve("a", {at: Score(value) for at, value in enumerate(values)})], metric=metric, label="a")
    texts = re.findall(r'text-anchor="end">([^<]*)<', drawing)
    return [float(text.replace("−", "-")) for text in texts], drawing


@pytest.mark.parametrize("metric", ["accuracy", "loss_bits", "dspr"])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("sign", [1, -1])
def test_any_values_have_distinct_ticks_that_enclose_them(metric, power, sign):
    value, scale = sign * 10.0**power, 100 if metric == "accuracy" else 1
    for values in ([value], [value] * 3, [0.0, value], [value, 3.7 * value], [value, value * (1 + 1e-13)],
                   [value, math.nan, value / 3], [-value, value]):  # fmt: skip
        ticks, drawing = ticks_of(values, metric)
        known = [scale * one for one in values if math.isfinite(one)]
        room = 1e-6 * max(map(abs, known)) + 1e-12  # rounding, and what is 0 on any chart
        assert ticks == sorted(set(ticks))
        assert len(ticks) >= 2
        assert ticks[0] <= min(known) + room
        assert ticks[-1] >= max(known) - room
        heights = [float(text) for text in re.findall(r'cy="([^"]*)"', drawing)]
        assert len(heights) == len(known)
        assert all(0 <= height <= 270 for height in heights)


def test_what_has_no_finite_value_is_a_sentence():
    assert ticks_of([math.nan, math.nan])[1] == "<p>No layer has a score.</p>"
    assert "rect" in head_heatmap({"L1H1": Score(math.nan), "L1H2": Score(1e-300)}, metric="cka", label="a")


@pytest.mark.parametrize(
    ("metric", "low", "high", "ends"),
    [
        ("accuracy", 0.97, 0.999, (0.96768, 1)),
        ("accuracy", 1, 1, (0.99, 1)),
        ("accuracy", 0, 0, (0, 0.01)),
        ("rsa_spearman", -0.99, 0.2, (-1, 0.2952)),
        ("dspr", -0.5, 0.98, (-0.6184, 1)),
        ("loss_bits", 0.1, 0.9, (0.036, 0.964)),
        ("loss_bits", 0.01, 0.99, (0, 1.0684)),
        ("relative_l2", 0.5, 1.5, (0.42, 1.58)),
    ],
)
def test_axes_of_bounded_measures_end_at_their_bounds(metric, low, high, ends):
    assert axis_ends(low, high, metric=metric, margin=0.08) == pytest.approx(ends)


def test_a_page_has_no_tick_past_a_bound():
    assert ticks_of([0.97, 1.0], "accuracy")[0][-1] == 100
    assert ticks_of([1.0], "accuracy")[0][-1] == 100
    assert ticks_of([0.001, 0.03], "accuracy")[0][0] == 0
    assert ticks_of([-6e-8, 0.55], "procrustes_distance")[0][0] == 0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.999, 0.001])
def test_a_figure_ends_at_the_bounds_too(pos, value):
    (table,) = pos.view().tables
    lines = tuple(dataclasses.replace(line, scores={**line.scores, "main": Score(value)}) for line in table.lines)
    for shown in (lines, lines[:1]):
        (ax,) = plot_tables([dataclasses.replace(table, lines=shown, baselines=())]).axes
        low, high = ax.get_ylim()
        assert 0 <= low < high <= 100


@pytest.mark.parametrize("power", POWERS)
def test_a_figure_of_any_values_is_drawn(pos, power):
    (table,) = pos.view().tables
    for values in ([10.0**power], [10.0**power] * 2, [0.0, -(10.0**power)], [10.0**power, math.nan]):
        lines = tuple(
            dataclasses.replace(line, scores={**line.scores, "main": Score(value)})
            for line, value in zip(table.lines, values, strict=False)
        )
        figure = plot_tables([dataclasses.replace(table, metric="loss_bits", lines=lines, baselines=())])
        figure.draw_without_rendering()


def test_labels_of_ticks_stand_inside_the_drawing():
    for values, metric in (([0.999985, 1.0], "layout_hulls"), ([0.00045, 0.00055], "jensen_shannon_bits")):
        drawing = ticks_of(values, metric)[1]
        for x, written in re.findall(r'<text x="([^"]*)" y="[^"]*" text-anchor="end">([^<]*)<', drawing):
            assert float(x) >= 7 * len(written)  # a digit is no wider than 7 of the drawing's units
