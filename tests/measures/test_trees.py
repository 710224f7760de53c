"""Trees over words, against all trees there are and shortest paths found another way."""

import itertools

import networkx
import numpy as np
import pytest

from bertology.measures import tree_distances, tree_edges
from bertology.measures.trees import check_tree, rooted, spanning_arborescences, spanning_trees, tree_depths
from tests.readouts.trees import random_heads

# The chef who ran to the stores is out of food
CHEF = (2, 9, 4, 2, 7, 7, 4, 9, 0, 11, 9)


def spanning_tree(distances, scored=None):
    return spanning_trees(np.asarray(distances)[None], scored)[0]


@pytest.mark.parametrize(
    "heads", [(0,), (0, 1), CHEF, *(random_heads(n, np.random.default_rng(n)) for n in (3, 8, 25))]
)
def test_distances_and_depths_are_lengths_of_paths(heads):
    graph = networkx.Graph(tree_edges(heads))
    graph.add_nodes_from(range(len(heads)))
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    n = len(heads)
    np.testing.assert_array_equal(tree_distances(heads), [[lengths[a][b] for b in range(n)] for a in range(n)])
    np.testing.assert_array_equal(tree_depths(heads), [lengths[heads.index(0)][word] for word in range(n)])


@pytest.mark.parametrize("seed", range(4))
def test_the_spanning_tree_is_the_shortest_of_all(seed):
    """All trees over five words, by their Prüfer codes."""
    draw = np.random.default_rng(seed)
    distances = draw.random((5, 5)) - 0.5  # squared distances are not negative, but nothing hangs on it
    distances = distances + distances.T
    trees = [networkx.from_prufer_sequence(code).edges for code in itertools.product(range(5), repeat=3)]
    shortest = min(trees, key=lambda edges: sum(distances[a, b] for a, b in edges))
    assert set(spanning_tree(distances)) == {tuple(sorted(edge)) for edge in shortest}


def test_words_at_no_distance_are_joined():
    """Vectors that are all alike must not make a forest."""
    assert len(spanning_tree(np.zeros((4, 4)))) == 3


def test_punctuation_is_left_out():
    heads, scored = (2, 0, 2, 2), (True, True, False, True)
    assert tree_edges(heads, scored) == {(0, 1), (1, 3)}
    edges = spanning_tree(tree_distances(heads), scored)
    assert set(edges) == {(0, 1), (1, 3)}
    assert rooted(edges, 1, n_words=4) == (2, 0, -1, 2)
    assert spanning_tree(np.zeros((2, 2)), (True, False)) == ()


@pytest.mark.parametrize("seed", range(4))
def test_the_arborescence_is_the_best_of_all(seed):
    scores = np.random.default_rng(seed).random((4, 4))
    best, found = -np.inf, None
    for heads in itertools.product(range(5), repeat=4):
        try:
            check_tree(heads)
        except ValueError:
            continue
        total = sum(scores[head - 1, word] for word, head in enumerate(heads) if head)
        if heads.index(0) == 2 and total > best:
            best, found = total, heads
    assert tuple(spanning_arborescences(scores[None], [2])[0] + 1) == found


@pytest.mark.parametrize("n", [1, 2, 3, 7, 15])
def test_many_arborescences_are_those_of_networkx(n):
    draw = np.random.default_rng(n)
    # Some are sharp, as attention is: there many words choose one head, and circles lie in circles.
    scores = np.concatenate([draw.random((6, n, n)), draw.dirichlet(np.full(n, 0.05), size=(6, n))])
    roots = draw.integers(0, n, len(scores))
    found = spanning_arborescences(scores, roots)
    for one, root, heads in zip(scores, roots, found, strict=True):
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(n))
        edges = [(i, j, one[i, j]) for i in range(n) for j in range(n) if i != j and j != root]
        graph.add_weighted_edges_from(edges)
        expected = networkx.maximum_spanning_arborescence(graph)
        assert {(head, word) for word, head in enumerate(heads) if head >= 0} == set(expected.edges)
        assert np.flatnonzero(heads < 0).tolist() == [root]


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((2, 1), "no root; a tree has one word with head 0"),
        ((0, 0), "several roots, words 1, 2"),
        ((0, 5), "head 5 of word 2 is none of the 2 words; give 0 to 2"),
        ((0, -1), "head -1 of word 2"),
        ((0, 3, 2), "the heads of word 2 lead in a circle"),
    ],
)
@pytest.mark.parametrize("read", [check_tree, tree_depths, tree_distances])
def test_what_is_no_tree(heads, message, read):
    with pytest.raises(ValueError, match=message):
        read(heads)
