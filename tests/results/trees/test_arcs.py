"""Arcs say what was found, missed and invented, and the picture shows it, in colour and in grey."""

import dataclasses
import itertools
from collections import Counter

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from bertology._figures import BLUE, PURPLE, VERMILION
from bertology.errors import ResultsError
from bertology.results.trees import WORD_SIZE, plot_arcs


def lines(figure):
    return [patch for ax in figure.axes for patch in ax.patches]


def texts(figure):
    return [*figure.texts, *(text for ax in figure.axes for text in ax.texts)]


def words(figure, reading):
    """The sentence's words as drawn, in order."""
    return [text for text in texts(figure) if text.get_fontsize() == WORD_SIZE and text.get_text() in reading.words]


def ink(figure):
    """How many lines there are of each colour."""
    return Counter(to_hex(patch.get_edgecolor()).upper() for patch in lines(figure))


def head(arc):
    """The word that an arrow comes from; None without direction."""
    return {None: None, arc.left: arc.right, arc.right: arc.left}[arc.dependent]


def kinds(arcs):
    return {(arc.left, arc.right): arc.kind for arc in arcs}


def test_edges_are_found_missed_or_invented(chef):
    shared = dict.fromkeys(((0, 1), (1, 3), (1, 5), (2, 3), (5, 7)), "both")
    assert kinds(chef.arcs("gold")) == {**shared, (4, 5): "gold", (6, 7): "gold"}
    assert kinds(chef.arcs("predicted")) == {**shared, (3, 4): "predicted", (5, 6): "predicted"}


def test_gold_has_directions_and_a_prediction_only_with_heads(chef, directed):
    assert {(head(arc), arc.dependent) for arc in chef.arcs("gold")} >= {(5, 1), (1, 0), (7, 6)}
    assert all(head(arc) is arc.dependent is None for arc in chef.arcs("predicted"))
    found = {(head(arc), arc.dependent): arc.label for arc in directed.arcs("predicted")}
    assert found[3, 4] == "cop"
    assert found[1, 3] == "acl"
    assert {arc.dependent: arc.label for arc in chef.arcs("gold")}[3] == "acl:relcl"


def test_roots_are_compared_where_the_prediction_has_one(chef, directed):
    def roots(arcs):
        return [(arc.left, arc.kind) for arc in arcs if not arc.length]

    assert roots(chef.arcs("gold")) == []
    assert roots(directed.arcs("gold")) == roots(directed.arcs("predicted")) == [(5, "both")]
    turned = dataclasses.replace(directed, heads=(2, 0, 4, 2, 4, 2, 6, 6, -1))
    assert roots(turned.arcs("gold")) == [(5, "gold")]
    assert roots(turned.arcs("predicted")) == [(1, "predicted")]


def test_gold_stands_above_and_the_prediction_below(chef):
    figure = plot_arcs(chef)
    assert ink(figure) == {BLUE: 10, VERMILION: 2, PURPLE: 2}
    for patch in lines(figure):
        heights = patch._path_original.vertices[:, 1]  # the words stand at 0
        above = (heights > 0).all()
        assert above != (heights < 0).all()
        color = to_hex(patch.get_edgecolor()).upper()
        assert color != VERMILION or above
        assert color != PURPLE or not above


def test_relations_are_named_where_they_are_known(chef, directed):
    def labels(figure):
        return Counter(text.get_text() for text in texts(figure))

    assert labels(plot_arcs(directed))["nsubj"] == 4
    assert labels(plot_arcs(directed))["acl:relcl"] == labels(plot_arcs(directed))["acl"] == 1
    assert labels(plot_arcs(directed))["root"] == 2
    assert "root" not in labels(plot_arcs(chef))
    unnamed = dataclasses.replace(chef, gold_relations=(None, *chef.gold_relations[1:]))
    assert "det" not in labels(plot_arcs(unnamed))


def test_without_gold_the_prediction_stands_above_alone(raw):
    figure = plot_arcs(raw)
    assert ink(figure) == {BLUE: 8}
    assert all((patch._path_original.vertices[:, 1] > 0).all() for patch in lines(figure))
    assert not any("gold" in text.get_text() or "UUAS" in text.get_text() for text in texts(figure))


@pytest.mark.parametrize(("size", "has_gold"), [(1, True), (2, True), (3, False), (9, True), (9, False), (40, True)])
def test_no_two_words_overlap_and_all_lies_inside(make, make_tree, size, has_gold):
    names = [("extraordinarily", "a", "word", "of")[place % 4] for place in range(size)]
    reading = make(make_tree(size, size), words=names, noise=0.8, directed=True)
    reading = dataclasses.replace(reading, relations=("nmod:poss",) * size, gold=reading.gold if has_gold else None)
    figure = plot_arcs(reading)
    FigureCanvasAgg(figure).draw()
    shown = words(figure, reading)
    assert len(shown) == size
    width, height = figure.canvas.get_width_height()
    for text in texts(figure):
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= width
            assert box.y0 >= 0
            assert box.y1 <= height
    assert not any(a.get_window_extent().overlaps(b.get_window_extent()) for a, b in itertools.combinations(shown, 2))
    assert width <= 10 * 200 + 1


def test_a_narrow_picture_has_more_rows(make, make_tree):
    reading = make(make_tree(20, 1))
    wide, narrow = (plot_arcs(reading, width=width) for width in (12, 4))
    assert len(wide.axes) == 1
    assert len(narrow.axes) > 2
    assert len(words(narrow, reading)) == 20
    assert narrow.get_size_inches()[0] < 5 < wide.get_size_inches()[0]
    with pytest.raises(ResultsError, match="give a width of 2 or more"):
        plot_arcs(reading, width=0.5)
    with pytest.raises(ResultsError, match="cannot be nan inches"):
        plot_arcs(reading, width=float("nan"))


def test_sentences_from_right_to_left_are_laid_out_so(make):
    reading = make((2, 3, 0), words=("القط", "الأسود", "يأكل"), directed=True)
    (ax,) = plot_arcs(reading).axes
    assert ax.get_xlim()[0] > ax.get_xlim()[1]
    assert sum(patch.get_arrowstyle().__class__.__name__ == "CurveFilledB" for patch in ax.patches) == 6
