"""Where words and arcs stand, in points: rows of words, and arcs cut where a row ends, one above the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bertology.results.trees._arcs import Arc

GAP = 9.0
"""Between two words."""
PORT = 5.0
"""Between two arcs that end at one word."""
_LABEL_ROOM = 13.0
_LEAST_SPAN = 12.0
_FINE = 0.5
_NUDGE = 2.0

Ports = dict[tuple[int, Arc], float]
"""Points from the middle of a word, by its place and the arc."""


@dataclass(frozen=True)
class Piece:
    """What one row shows of an arc."""

    arc: Arc
    start: float | None
    """Where it leaves its first word; None where it comes from the row before."""
    end: float | None
    """Where it reaches its last word; None where it goes on in the next row."""
    level: int
    """1 for the arcs nearest to the words."""
    label_at: float | None = None
    """The middle of the arc's label; None where the label stands in another row, which shows more of the arc."""


@dataclass(frozen=True)
class Row:
    """Words that stand in one line."""

    first: int
    """Place of its first word in the sentence."""
    centres: tuple[float, ...]
    width: float
    above: tuple[Piece, ...] = ()
    below: tuple[Piece, ...] = ()

    @property
    def last(self) -> int:
        """Place of its last word."""
        return self.first + len(self.centres) - 1


def lay_out(
    widths: Sequence[float],
    above: Sequence[Arc],
    below: Sequence[Arc],
    *,
    limit: float,
    label_width: Callable[[str], float],
) -> tuple[Row, ...]:
    """Break words into rows of at most ``limit`` points, about equally long, and place the arcs.

    Words are moved apart where the arcs between them need room for their labels.

    Args:
        widths: of each word, in points.
        above: arcs over the words.
        below: arcs under them.
        limit: the width of a row, in points; a word wider than that stands in a row of its own.
        label_width: how wide a label is, in points.
    """
    sides = [(arcs, _ports(len(widths), arcs)) for arcs in (above, below)]
    cells = _cells(widths, [ports for _, ports in sides])
    gaps = _gaps(cells, sides, label_width)
    rows = [_row(first, last, cells, gaps) for first, last in _breaks(cells, gaps, limit)]
    shown = [_with_labels(rows, [_pieces(row, arcs, ports) for row in rows], label_width) for arcs, ports in sides]
    return tuple(replace(row, above=over, below=under) for row, over, under in zip(rows, *shown, strict=True))


def _row(first: int, last: int, cells: Sequence[float], gaps: Sequence[float]) -> Row:
    centres, x = [], 0.0
    for place in range(first, last + 1):
        centres.append(x + cells[place] / 2)
        x += cells[place] + gaps[place]
    return Row(first, tuple(centres), x - gaps[last])


def _ports(size: int, arcs: Sequence[Arc]) -> Ports:
    """Where each arc touches each of its words, from the word's middle, so that arcs from one word do not cross."""
    ports = {}
    for place in range(size):
        leftward = sorted((arc for arc in arcs if arc.left < arc.right == place), key=lambda arc: arc.length)
        root = [arc for arc in arcs if arc.left == arc.right == place]
        rightward = sorted((arc for arc in arcs if arc.right > arc.left == place), key=lambda arc: -arc.length)
        touching = (*leftward, *root, *rightward)
        for number, arc in enumerate(touching):
            ports[place, arc] = PORT * (number - (len(touching) - 1) / 2)
    return ports


def _cells(widths: Sequence[float], sides: Sequence[Ports]) -> list[float]:
    """A word is as wide as its letters, or as the arcs that end at it."""
    cells = list(widths)
    for ports in sides:
        for (place, _), port in ports.items():
            cells[place] = max(cells[place], 2 * abs(port))
    return cells


def _gaps(
    cells: Sequence[float], sides: Sequence[tuple[Sequence[Arc], Ports]], label_width: Callable[[str], float]
) -> list[float]:
    """The room after each word, wide enough for the labels of the arcs above it."""
    gaps = [GAP] * len(cells)
    for arcs, ports in sides:
        for arc in sorted((arc for arc in arcs if arc.length), key=lambda arc: (arc.length, arc.left)):
            span = (cells[arc.left] + cells[arc.right]) / 2 + ports[arc.right, arc] - ports[arc.left, arc]
            span += sum(cells[arc.left + 1 : arc.right]) + sum(gaps[arc.left : arc.right])
            lacking = max(label_width(arc.label) + _LABEL_ROOM, _LEAST_SPAN) - span
            if lacking > 0:
                for place in range(arc.left, arc.right):
                    gaps[place] += lacking / arc.length
    return gaps


