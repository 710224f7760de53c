"""Readings made up here: a short sentence read with one mistake, and sentences of any length."""

import dataclasses

import numpy as np
import pytest

from bertology.measures import tree_distances
from bertology.measures.trees import rooted, spanning_trees, tree_depths
from bertology.results.trees import TreeReading
from tests.readouts.trees import random_heads

WORDS = ("The", "chef", "who", "ran", "is", "out", "of", "food", ".")
GOLD = (2, 6, 4, 2, 6, 0, 8, 6, 6)
RELATIONS = ("det", "nsubj", "nsubj", "acl:relcl", "cop", "root", "case", "obl", "punct")
SCORED = (True,) * 8 + (False,)


def made_up(gold, *, words=None, scored=None, noise=0.0, seed=0, directed=False):
    """A reading of a tree: its own distances and depths, with noise."""
    size = len(gold)
    rng = np.random.default_rng(seed)
    scored = tuple(scored or (True,) * size)
    spread = rng.normal(0, noise, (size, size)) if noise else np.zeros((size, size))
    distances = np.abs(tree_distances(gold) + (spread + spread.T) / 2)
    np.fill_diagonal(distances, 0)
    depths = np.maximum(0, tree_depths(gold) + (rng.normal(0, noise, size) if noise else 0.0))
    edges = spanning_trees(distances[None], scored)[0]
    root = min((place for place in range(size) if scored[place]), key=lambda place: depths[place])
    return TreeReading(
        words=tuple(words or (f"w{place}" for place in range(size))),
        layer=4,
        model="/models/minilm-mlm",
        gold=tuple(gold),
        edges=edges,
        distances=distances,
        depths=tuple(depths.tolist()),
        heads=rooted(edges, root, n_words=size) if directed else None,
        relations=None,
        scored=scored,
    )


@pytest.fixture
def make():
    return made_up


@pytest.fixture
def make_tree():
    """Heads of a random tree, projective or not, by size and seed."""
    return lambda size, seed: random_heads(size, np.random.default_rng(seed))


@pytest.fixture
def chef():
    """Two edges wrong: *is* hangs on *ran*, and *of* on *out*; 5 of 7 gold edges found."""
    edges = ((0, 1), (1, 3), (1, 5), (2, 3), (3, 4), (5, 6), (5, 7))
    perfect = made_up(GOLD, words=WORDS, scored=SCORED)
    return dataclasses.replace(perfect, edges=edges, gold_relations=RELATIONS)


@pytest.fixture
def directed(chef):
    """The same with directions and relations, the root found."""
    heads = rooted(chef.edges, 5, n_words=9)
    return dataclasses.replace(
        chef, heads=heads, relations=("det", "nsubj", "nsubj", "acl", "cop", "root", "case", "obl", "")
    )


@pytest.fixture
def raw(directed):
    """A sentence nobody has annotated."""
    return dataclasses.replace(directed, gold=None, gold_relations=None)
