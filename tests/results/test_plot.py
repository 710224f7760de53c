"""The figure shows the rows' numbers, in every format, and leaves pyplot alone."""

import dataclasses
import itertools
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bertology._figures import figure_bytes
from bertology.errors import ResultsError
from bertology.results.figures import plot_tables
from bertology.results.table import brief

BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"


def drawn(figure):
    """Draw without showing, so that places are settled."""
    FigureCanvasAgg(figure).draw()
    return figure


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_lines_are_the_scores(pos):
    (table,) = pos.view().tables
    (ax,) = pos.plot().axes
    lines = {to_hex(line.get_color()): line for line in ax.lines}
    for color, field in ((BLUE, "main"), (VERMILION, "random_init"), (GREEN, "control_task")):
        np.testing.assert_array_equal(lines[color].get_xdata(), range(6))
        np.testing.assert_allclose(lines[color].get_ydata(), [100 * getattr(e, field).value for e in table.lines])
    assert {"probe", "random init", "control task"} <= set(texts(ax))


def test_bands_are_the_intervals(pos):
    (table,) = pos.view().tables
    (ax,) = pos.plot().axes
    (band,) = (c for c in ax.collections if to_hex(c.get_facecolor()[0]) == BLUE and len(c.get_paths()) == 1)
    heights = band.get_paths()[0].vertices[:, 1]
    expected = [100 * bound for line in table.lines for bound in (line.main.low, line.main.high)]
    assert set(np.round(expected, 8)) <= set(np.round(heights, 8))


@pytest.mark.parametrize("value", [0.2, 0.8, 1.0])
def test_names_do_not_overlap(pos, value):
    """Three lines that end at the very same place: below, amid or above all else."""
    level = tuple(dataclasses.replace(row, value=value) if row.layer == 5 else row for row in pos.rows)
    figure = drawn(dataclasses.replace(pos, rows=level).plot())
    (ax,) = figure.axes
    names = [text for text in ax.texts if text.get_position()[0] == 6]
    assert {"probe", "random init", "control task"} < {text.get_text() for text in names}
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))
    frame = ax.get_window_extent()
    assert boxes[0].y1 > frame.y0
    assert boxes[-1].y0 < frame.y1


def test_all_names_lie_inside_the_figure(two_tasks):
    figure = drawn(two_tasks.plot())
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        for text in ax.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= width + 1
            assert box.y0 >= 0
            assert box.y1 <= height + 1


def test_given_axes_are_drawn_on(pos, two_tasks):
    figure = Figure()
    ax = figure.subplots()
    assert pos.plot(ax) is figure
    assert ax.get_title(loc="left") == "pos · accuracy, %"
    inside = Figure().subfigures(1, 2)[0].subplots()
    assert pos.plot(inside) is inside.figure.figure
    with pytest.raises(ResultsError, match="2 tables do not fit one plot"):
        two_tasks.plot(ax)


def test_nothing_to_draw_is_said(pos):
    (table,) = pos.view().tables
    with pytest.raises(ResultsError, match="no scores to draw"):
        plot_tables([])
    with pytest.raises(ResultsError, match="no scores to draw"):
        plot_tables([dataclasses.replace(table, lines=())])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_bytes(pos, ending):
    before = dict(mpl.rcParams)
    first, second = (figure_bytes(pos.plot(), ending) for _ in range(2))
    assert first == second
    assert dict(mpl.rcParams) == before
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert first.startswith(starts[ending])
    if ending == "svg":
        assert ElementTree.fromstring(first).tag.endswith("svg")


def test_an_unknown_format_is_refused(pos):
    with pytest.raises(ResultsError, match="choose one of png, svg, pdf"):
        figure_bytes(pos.plot(), "bmp")


def test_pyplot_is_never_imported():
    code = "import sys, bertology.results.figures; print('matplotlib.pyplot' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("google-bert/bert-base-cased", "google-bert/bert-base-cased"),
        ("/models/bert", "bert"),
        ("../shared/models/minilm", "minilm"),
        ("/data/left+/data/right", "left+right"),
        ("x" * 50, "x" * 21 + "…" + "x" * 21),
    ],
)
def test_names_are_brief(name, expected):
    assert brief(name) == expected
