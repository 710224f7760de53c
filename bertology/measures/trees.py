"""Trees over the words of a sentence: depths and distances from heads, and spanning trees of scores between words."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._lazy import scipy

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Heads = Sequence[int]
"""The head of each word, numbered from 1 as in CoNLL-U; 0 is the head of the root."""
Edge = tuple[int, int]
"""Two words by their places from 0, the smaller first."""


def check_tree(heads: Heads) -> None:
    """Raise a ValueError that names words, counted from 1, unless ``heads`` make one tree."""
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
    """``[word]`` number of edges between each word and the root (Hewitt & Manning 2019, section 2.3).

    Raises:
        ValueError: the heads do not make one tree (:func:`check_tree`).
    """
    check_tree(heads)
    parents = np.array(heads, dtype=np.int64)
    depths, above = np.zeros_like(parents), parents
    while (is_below := above > 0).any():
        depths += is_below
        above = np.where(is_below, parents[above - 1], 0)
    return depths


def tree_distances(heads: Heads) -> NDArray[np.int64]:
    """``[word, word]`` number of edges between two words of a tree (Hewitt & Manning 2019, section 2.2).

    Raises:
        ValueError: the heads do not make one tree (:func:`check_tree`).
    """
    check_tree(heads)
    parents = np.array(heads, dtype=np.int64)
    (below,) = parents.nonzero()
    graph = scipy.sparse.csr_array((np.ones(len(below)), (below, parents[below] - 1)), shape=(len(heads),) * 2)
    distances: Floats = scipy.sparse.csgraph.shortest_path(graph, directed=False, unweighted=True)
    return distances.astype(np.int64)


def tree_edges(heads: Heads, scored: Sequence[bool] | None = None) -> frozenset[Edge]:
    """The edges of a tree between two scored words; words without a head (−1) have no edge of their own."""
    return frozenset(
        (min(word, head - 1), max(word, head - 1))
        for word, head in enumerate(heads)
        if head > 0 and (scored is None or (scored[word] and scored[head - 1]))
    )


def spanning_trees(distances: ArrayLike, scored: Sequence[bool] | None = None) -> list[tuple[Edge, ...]]:
    """The minimum spanning trees of the scored words, of several matrices over the same words.

    Args:
        distances: ``[tree, word, word]``, symmetric; only the upper triangle is read.
        scored: which words are in the trees; all when left out.

    Returns:
        The edges of each tree, ordered by their words.
    """
    matrices = np.asarray(distances, dtype=np.float64)
    wanted = np.arange(matrices.shape[1]) if scored is None else np.flatnonzero(scored)
    n, m = len(matrices), len(wanted)
    if m < 2:
        return [()] * n
    above, below = np.triu_indices(m, k=1)
    weights = matrices[:, wanted[above], wanted[below]]
    # scipy takes 0 for no edge. Adding one number to every edge leaves the order of trees unchanged.
    weights = weights - weights.min() + 1.0
    # All trees in one call, as a forest: the overhead of a call exceeds the work on a sentence.
    start = np.arange(n, dtype=np.int32)[:, None] * np.int32(m)  # scipy 1.12 reads no other type
    above, below = above.astype(np.int32), below.astype(np.int32)
    places = ((start + above).ravel(), (start + below).ravel())
    graph = scipy.sparse.csr_array((weights.ravel(), places), shape=(n * m, n * m))
    forest = scipy.sparse.csgraph.minimum_spanning_tree(graph)
    rows, columns = forest.nonzero()
    trees: list[list[Edge]] = [[] for _ in range(n)]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        trees[row // m].append((int(wanted[row % m]), int(wanted[column % m])))
    return [tuple(sorted(edges)) for edges in trees]


def rooted(edges: Sequence[Edge], root: int, *, n_words: int) -> tuple[int, ...]:
    """Heads that lead from every word of a tree to its ``root``, a place from 0; −1 for words that are not in it."""
    one, other = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    graph = scipy.sparse.csr_array((np.ones(len(edges)), (one, other)), shape=(n_words, n_words))
    _, above = scipy.sparse.csgraph.breadth_first_order(graph, root, directed=False)  # negative without one
    heads = np.maximum(above + 1, -1)
    heads[root] = 0
    return tuple(heads.tolist())


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
    # Of each round the trees that are not finished; [tree, word] the part each word is in, and the edge source → word
    # into that part.
    rounds: list[tuple[Integers, Integers, Integers, Integers]] = []
    trees, parts = np.arange(n_trees), np.tile(words, (n_trees, 1))
    while len(trees):
        # The best edge into each part: its score, where it comes from, and the word it leads to, all [tree, part].
        outside = np.where(parts[:, :, None] == parts[:, None], -np.inf, left)
        source = outside.argmax(1)  # [tree, word]
        best = np.take_along_axis(outside, source[:, None], 1)[:, 0]
        own = np.where(parts[:, None] == words[:, None], best[:, None], -np.inf)  # [tree, part, word]
        word = own.argmax(2)
        value, source = np.take_along_axis(own, word[..., None], 2)[..., 0], np.take_along_axis(source, word, 1)
        rounds.append((trees, parts, np.take_along_axis(source, parts, 1), np.take_along_axis(word, parts, 1)))
        # What comes into the root is −∞, as is what comes into numbers that are no longer a part.
        reached = np.isfinite(value)
        above = np.where(reached, np.take_along_axis(parts, np.maximum(source, 0), 1), words)
        joined, in_circle = _circles(above, reached)
        left = left - np.take_along_axis(np.where(reached, value, 0.0), parts, 1)[:, None]
        go_on = in_circle.any(1)
        parts = np.take_along_axis(joined, parts, 1)[go_on]
        trees, left = trees[go_on], left[go_on]
    # Contracted parts are opened, last round first: a part keeps its edge unless a later round chose one into it from
    # outside the circle that it was in.
    heads, into = (np.full((n_trees, n), -1, dtype=np.int64) for _ in range(2))
    for trees, parts, source, word in reversed(rounds):
        known = into[trees]
        keeps = (known >= 0) & (np.take_along_axis(parts, np.maximum(known, 0), 1) == parts)
        into[trees] = np.where(keeps, known, word)
        heads[trees] = np.where(keeps, heads[trees], source)
    heads[np.arange(n_trees), root] = -1
    return heads


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
