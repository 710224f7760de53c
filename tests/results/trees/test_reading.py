"""A reading checks that its parts fit, and knows what was found."""

import dataclasses

import numpy as np
import pytest

from bertology.measures.trees import spanning_trees


def test_what_was_found(chef):
    assert chef.gold_edges == ((0, 1), (1, 3), (1, 5), (2, 3), (4, 5), (5, 7), (6, 7))
    assert chef.shared_edges == ((0, 1), (1, 3), (1, 5), (2, 3), (5, 7))
    assert chef.uuas == 5 / 7


def test_the_gold_tree_by_hand(chef):
    assert chef.gold_depths == (2, 1, 3, 2, 1, 0, 2, 1, 1)
    assert chef.gold_distances[2, 7] == 4
    assert chef.gold_distances[0, 0] == 0


def test_planted_distances_give_the_whole_tree(make, make_tree):
    for seed in range(20):
        assert make(make_tree(12, seed)).uuas == 1.0


def test_random_edges_stay_at_chance(make, make_tree):
    """A random labelled tree holds an edge of another with the chance 2 / n."""
    rng = np.random.default_rng(3)
    found = []
    for seed in range(150):
        reading = make(make_tree(12, seed))
        noise = rng.random((12, 12))
        found.append(dataclasses.replace(reading, edges=spanning_trees((noise + noise.T)[None])[0]).uuas)
    assert abs(np.mean(found) - 2 / 12) < 4 * np.std(found) / np.sqrt(len(found))


def test_without_gold_nothing_is_scored(raw):
    assert raw.gold_edges is None
    assert raw.uuas is None
    assert raw.gold_depths is None
    assert raw.gold_distances is None
    assert raw.shared_edges == ()


def test_one_word_has_no_score(make):
    assert make((0,)).uuas is None


def test_gold_heads_that_are_no_tree_are_refused(chef):
    with pytest.raises(ValueError, match="gold: the heads of word 1 lead in a circle"):
        dataclasses.replace(chef, gold=(2, 1, 4, 2, 6, 0, 8, 6, 6))


def test_heads_of_words_not_scored_say_nothing(directed):
    assert directed.heads[8] == -1
    other = dataclasses.replace(directed, heads=(*directed.heads[:8], 3))
    assert other.uuas == directed.uuas


def test_a_notebook_shows_the_arcs(chef):
    assert "<svg" in chef._repr_svg_()
