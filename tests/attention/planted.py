"""Trees drawn at random."""

from __future__ import annotations

import numpy as np

from bertology.corpora import Sentences


def random_trees(sentences: Sentences, seed: int) -> list[list[int]]:
    """A tree by lot over the words of each sentence: heads as CoNLL-U numbers them."""
    lot = np.random.default_rng(seed)
    trees = []
    for sentence in sentences:
        order = lot.permutation(len(sentence))
        heads = [0] * len(sentence)
        for place in range(1, len(order)):
            heads[order[place]] = int(order[lot.integers(place)]) + 1
        trees.append(heads)
    return trees
