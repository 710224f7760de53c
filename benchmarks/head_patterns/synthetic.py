"""Labelled synthetic maps of every class, with the variation of real ones.

A map is mixed of columns, a line, squares and attention without structure, in shares that its class makes likely. Which
class it then has is drawn by the rule of :mod:`._rule`, from how likely an eye is to see a column, a line or squares in
what came out; a map that got another class than it was mixed for is dropped, so that there are as many of each. Maps
near a boundary are found on both sides of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.head_patterns.components import (
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
from benchmarks.head_patterns.maps import PieceMap, layout_of, stacked
from benchmarks.head_patterns.rule import likely_classes
from bertology.attention.patterns import PATTERNS, Pattern, features

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
    likely: NDArray[np.float64]
    """``[map, class]`` how likely each class was when the label was drawn."""


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
    values = np.array(measured)
    return SyntheticMaps(tuple(maps), values, np.repeat(np.arange(len(PATTERNS)), n), likely_classes(values))


def _of_class(pattern: Pattern, generator: Generator) -> Iterator[tuple[PieceMap, NDArray[np.float32]]]:
    while True:
        length = round(float(np.exp(generator.uniform(np.log(SHORTEST - 0.4), np.log(LONGEST)))))
        drawn = [_mixed(pattern, generator, length) for _ in range(_IN_GROUP)]
        weights = stacked(drawn)
        measured = features(weights, layout_of(drawn))[:, 0].numpy()
        for own, values, likely in zip(drawn, measured, likely_classes(measured), strict=True):
            if PATTERNS[int(generator.choice(len(PATTERNS), p=likely))] == pattern:
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
