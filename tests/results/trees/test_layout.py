"""Words never overlap, arcs that share a gap never share a height, and nothing of an arc is lost between rows."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.results.trees._arcs import Arc
from bertology.results.trees._layout import GAP, PORT, lay_out


def arcs_of(heads, label=""):
    """Arcs of a tree, its root left out."""
    return tuple(
        Arc(min(place, head - 1), max(place, head - 1), "both", place, label)
        for place, head in enumerate(heads)
        if head
    )


def laid_out(widths, above, below=(), *, limit=1e9, letter=4.0):
    return lay_out(widths, above, below, limit=limit, label_width=lambda label: letter * len(label))


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
    rows = laid_out(widths, arcs, arcs, limit=limit)
    assert [place for row in rows for place in range(row.first, row.last + 1)] == list(range(len(heads)))
    for row in rows:
        edges = [
            (centre - widths[place] / 2, centre + widths[place] / 2)
            for place, centre in enumerate(row.centres, start=row.first)
        ]
        assert edges[0][0] >= 0
        assert edges[-1][1] <= row.width + 1e-9
        assert all(right - left >= GAP - 1e-9 for (_, left), (right, _) in itertools.pairwise(edges))
        assert row.above == row.below
        for one, other in itertools.combinations(row.above, 2):
            shared = min(one.arc.right, other.arc.right) > max(one.arc.left, other.arc.left)
            in_row = min(one.arc.right, other.arc.right) >= row.first and max(one.arc.left, other.arc.left) <= row.last
            assert one.level != other.level or not (shared and in_row)
        ends = [end for piece in row.above for end in (piece.start, piece.end) if end is not None]
        assert len(set(ends)) == len(ends)
    for arc in arcs:
        pieces = [(row, piece) for row in rows for piece in row.above if piece.arc == arc]
        assert sum(piece.label_at is not None for _, piece in pieces) == 1
        assert sum(piece.start is not None for _, piece in pieces) == 1
        assert sum(piece.end is not None for _, piece in pieces) == 1
        assert [row.first for row, _ in pieces] == [
            row.first for row in rows if row.last >= arc.left and row.first <= arc.right
        ]


def test_rows_keep_to_the_limit_and_are_alike():
    rows = laid_out([30.0] * 21, (), limit=300.0)
    assert [len(row.centres) for row in rows] == [7, 7, 7]
    assert all(row.width <= 300 for row in rows)


def test_a_word_wider_than_a_row_stands_alone():
    rows = laid_out([30.0, 500.0, 30.0], (), limit=100.0)
    assert [len(row.centres) for row in rows] == [1, 1, 1]


def test_words_make_room_for_labels():
    arc = Arc(0, 1, "both", 0, "a-very-long-relation")
    (row,) = laid_out([10.0, 10.0], (arc,))
    (piece,) = row.above
    assert piece.end - piece.start > 4 * len(arc.label)
    (close,) = laid_out([10.0, 10.0], (Arc(0, 1, "both"),))
    assert close.width == pytest.approx(20 + GAP)


def test_longer_arcs_rise_above_shorter_ones():
    arcs = (Arc(0, 3, "both"), Arc(1, 2, "both"), Arc(0, 2, "both"), Arc(4, 5, "both"))
    (row,) = laid_out([10.0] * 6, arcs)
    levels = {(piece.arc.left, piece.arc.right): piece.level for piece in row.above}
    assert levels == {(1, 2): 1, (0, 2): 2, (0, 3): 3, (4, 5): 1}


def test_arcs_of_one_word_leave_it_side_by_side():
    """Leftward ones to the left, shortest outermost, then the root, then rightward ones: so they do not cross."""
    arcs = (Arc(0, 2, "both"), Arc(1, 2, "both"), Arc(2, 2, "both", 2, "root"), Arc(2, 3, "both"), Arc(2, 4, "both"))
    (row,) = laid_out([10.0] * 5, arcs)
    at = {piece.arc: piece.end if piece.arc.right == 2 else piece.start for piece in row.above}
    assert [at[arc] - row.centres[2] for arc in (arcs[1], arcs[0], arcs[2], arcs[4], arcs[3])] == pytest.approx(
        [-2 * PORT, -PORT, 0, PORT, 2 * PORT]
    )


def test_the_line_to_the_root_rises_above_what_is_beside_it():
    arcs = (Arc(0, 2, "both"), Arc(1, 1, "both", 1, "root"))
    (row,) = laid_out([10.0] * 3, arcs)
    assert {piece.arc.length: piece.level for piece in row.above} == {2: 1, 0: 2}


def test_labels_stand_clear_of_legs_that_cross_their_arc():
    flat, crossing = Arc(0, 4, "both", 4, "mark"), Arc(2, 7, "both", 7, "obj")
    (row,) = laid_out([20.0] * 8, (flat, crossing))
    label = next(piece.label_at for piece in row.above if piece.arc == flat)
    leg = next(piece.start for piece in row.above if piece.arc == crossing)
    assert abs(label - leg) > 4.0 * len("mark") / 2
    (alone,) = laid_out([20.0] * 8, (flat,))
    (piece,) = alone.above
    assert piece.label_at == pytest.approx((piece.start + piece.end) / 2)
