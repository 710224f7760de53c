"""Directed trees of highest score, of many sentences at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_ROUND = tuple[Integers, Integers, Integers, Integers]
"""Trees that are not done yet; ``[tree, word]`` the part each word is in, and the edge ``source → word`` into it."""


def spanning_arborescences(scores: ArrayLike, roots: ArrayLike) -> Integers:
    """The directed trees of highest total score (Chu & Liu 1965; Edmonds 1967), of several matrices at once.

    Every part of a tree takes the best edge into it; parts in a circle become one, what the circle's own edges score
    is taken from the edges into it, and the parts that are left choose again, until there is no circle.

    Args:
        scores: ``[tree, head, dependent]`` how well one word is the head of another, −∞ where it cannot be; every word
            must be within reach of the root.
        roots: ``[tree]`` place of the root, from 0.

    Returns:
        ``[tree, word]`` place of each word's head, from 0; −1 for the root.
    """
    left = np.array(scores, dtype=np.float64)
    n_trees, n = left.shape[:2]
    root = np.broadcast_to(np.asarray(roots, dtype=np.int64), n_trees)
    words = np.arange(n)
    left[:, words, words] = -np.inf
    left[np.arange(n_trees), :, root] = -np.inf
    rounds: list[_ROUND] = []
    trees, parts = np.arange(n_trees), np.tile(words, (n_trees, 1))
    while len(trees):
        value, source, word = _best_into(left, parts)
        rounds.append((trees, parts, np.take_along_axis(source, parts, 1), np.take_along_axis(word, parts, 1)))
        # What comes into the root is −∞, as is what comes into numbers that are no longer a part.
        reached = np.isfinite(value)
        above = np.where(reached, np.take_along_axis(parts, np.maximum(source, 0), 1), words)
        joined, in_circle = _circles(above, reached)
        left = left - np.take_along_axis(np.where(reached, value, 0.0), parts, 1)[:, None]
        go_on = in_circle.any(1)
        parts = np.take_along_axis(joined, parts, 1)[go_on]
        trees, left = trees[go_on], left[go_on]
    return _opened(rounds, n_trees, n, root)


def _best_into(left: Floats, parts: Integers) -> tuple[Floats, Integers, Integers]:
    """``[tree, part]`` the best edge into each part: its score, where it comes from, and the word it leads to."""
    outside = np.where(parts[:, :, None] == parts[:, None], -np.inf, left)
    source = outside.argmax(1)  # [tree, word]
    value = np.take_along_axis(outside, source[:, None], 1)[:, 0]
    own = np.where(parts[:, None] == np.arange(parts.shape[1])[:, None], value[:, None], -np.inf)  # [tree, part, word]
    word = own.argmax(2)
    return np.take_along_axis(own, word[..., None], 2)[..., 0], np.take_along_axis(source, word, 1), word


def _circles(above: Integers, reached: NDArray[np.bool_]) -> tuple[Integers, NDArray[np.bool_]]:
    """``[tree, part]`` the part that each becomes, and whether it is in a circle; from the part above each."""
    n = above.shape[1]
    least = np.minimum(above, np.arange(n))
    jump, steps = above, 1
    while steps < n:
        least = np.minimum(least, np.take_along_axis(least, jump, 1))
        jump, steps = np.take_along_axis(jump, jump, 1), 2 * steps
    # After so many steps upwards nothing is left but circles, and all of each.
    in_circle = np.zeros(above.shape, dtype=bool)
    np.put_along_axis(in_circle, jump, True, 1)
    in_circle &= reached
    return np.where(in_circle, least, np.arange(n)), in_circle


def _opened(rounds: list[_ROUND], n_trees: int, n: int, root: Integers) -> Integers:
    """Parts taken apart again, from the last ones to single words: a part keeps its edge unless one leads into it from
    outside the circle that it was in."""
    heads, into = (np.full((n_trees, n), -1, dtype=np.int64) for _ in range(2))
    for trees, parts, source, word in reversed(rounds):
        known = into[trees]
        keeps = (known >= 0) & (np.take_along_axis(parts, np.maximum(known, 0), 1) == parts)
        into[trees] = np.where(keeps, known, word)
        heads[trees] = np.where(keeps, heads[trees], source)
    heads[np.arange(n_trees), root] = -1
    return heads
