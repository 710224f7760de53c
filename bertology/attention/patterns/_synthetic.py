"""Labelled synthetic maps of every class, with the variation of real ones.

A map is mixed of columns, a line, squares and attention without structure, in shares that the class makes likely. It is
kept if the rule of the class holds of what came out, measured as features are and with an unsteady eye, so that maps
near a boundary are found on both sides of it:

- *column*: one (in a pair, one for each sentence) stands out in about two thirds of the rows, with more than about
  two and a half times its even share;
- *line*: in about three fifths of the rows (of 20 pieces; in more of a shorter text, in fewer of a longer one) the word
  most looked at lies on a line at most four pieces from the main diagonal, or beside it;
- *squares*: in a pair, weights within each sentence, away from the diagonal, are about twice those across.

``vertical``: a column, no line, and no squares unless the column is the stronger; ``diagonal``: a line alone;
``vertical+diagonal``: both; ``block``: squares and no line, and no strong column; ``heterogeneous``: nothing of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bertology.attention.patterns._components import (
    Floats,
    Generator,
    columns,
    draw_text,
    line,
    row_shares,
    second_from,
    squares,
    without_structure,
)
from bertology.attention.patterns._features import FEATURES, features
from bertology.attention.patterns._kinds import PATTERNS, Pattern
from bertology.attention.patterns._layout import Layout
from bertology.attention.patterns._maps import PieceMap, stacked

SHORTEST, LONGEST = 5, 128
_IN_GROUP = 12
"""Maps that are mixed for one text length before they are looked at."""

_LIKELY: Final[dict[Pattern, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]]] = {
    "vertical": ((0.08, 0.97), (0.0, 0.12), (0.0, 1.0)),
    "diagonal": ((0.0, 0.12), (0.1, 1.0), (0.0, 1.0)),
    "vertical+diagonal": ((0.08, 0.8), (0.1, 0.8), (0.0, 0.8)),
    "block": ((0.0, 0.2), (0.0, 0.1), (0.4, 1.0)),
    "heterogeneous": ((0.0, 0.15), (0.0, 0.15), (0.0, 0.3)),
}
"""Lowest and highest shares of columns and of a line in a map, and of squares in the rest."""


@dataclass(frozen=True, eq=False)
class SyntheticMaps:
    """Maps, their features and their classes."""

    maps: tuple[PieceMap, ...]
    features: NDArray[np.float32]
    """``[map, feature]``"""
    labels: NDArray[np.int64]
    """``[map]`` numbers in :data:`PATTERNS`."""


def synthetic_maps(n: int, *, seed: int) -> SyntheticMaps:
    """Make ``n`` maps of each class, one class after another; the same for the same seed.

    Args:
        n: of each class.
        seed: of all that is drawn. Maps of one seed are different from those of another.
    """
    maps: list[PieceMap] = []
    measured: list[NDArray[np.float32]] = []
    for number, pattern in enumerate(PATTERNS):
        found = _of_class(pattern, np.random.default_rng([seed, number]))
        for _ in range(n):
            drawn, values = next(found)
            maps.append(drawn)
            measured.append(values)
    return SyntheticMaps(tuple(maps), np.array(measured), np.repeat(np.arange(len(PATTERNS)), n))


def _of_class(pattern: Pattern, generator: Generator) -> Iterator[tuple[PieceMap, NDArray[np.float32]]]:
    while True:
        length = round(float(np.exp(generator.uniform(np.log(SHORTEST - 0.4), np.log(LONGEST)))))
        drawn = [_mixed(pattern, generator, length) for _ in range(_IN_GROUP)]
        weights = stacked(drawn)
        measured = features(weights, Layout.of_texts([each.kinds for each in drawn]))[:, 0].numpy()
        for own, values in zip(drawn, measured, strict=True):
            if _looks_like(values, generator) == pattern:
                yield own, values


def _mixed(pattern: Pattern, generator: Generator, length: int) -> PieceMap:
    kinds = draw_text(generator, length)
    while pattern == "block" and length >= 8 and second_from(kinds) == length:
        kinds = draw_text(generator, length)
    in_columns, in_line, in_squares = (generator.uniform(low, high) for low, high in _LIKELY[pattern])
    if pattern in ("vertical", "diagonal", "heterogeneous"):
        # Most maps have no trace of what does not make their class.
        in_columns *= pattern == "vertical" or generator.random() < 0.5
        in_line *= pattern == "diagonal" or generator.random() < 0.5
        in_squares *= generator.random() < 0.5
    weights = without_structure(generator, kinds)
    if in_squares:
        weights = _mix(generator, weights, squares(generator, kinds), in_squares)
    order = [(in_columns, columns), (in_line, line)]
    for share, component in order if generator.random() < 0.5 else order[::-1]:
        if share:
            weights = _mix(generator, weights, component(generator, kinds), share)
    return PieceMap(weights.astype(np.float32), kinds)


def _mix(generator: Generator, weights: Floats, component: Floats, mean: float) -> Floats:
    share = row_shares(generator, len(weights), mean)[:, None]
    return (1 - share) * weights + share * component


def _looks_like(values: NDArray[np.float32], generator: Generator) -> Pattern:
    """The class of a map by the rule, with thresholds as unsteady as an eye."""
    seen = dict(zip(FEATURES, values.tolist(), strict=True))
    column = seen["column_rows_0.16"] >= generator.normal(0.57, 0.07)
    column = column and seen["column_density_log"] >= generator.normal(0.74, 0.12)
    # The longer the text, the more words compete with those on a line, and the more rows it is seen by.
    enough = 0.62 - 0.16 * (seen["length_log"] - np.log(20))
    is_line = seen["line_rows_ratio_1.1"] >= generator.normal(enough, 0.06)
    is_line = is_line and seen["line_rows_contrast_0.2"] >= generator.normal(0.36, 0.06)
    block = seen["block_log_ratio_far"] >= generator.normal(0.72, 0.12)
    strong = seen["column_density_log"] >= generator.normal(1.28, 0.15)
    if is_line:
        return "vertical+diagonal" if column else "diagonal"
    if block and not (column and strong):
        return "block"
    return "vertical" if column else "heterogeneous"
