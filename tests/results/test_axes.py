"""Axes of charts end at the bounds of a measure."""

import dataclasses

import pytest

from bertology.results.figures import plot_tables
from bertology.results.rows import Score
from bertology.results.table import axis_ends


@pytest.mark.parametrize(
    ("metric", "low", "high", "ends"),
    [
        ("accuracy", 0.97, 0.999, (0.96768, 1)),
        ("accuracy", 1, 1, (0.99, 1)),
        ("accuracy", 0, 0, (0, 0.01)),
        ("cka", -2e-6, 1.000002, (0, 1)),  # in single precision
        ("rsa_spearman", -0.99, 0.2, (-1, 0.2952)),
        ("dspr", -0.5, 0.98, (-0.6184, 1)),
        ("loss_bits", 0.1, 0.9, (0.036, 0.964)),
        ("loss_bits", 0.01, 0.99, (0, 1.0684)),
        ("relative_l2", 0.5, 1.5, (0.42, 1.58)),
    ],
)
def test_axes_of_bounded_measures_end_at_their_bounds(metric, low, high, ends):
    assert axis_ends(low, high, metric=metric, margin=0.08) == pytest.approx(ends)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.999, 0.001])
def test_a_figure_ends_at_the_bounds_too(pos, value):
    (table,) = pos.view().tables
    lines = tuple(dataclasses.replace(line, scores={**line.scores, "main": Score(value)}) for line in table.lines)
    for shown in (lines, lines[:1]):
        (ax,) = plot_tables([dataclasses.replace(table, lines=shown, baselines=())]).axes
        low, high = ax.get_ylim()
        assert 0 <= low < high <= 100
