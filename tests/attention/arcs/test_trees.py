"""Trees of heads against loops over Hugging Face's maps and against networkx, and planted trees."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx
import numpy as np
import pytest

from bertology.attention import stream_maps
from bertology.attention.arcs.heads import TreeHits
from bertology.attention.arcs.questions import TextTrees
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from tests.attention.planted import random_trees

MARKS = {",", ".", "!", "…", ":", ";", "“", "”"}
WAYS = ("maximum attention", "spanning tree")


def trees_of(sentences: Sentences, heads: list[list[int]]) -> TextTrees:
    """All trees, punctuation left out."""
    scored = np.array([form not in MARKS for sentence in sentences for form in sentence.words])
    counted = np.add.reduceat(scored, sentences.starts[:-1])
    return TextTrees(sentences.starts, np.array(list(itertools.chain(*heads))), scored, np.flatnonzero(counted > 1))


def edges_of(trees: TextTrees, number: int) -> tuple[list[int], set[frozenset[int]], int]:
    """Of a sentence the words that count, the edges between them, and the word from which trees are made."""
    first, last = trees.starts[number : number + 2]
    heads, words = trees.heads[first:last].tolist(), np.flatnonzero(trees.scored[first:last]).tolist()
    edges = {frozenset((word, heads[word] - 1)) for word in words if heads[word] and heads[word] - 1 in words}
    without = [word for word in words if not heads[word] or heads[word] - 1 not in words]
    root = heads.index(0)
    return words, edges, root if root in words else without[0]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_trees(
    family: str, encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded, trees = encoder(family), trees_of(sentences, random_trees(sentences, 0))
    over, under = np.zeros((2, loaded.n_layers, loaded.n_heads)), 0
    for number in trees.sentences.tolist():
        found = word_maps(loaded, sentences[number])
        words, edges, root = edges_of(trees, number)
        under += len(edges)
        for layer, head in np.ndindex(loaded.n_layers, loaded.n_heads):
            weights = found.maps[layer, head]
            at = {word: found.words.index(word) for word in words}
            best = {
                word: max((other for other in words if other != word), key=lambda o, w=word: weights[at[w], at[o]])  # type: ignore[misc]
                for word in words
            }
            over[0, layer, head] += len(edges & {frozenset(pair) for pair in best.items()})
            graph = networkx.DiGraph()
            pairs = [(a, b, weights[at[a], at[b]]) for a in words for b in words if a != b and b != root]
            graph.add_weighted_edges_from(pairs)
            tree = networkx.maximum_spanning_arborescence(graph)
            over[1, layer, head] += len(edges & {frozenset(pair) for pair in tree.edges})
    (found,) = stream_maps(loaded, sentences, [partial(TreeHits, trees=trees, metric="uuas")]).results[0]
    assert (found.names, found.metric) == (WAYS, "uuas")
    np.testing.assert_array_equal(found.over.sum(-1), over)
    assert found.under.sum(-1).ravel().tolist() == [under, under]


def test_sentences_in_windows_are_left_out(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    trees = trees_of(sentences, random_trees(sentences, 0))
    narrow = encoder("bert", max_pieces=16)
    n_windows = np.bincount(narrow.tokenize(sentences).window_sentence)
    whole = [number for number in trees.sentences.tolist() if n_windows[number] == 1]
    assert 0 < len(whole) < len(trees.sentences)
    (found,) = stream_maps(narrow, sentences, [partial(TreeHits, trees=trees, metric="uuas")]).results[0]
    assert found.under[0].sum() == sum(len(edges_of(trees, number)[1]) for number in whole)


def test_chain_baseline(sentences: Sentences) -> None:
    trees = trees_of(sentences, random_trees(sentences, 0))
    chosen_on = trees_of(sentences, random_trees(sentences, 1))

    def share(own: TextTrees, distance: int) -> float:
        right = total = 0
        for number in own.sentences.tolist():
            words, edges, _ = edges_of(own, number)
            right += len(edges & {frozenset(pair) for pair in zip(words, words[distance:], strict=False)})
            total += len(edges)
        return right / total

    found = trees.chain(sentences, chosen_on=chosen_on, metric="uuas")
    distance = max((1, 2, 3), key=lambda one: share(chosen_on, one))
    np.testing.assert_allclose(found.values, share(trees, distance))
    assert (found.names, found.unit) == (WAYS, "model")
