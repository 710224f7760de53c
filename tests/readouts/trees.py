"""Sentences whose trees are known, in vectors that say them or do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import tree_distances
from bertology.measures.trees import rooted, spanning_trees, tree_depths
from bertology.readouts import ArraySpans, StructuralReadout, TreeTargets, fit_ranks
from bertology.readouts.structural import FittedStructural

Heads = tuple[int, ...]
LONGEST = 9
NOISE = 7
DIM = LONGEST + NOISE


def random_heads(n: int, random: np.random.Generator) -> Heads:
    """A tree drawn at random, crossing arcs and all."""
    order = random.permutation(n)
    heads = [0] * n
    for place in range(1, n):
        heads[order[place]] = int(order[random.integers(place)]) + 1
    return tuple(heads)


@dataclass(frozen=True)
class Trees:
    """Words ``[layer, word, dim]`` in sentences, with the heads of each."""

    words: NDArray[np.float32]
    heads: Sequence[Heads]

    @property
    def spans(self) -> NDArray[np.int64]:
        ends = np.cumsum([len(heads) for heads in self.heads])
        return np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)

    @property
    def source(self) -> ArraySpans:
        return ArraySpans(self.words, self.spans[:, None], chunk_items=32)

    def targets(self, asks: Any, weights: NDArray[np.float32] | None = None) -> TreeTargets:
        value = tree_distances if asks == "distances" else tree_depths
        return TreeTargets(asks, [value(heads) for heads in self.heads], weights)

    def layers(self, *places: int) -> Trees:
        return Trees(self.words[list(places)], self.heads)

    def some(self, sentences: Sequence[int]) -> Trees:
        spans = self.spans
        words = np.concatenate([np.arange(*spans[number]) for number in sentences])
        return Trees(self.words[:, words], [self.heads[number] for number in sentences])

    def noisy(self, spread: float) -> Trees:
        noise = np.random.default_rng(9).normal(scale=spread, size=self.words.shape)
        return Trees((self.words + noise).astype(np.float32), self.heads)


def paths_to_root(heads: Heads) -> NDArray[np.float64]:
    """``[word, LONGEST]`` by which words one comes on the way up to the root, which itself is left out.

    Squared distances between rows are distances in the tree, squared lengths depths.
    """
    rows = np.zeros((len(heads), LONGEST))
    for start in range(len(heads)):
        word = start
        while heads[word]:
            rows[start, word] = 1
            word = heads[word] - 1
    return rows


def planted(n: int, seed: int, *, draw: Callable[..., Heads] = random_heads) -> Trees:
    """Layer 0 is noise; layers 1 and 2 hold the trees, each in other directions, among as much noise."""
    random, mixing = np.random.default_rng(seed), np.random.default_rng(0)
    heads = [draw(int(random.integers(3, LONGEST + 1)), random) for _ in range(n)]
    told = np.concatenate([paths_to_root(one) for one in heads])
    rest = random.normal(size=(len(told), NOISE))
    whole = np.concatenate([told, rest], axis=1)
    layers = [random.normal(size=whole.shape)]
    layers += [whole @ np.linalg.qr(mixing.normal(size=(DIM, DIM)))[0] for _ in range(2)]
    return Trees(np.stack(layers).astype(np.float32), heads)


def fit_one(readout: StructuralReadout, *data: Any, **settings: Any) -> FittedStructural:
    """The probe of one rank alone."""
    return fit_ranks([readout], *data, **settings)[0]


def fit(readout: Any, train: Trees, dev: Trees, asks: str, **settings: Any) -> FittedStructural:
    return fit_one(
        readout, train.source, train.targets(asks), dev=dev.source, dev_targets=dev.targets(asks), **settings
    )


def uuas(fitted: FittedStructural, test: Trees) -> NDArray[np.float64]:
    """``[problem, layer]`` the share of edges that the spanning tree has."""
    right, n_edges = np.zeros(fitted.maps.shape[:2]), 0
    for item, distances in fitted.read(test.source):
        heads = test.heads[item]
        gold = {(min(w, h - 1), max(w, h - 1)) for w, h in enumerate(heads) if h}
        n_edges += len(gold)
        for problem, layer in np.ndindex(*right.shape):
            right[problem, layer] += len(gold & set(spanning_trees(distances[problem, layer][None])[0]))
    return right / n_edges


def root_accuracy(fitted: FittedStructural, test: Trees) -> NDArray[np.float64]:
    """``[problem, layer]`` the share of sentences whose root is least deep."""
    right = np.zeros(fitted.maps.shape[:2])
    for item, depths in fitted.read(test.source):
        right += depths.argmin(-1) == test.heads[item].index(0)
    return right / len(test.heads)


def parsed(fitted: FittedStructural, test: Trees) -> list[Heads]:
    """Trees of the first problem and the last layer, hung up at gold's root."""
    return [
        rooted(spanning_trees(distances[0, -1][None])[0], test.heads[item].index(0), n_words=len(test.heads[item]))
        for item, distances in fitted.read(test.source)
    ]
