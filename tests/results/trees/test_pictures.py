"""Depths and distances as drawn are those of the reading; files are the same each time."""

import dataclasses
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bertology.errors import ResultsError
from bertology.results.trees import plot_depths, plot_distances, to_svg

PICTURES = ("arcs", "depths", "distances")


def names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_distances_share_one_scale(make):
    reading = make((2, 3, 0, 3, 6, 4), noise=0.6)
    figure = plot_distances(reading)
    gold, predicted, _ = figure.axes
    (gold_mesh,), (predicted_mesh,) = gold.collections, predicted.collections
    np.testing.assert_array_equal(gold_mesh.get_array(), reading.gold_distances)
    np.testing.assert_array_equal(predicted_mesh.get_array(), reading.distances)
    assert gold_mesh.get_clim() == predicted_mesh.get_clim() == (0, reading.gold_distances.max())
    for ax in (gold, predicted):
        assert names(ax.xaxis) == names(ax.yaxis) == list(reading.words)
        low, high = ax.get_ylim()
        assert low > high, "the first word is on top, as on the left"


def test_distances_without_gold_have_their_own_scale(raw):
    figure = plot_distances(raw)
    (mesh,) = figure.axes[0].collections
    assert mesh.get_clim() == (0, raw.distances.max())
    assert len(figure.axes) == 2


def test_a_picture_that_cannot_be_drawn_says_why(chef):
    bare = dataclasses.replace(chef, depths=None, distances=None)
    with pytest.raises(ResultsError, match="no predicted depths"):
        to_svg(bare, picture="depths")
    with pytest.raises(ResultsError, match="no predicted distances"):
        to_svg(bare, picture="distances", ending="png")
    with pytest.raises(ResultsError, match="choose one of arcs, depths, distances"):
        to_svg(bare, picture="rainbow", ending="png")


@pytest.mark.parametrize("picture", PICTURES)
def test_the_same_reading_is_the_same_bytes(directed, picture):
    before = dict(mpl.rcParams)
    svg, again = (to_svg(directed, picture=picture) for _ in range(2))
    assert svg == again
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert to_svg(directed, picture=picture, ending="png").startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("words", "pictures"),
    [
        (("猫", "は", "魚", "を"), PICTURES),
        (("القط", "الأسود", "يأكل", "می\u200cشود"), PICTURES),
        (("\U0001f469\u200d\U0001f4bb", "\u2603\ufe0f", "a\tb", "$x$"), ("depths",)),
        (("", " ", "\x07", "e\u0301"), ("arcs",)),
    ],
    ids=["cjk", "arabic", "signs", "blanks"],
)
def test_any_script_can_be_drawn(make, words, pictures):
    """Warnings are errors here: a letter that no font has is drawn as a hollow square, on purpose."""
    reading = make((2, 0, 2, 3), words=words)
    for picture in pictures:
        assert to_svg(reading, picture=picture, ending="png").startswith(b"\x89PNG")


@pytest.mark.parametrize("plot", [plot_depths, plot_distances])
@pytest.mark.parametrize("size", [1, 3, 20])
def test_all_names_lie_inside_the_figure(make, make_tree, plot, size):
    names_of = [("extraordinarily", "a", "https://www.example.org/a/long/path")[place % 3] for place in range(size)]
    figure = plot(make(make_tree(size, 2), words=names_of))
    FigureCanvasAgg(figure).draw()
    width, height = figure.canvas.get_width_height()
    for ax in (ax for ax in figure.axes if ax.axison):
        # Ticks beyond the axes' limits are not drawn.
        low, high = sorted(ax.get_ylim())
        shown = [label for label in ax.get_yticklabels() if low <= label.get_position()[1] <= high]
        for label in (*ax.get_xticklabels(), *shown, ax.title, ax.yaxis.label):
            box = label.get_window_extent()
            assert box.x0 >= -1, label
            assert box.x1 <= width + 1, label
            assert box.y0 >= -1, label
            assert box.y1 <= height + 1, label
