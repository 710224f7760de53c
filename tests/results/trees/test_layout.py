"""Words never overlap, arcs that share a gap never share a height, and every word has its row."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.results._tree_arcs import Arc, Line, levels

GAP, PORT = 9.0, 5.0


def arcs_of(heads, label=""):
    """Arcs of a tree, its root left out."""
    return tuple(
        Arc(min(place, head - 1), max(place, head - 1), "both", place, label)
        for place, head in enumerate(heads)
        if head
    )


def laid_out(widths, *sides, letter=4.0):
    return Line.of(widths, sides, lambda label: letter * len(label))


def ends(line, arc, side=0):
    """Where an arc touches its two words."""
    return [line.centres[place] + line.ports[side][place, arc] for place in (arc.left, arc.right)]


trees = st.integers(1, 25).flatmap(
    lambda size: st.tuples(*(st.integers(0, max(0, place - 1)) for place in range(size)), st.permutations(range(size)))
)


def heads_of(drawn):
    """Any tree: word k hangs on an earlier word in some order of the words."""
    *earlier, order = drawn
    heads = [0] * len(order)
    for place in range(1, len(order)):
        heads[order[place]] = order[earlier[place]] + 1
    return heads


@settings(max_examples=40, deadline=None)
@given(trees, st.sampled_from([1e9, 200.0, 90.0]))
def test_any_tree_is_laid_out_without_collisions(drawn, limit):
    heads = heads_of(drawn)
    widths = [10.0 + 7 * (place % 4) for place in range(len(heads))]
    arcs = arcs_of(heads, "nmod:poss")
    line = laid_out(widths, arcs, arcs)
    words = [(centre - width / 2, centre + width / 2) for centre, width in zip(line.centres, widths, strict=True)]
    assert words[0][0] >= 0
    assert all(right - left >= GAP - 1e-9 for (_, left), (right, _) in itertools.pairwise(words))
    assert line.ports[0] == line.ports[1]
    touched = [end for arc in arcs for end in ends(line, arc)]
    assert len(set(touched)) == len(touched)
    rows = line.rows(limit)
    assert [place for row in rows for place in row] == list(range(len(heads)))
    assert all(line.length(row) <= limit or len(row) == 1 for row in rows)
    for (one, low), (other, high) in itertools.combinations(levels(arcs).items(), 2):
        assert low != high or min(one.right, other.right) <= max(one.left, other.left)


def test_a_word_wider_than_a_row_stands_alone():
    line = laid_out([30.0, 500.0, 30.0], ())
    assert [len(row) for row in line.rows(100.0)] == [1, 1, 1]


def test_words_make_room_for_labels():
    arc = Arc(0, 1, "both", 0, "a-very-long-relation")
    left, right = ends(laid_out([10.0, 10.0], (arc,)), arc)
    assert right - left > 4 * len(arc.label)
    close = laid_out([10.0, 10.0], (Arc(0, 1, "both"),))
    assert close.length(range(2)) == pytest.approx(20 + GAP)
