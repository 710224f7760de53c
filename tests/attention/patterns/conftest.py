"""Maps made by hand: what each pattern is at its plainest."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.head_patterns.maps import PieceMap
from bertology.attention.patterns import CLS, PIECE, PUNCTUATION, SEP

MakeMap = Callable[..., PieceMap]


def text(n: int, *, pair: bool = False) -> NDArray[np.int8]:
    kinds = np.full(n, PIECE, dtype=np.int8)
    kinds[0], kinds[-1], kinds[-2] = CLS, SEP, PUNCTUATION
    if pair:
        kinds[n // 2] = SEP
    return kinds


def planted(pattern: str, n: int) -> PieceMap:
    """The pattern, over attention that is nearly even."""
    generator = np.random.default_rng(n)
    weights = generator.uniform(0.8, 1.2, (n, n)) / n
    place = np.arange(n)
    is_pair = pattern == "block"
    if "vertical" in pattern:
        weights[:, 0] += 1
    if pattern == "sep":
        weights[:, -1] += 1.5
    if "diagonal" in pattern:
        weights[place, np.maximum(place - 1, 0)] += 1
    if pattern == "next":
        weights[place, np.minimum(place + 1, n - 1)] += 1.5
    if is_pair:
        second = place > n // 2
        weights[second[:, None] == second] *= 12
    weights /= weights.sum(1, keepdims=True)
    return PieceMap(weights.astype(np.float32), text(n, pair=is_pair))


@pytest.fixture(scope="session")
def plant() -> MakeMap:
    return planted


@pytest.fixture(scope="session")
def kinds_of() -> Callable[..., NDArray[np.int8]]:
    return text
