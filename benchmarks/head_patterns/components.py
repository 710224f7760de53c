"""What synthetic maps are mixed of: columns, lines, squares and attention without a structure.

Each is ``[row, column]`` with rows that sum to 1, for a text whose pieces are given as kinds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.attention.patterns import CLS, PIECE, PUNCTUATION, SEP

Floats = NDArray[np.float64]
Kinds = NDArray[np.int8]
Generator = np.random.Generator

_LONGEST_OFFSET = 4
_PAIR_FROM = 8


def draw_text(generator: Generator, length: int) -> Kinds:
    """Kinds of the pieces of a text: often a pair with a ``[SEP]`` between, mostly with a stop before a ``[SEP]``."""
    kinds = np.full(length, PIECE, dtype=np.int8)
    kinds[generator.random(length) < generator.choice([0.0, 0.05, 0.15])] = PUNCTUATION
    kinds[0], kinds[-1] = CLS, SEP
    ends = [length - 1]
    if length >= _PAIR_FROM and generator.random() < 0.5:
        ends.append(int(generator.integers(2 + length // 8, length - 2 - length // 8)))
    for end in ends:
        kinds[end] = SEP
        if end > 2 and generator.random() < 0.8:
            kinds[end - 1] = PUNCTUATION
    return kinds


def second_from(kinds: Kinds) -> int:
    """Where the second sentence of a pair begins; the length of the text where there is none."""
    ends = np.flatnonzero(kinds == SEP)
    return int(ends[0]) + 1 if len(ends) > 1 else len(kinds)


def columns(generator: Generator, kinds: Kinds) -> Floats:
    """Attention to one to four columns: special ones, punctuation, or any; some rows look away."""
    n = len(kinds)
    ends = np.flatnonzero(kinds == SEP)
    marks = np.flatnonzero(kinds == PUNCTUATION)
    weights = np.zeros((n, n))
    choice = generator.choice(["cls", "sep", "own_sep", "cls_sep", "marks", "any"], p=[0.4, 0.12, 0.15, 0.13, 0.1, 0.1])
    own = np.where(np.arange(n) < second_from(kinds), ends[0], ends[-1])
    if choice in ("cls", "cls_sep"):
        weights[:, 0] += 1
    if choice in ("sep", "cls_sep"):
        weights[:, generator.choice(ends)] += generator.uniform(0.2, 1.5)
    if choice == "own_sep":
        weights[np.arange(n), own] += 1
        weights[:, ends] += generator.choice([0.0, 0.3, 0.8])
    if choice == "marks" and len(marks):
        weights[:, generator.choice(marks, min(len(marks), 4), replace=False)] += 1
    if choice == "any" or not weights.any():
        some = generator.choice(n, min(n, int(generator.integers(1, 4))), replace=False)
        weights[:, some] += generator.uniform(0.5, 1.5, len(some))
    if choice != "any" and generator.random() < 0.3:
        weights[:, generator.integers(n)] += generator.uniform(0.1, 0.6)
    spread = generator.uniform(0, 0.8)
    weights *= np.exp(generator.normal(0, spread, (n, n)))
    return _rows_to_one(weights)


def line(generator: Generator, kinds: Kinds) -> Floats:
    """Attention along a diagonal: at one offset, seldom at two, sharp or blurred, now and then a piece off."""
    n = len(kinds)
    place = np.arange(n)
    offsets = np.arange(-_LONGEST_OFFSET, _LONGEST_OFFSET + 1)
    offset = generator.choice(offsets, p=[0.015, 0.025, 0.08, 0.24, 0.22, 0.24, 0.1, 0.05, 0.03])
    wander = generator.choice([0.0, 0.15, 0.4])
    centre = place + offset + generator.choice([-1, 0, 1], n, p=[wander / 2, 1 - wander, wander / 2])
    blur = generator.choice([0.0, 0.4, 0.7, 1.0, 1.5])
    distance = place - centre[:, None]
    weights = np.exp(-0.5 * (distance / max(blur, 0.05)) ** 2)
    if generator.random() < 0.15:
        weights += np.exp(-0.5 * ((place - (place - offset)[:, None]) / max(blur, 0.05)) ** 2)
    weights *= np.exp(generator.normal(0, generator.uniform(0, 0.5), (n, n)))
    # What would point out of the text goes to the tokens that open and close it.
    weights[centre < 0, 0] += 1
    weights[centre >= n, -1] += 1
    weights += 1e-12
    return _rows_to_one(weights)


def squares(generator: Generator, kinds: Kinds) -> Floats:
    """Attention that stays in its own sentence, some of it leaking, as uneven inside as attention anywhere."""
    n = len(kinds)
    is_second = np.arange(n) >= second_from(kinds)
    own = is_second[:, None] == is_second
    weights = without_structure(generator, kinds) * np.where(own, 1, generator.uniform(0, 0.35))
    return _rows_to_one(weights)


def without_structure(generator: Generator, kinds: Kinds) -> Floats:
    """Attention by content: of low rank, near or far, with spots; or hardly more than noise."""
    n = len(kinds)
    rank = int(generator.integers(2, 9))
    sharpness = generator.choice([0.0, 0.3, 0.8, 1.5, 2.5])
    scores = generator.normal(size=(n, rank)) @ generator.normal(size=(rank, n)) / np.sqrt(rank) * sharpness
    scores += generator.normal(0, generator.choice([0.0, 0.2, 0.5, 0.8]), n)
    scores += generator.normal(0, generator.choice([0.1, 0.4, 0.9]), (n, n))
    if generator.random() < 0.35:
        # Long-distance but local: much wider than a line.
        distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        scores -= distance / generator.uniform(0.15 * n + 2, n + 2) * generator.uniform(0.5, 3)
    if generator.random() < 0.25:
        # To what stands before, or behind.
        side = np.triu(np.ones((n, n)), 1)
        scores -= (side if generator.random() < 0.7 else side.T) * generator.uniform(0.5, 4)
    if generator.random() < 0.4:
        # The same word again, or a dependent and its head.
        first, second = generator.integers(n, size=(2, max(1, n // 6)))
        scores[first, second] += generator.uniform(1, 4)
        scores[second, first] += generator.choice([0.0, 2.0])
    special = (kinds == CLS) | (kinds == SEP)
    scores[:, special] += generator.normal(generator.choice([0.0, -1.0, 0.5]), 0.5)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return _rows_to_one(weights)


def _rows_to_one(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum(1, keepdims=True))


def row_shares(generator: Generator, length: int, mean: float) -> Floats:
    """``[row]`` how much of each row a component has: ``mean`` on the whole, more or less even, none in some rows."""
    even = generator.choice([2.0, 6.0, 30.0])
    mean = min(max(mean, 0.01), 0.99)
    shares = generator.beta(mean * even, (1 - mean) * even, length)
    if generator.random() < 0.25:
        # Stronger at one end of the text than at the other.
        ramp = np.linspace(1, generator.uniform(0, 0.7), length)
        shares *= ramp if generator.random() < 0.7 else ramp[::-1]
    return np.where(generator.random(length) < generator.choice([0.0, 0.0, 0.1, 0.2]), 0.2 * shares, shares)