def _breaks(cells: Sequence[float], gaps: Sequence[float], limit: float) -> list[tuple[int, int]]:
    """First and last word of each row: the fewest rows, and of those the least that the longest can be."""
    breaks = _filled(cells, gaps, limit)
    if len(breaks) == 1:
        return breaks
    too_short, enough = 0.0, limit
    while enough - too_short > _FINE:
        middle = (too_short + enough) / 2
        found = _filled(cells, gaps, middle)
        if len(found) == len(breaks):
            enough, breaks = middle, found
        else:
            too_short = middle
    return breaks


def _filled(cells: Sequence[float], gaps: Sequence[float], limit: float) -> list[tuple[int, int]]:
    """Rows filled one after the other."""
    breaks, first, x = [], 0, cells[0]
    for place in range(1, len(cells)):
        x += gaps[place - 1] + cells[place]
        if x > limit:
            breaks.append((first, place - 1))
            first, x = place, cells[place]
    return [*breaks, (first, len(cells) - 1)]


def _pieces(row: Row, arcs: Sequence[Arc], ports: Ports) -> tuple[Piece, ...]:
    """Each arc as far as the row shows it, above those that are shorter and share a gap between words with it."""

    def port(place: int, arc: Arc) -> float | None:
        return row.centres[place - row.first] + ports[place, arc] if row.first <= place <= row.last else None

    highest = [0] * (len(row.centres) + 1)
    pieces = []
    # The line to the root comes last, to rise above all beside it.
    for arc in sorted(arcs, key=lambda arc: (arc.length or math.inf, arc.left)):
        if arc.right < row.first or arc.left > row.last:
            continue
        # Gap 0 is the margin before the first word, the last one that after the last word.
        start, end = max(arc.left, row.first - 1) - row.first + 1, min(arc.right, row.last + 1) - row.first + 1
        gaps = range(start, end) if arc.length else range(start - 1, start + 1)
        level = max(highest[gap] for gap in gaps) + 1
        for gap in gaps:
            highest[gap] = level
        pieces.append(Piece(arc, port(arc.left, arc), port(arc.right, arc), level))
    return tuple(pieces)


def _with_labels(
    rows: Sequence[Row], pieces: Sequence[Sequence[Piece]], label_width: Callable[[str], float]
) -> list[tuple[Piece, ...]]:
    """Each arc's label goes to its widest piece, the first of several."""
    widest: dict[Arc, tuple[float, int]] = {}
    for number, (row, shown) in enumerate(zip(rows, pieces, strict=True)):
        for piece in shown:
            start, end = _ends(piece, row)
            widest[piece.arc] = max(widest.get(piece.arc, (end - start, -number)), (end - start, -number))

    def placed(piece: Piece, number: int) -> Piece:
        if not piece.arc.label or widest[piece.arc][1] != -number:
            return piece
        return replace(piece, label_at=_label_spot(piece, rows[number], pieces[number], label_width(piece.arc.label)))

    return [tuple(placed(piece, number) for piece in shown) for number, shown in enumerate(pieces)]


def _label_spot(piece: Piece, row: Row, beside: Sequence[Piece], width: float) -> float:
    """As near to the arc's middle as no leg of a higher arc stands in the way; its middle where that is nowhere."""
    start, end = _ends(piece, row)
    middle, room = (start + end) / 2, (end - start - width) / 2
    legs = [x for other in beside if other.level > piece.level for x in (other.start, other.end) if x is not None]
    for step in range(max(0, int(room / _NUDGE)) + 1):
        for spot in (middle - step * _NUDGE, middle + step * _NUDGE):
            if all(abs(leg - spot) > width / 2 + _NUDGE for leg in legs):
                return spot
    return middle


def _ends(piece: Piece, row: Row) -> tuple[float, float]:
    return 0.0 if piece.start is None else piece.start, row.width if piece.end is None else piece.end
