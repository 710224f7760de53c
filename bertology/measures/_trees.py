"""Trees over the words of a sentence: what heads say of distance and depth, and trees made of scores between words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures._arborescences import spanning_arborescences

Heads = Sequence[int]
"""Of each word its head, numbered from 1 as CoNLL-U does, 0 for the root."""
Edge = tuple[int, int]
"""Two words by their places from 0, the smaller first."""


def check_tree(heads: Heads) -> None:
    """Raise unless ``heads`` make one tree.

    Raises:
        ValueError: no root or several, a head that is no word of the sentence, or heads in a circle; the message says
            which words, counted from 1.
    """
    n = len(heads)
    outside = [place + 1 for place, head in enumerate(heads) if not 0 <= head <= n]
    if outside:
        raise ValueError(f"head {heads[outside[0] - 1]} of word {outside[0]} is none of the {n} words; give 0 to {n}")
    roots = [place + 1 for place, head in enumerate(heads) if head == 0]
    if len(roots) != 1:
        found = f"several roots, words {', '.join(map(str, roots))}" if roots else "no root"
        raise ValueError(f"{found}; a tree has one word with head 0")
    for start in range(1, n + 1):
        word, steps = start, 0
        while word and steps <= n:
            word, steps = heads[word - 1], steps + 1
        if word:
            raise ValueError(f"the heads of word {start} lead in a circle; let one of them lead to the root")


def tree_depths(heads: Heads) -> NDArray[np.int64]:
    """``[word]`` how many edges each word is from the root (Hewitt & Manning 2019, section 2.3)."""
    depths = np.full(len(heads), -1, dtype=np.int64)
    for start in range(len(heads)):
        path = []
        word = start
        while depths[word] < 0 and heads[word] != 0:
            path.append(word)
            word = heads[word] - 1
        if depths[word] < 0:
            depths[word] = 0
        for above, below in enumerate(reversed(path), start=1):
            depths[below] = depths[word] + above
    return depths


def tree_distances(heads: Heads) -> NDArray[np.int64]:
    """``[word, word]`` how many edges lie between two words of a tree (Hewitt & Manning 2019, section 2.2)."""
    n = len(heads)
    distances = np.zeros((n, n), dtype=np.int64)
    known: list[int] = []
    # From the root downwards: a word is one edge further from every word met before than its head is.
    for word in np.argsort(tree_depths(heads), kind="stable").tolist():
        if heads[word]:
            row = distances[heads[word] - 1, known] + 1
            distances[word, known] = row
            distances[known, word] = row
        known.append(word)
    return distances


def tree_edges(heads: Heads, scored: Sequence[bool] | None = None) -> frozenset[Edge]:
    """The edges of a tree whose two ends both count.

    Args:
        heads: the tree; words whose head is neither 0 nor a word (−1) have no edge of their own.
        scored: which words count; all when left out.
    """
    return frozenset(
        (min(word, head - 1), max(word, head - 1))
        for word, head in enumerate(heads)
        if head > 0 and (scored is None or (scored[word] and scored[head - 1]))
    )


def spanning_tree(distances: ArrayLike, scored: Sequence[bool] | None = None) -> tuple[Edge, ...]:
    """The minimum spanning tree of the words that count: :func:`spanning_trees` of one matrix."""
    return spanning_trees(np.asarray(distances)[None], scored)[0]


def spanning_trees(distances: ArrayLike, scored: Sequence[bool] | None = None) -> list[tuple[Edge, ...]]:
    """The minimum spanning trees of the words that count, of several matrices over the same words.

    Args:
        distances: ``[tree, word, word]``, symmetric; of the two triangles the upper one is read.
        scored: which words are in the trees; all when left out.

    Returns:
        The edges of each, one fewer than there are words in it, in order of their words.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    found = np.asarray(distances, dtype=np.float64)
    wanted = np.arange(found.shape[1]) if scored is None else np.flatnonzero(scored)
    n, m = len(found), len(wanted)
    if m < 2:
        return [()] * n
    above, below = np.triu_indices(m, k=1)
    weights = found[:, wanted[above], wanted[below]]
    # To scipy 0 is no edge. The same number on every edge leaves the order of trees as it is.
    weights = weights - weights.min() + 1.0
    # All trees in one call, as a forest: what a call costs is more than what a sentence takes.
    start = np.arange(n)[:, None] * m
    places = ((start + above).ravel(), (start + below).ravel())
    forest = minimum_spanning_tree(csr_array((weights.ravel(), places), shape=(n * m, n * m)))
    rows, columns = forest.nonzero()
    trees: list[list[Edge]] = [[] for _ in range(n)]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        trees[row // m].append((int(wanted[row % m]), int(wanted[column % m])))
    return [tuple(sorted(edges)) for edges in trees]


def rooted(edges: Sequence[Edge], root: int, *, n_words: int) -> tuple[int, ...]:
    """Heads that lead from every word of a tree to its root; −1 for words that are not in it.

    Args:
        edges: of the tree, without directions.
        root: the place of the root, from 0.
        n_words: how many words the sentence has.
    """
    neighbours: list[list[int]] = [[] for _ in range(n_words)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    heads = [-1] * n_words
    heads[root] = 0
    waiting = [root]
    while waiting:
        word = waiting.pop()
        for other in neighbours[word]:
            if heads[other] < 0:
                heads[other] = word + 1
                waiting.append(other)
    return tuple(heads)


def spanning_arborescence(scores: ArrayLike, *, root: int) -> tuple[int, ...]:
    """The directed tree of highest total score: :func:`spanning_arborescences` of one matrix.

    Args:
        scores: ``[head, dependent]`` how well one word is the head of another.
        root: the place of the root, from 0.

    Returns:
        Heads as CoNLL-U numbers them.
    """
    heads = spanning_arborescences(np.asarray(scores)[None], [root])[0]
    return tuple((heads + 1).tolist())
