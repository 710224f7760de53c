import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertology.activations.layers import LayerVectors
from bertology.errors import CorpusError, ModelError
from bertology.geometry.position import encoding_effects
from bertology.measures.sums import LayerSums

RNG = np.random.default_rng(4)
N_TYPES, N_SENTENCES, DIM = 20, 30, 12
TYPES = np.tile(np.arange(N_TYPES), N_SENTENCES)
SENTENCES = np.repeat(np.arange(N_SENTENCES), N_TYPES)
CENTRES = RNG.normal(size=(N_TYPES, DIM))
PLAIN = CENTRES[TYPES] + 0.4 * RNG.normal(size=(len(TYPES), DIM))


def effects(changed: NDArray[np.floating[Any]], plain: Any = PLAIN, **settings: Any) -> dict[str, LayerSums]:
    vectors = LayerVectors.of_arrays(plain[None])
    other = {"c": LayerVectors.of_arrays(changed[None])}
    return {one.metric: one for one in encoding_effects(vectors, other, TYPES, SENTENCES, **settings)}


def value(found: dict[str, LayerSums], metric: str) -> float:
    return float(found[metric].values[0])


def test_moves_are_distances_and_cosines_of_words() -> None:
    changed = PLAIN + RNG.normal(size=PLAIN.shape)
    found = effects(changed)
    length = np.linalg.norm(PLAIN, axis=1)
    assert value(found, "moved_c") == pytest.approx(np.mean(np.linalg.norm(changed - PLAIN, axis=1) / length), rel=1e-5)
    cosines = (changed * PLAIN).sum(axis=1) / length / np.linalg.norm(changed, axis=1)
    assert value(found, "cosine_c") == pytest.approx(cosines.mean(), rel=1e-5)
    assert found["moved_c"].over.shape == (1, N_SENTENCES)
    first = np.linalg.norm((changed - PLAIN)[:N_TYPES], axis=1) / length[:N_TYPES]
    assert found["moved_c"].over[0, 0] == pytest.approx(first.sum(), rel=1e-5)


def test_neighbours_are_the_nearest_means_of_other_types() -> None:
    changed = PLAIN + RNG.normal(size=PLAIN.shape)
    found = effects(changed, k=3)
    means = np.stack([PLAIN[one == TYPES].mean(axis=0) for one in range(N_TYPES)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    shares = []
    for word, one in enumerate(TYPES):
        nearest = []
        for vectors in (PLAIN, changed):
            order = np.argsort(-(means @ vectors[word]))
            nearest.append(set(order[order != one][:3]))
        shares.append(1 - len(nearest[0] & nearest[1]) / 3)
    assert value(found, "neighbours_changed_c") == pytest.approx(np.mean(shares), abs=1e-9)


def test_across_less_within_is_the_mean_over_pairs() -> None:
    """With a coin of all sentences, by hand from the definition, over all pairs of a type's occurrences."""
    changed = PLAIN + 3.0
    found = effects(changed, seed=2)
    rng = np.random.default_rng(2)
    is_plain = rng.permutation(N_SENTENCES) % 2 == 0
    vectors = np.where(is_plain[SENTENCES][:, None], PLAIN, changed)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = []
    for one in range(N_TYPES):
        distances: dict[bool, list[float]] = {True: [], False: []}
        for a, b in itertools.combinations(np.flatnonzero(one == TYPES), 2):
            is_within = bool(is_plain[SENTENCES[a]] == is_plain[SENTENCES[b]])
            distances[is_within].append(1 - float(vectors[a] @ vectors[b]))
        expected.append(np.mean(distances[False]) - np.mean(distances[True]))
    np.testing.assert_allclose(found["across_within_c"].over[0], expected, atol=1e-6)
    assert value(found, "across_within_p_c") == pytest.approx(1 / 201)
    assert found["across_within_p_c"].over.shape == (1, 1)  # of all types, without an interval


def test_texts_and_vectors_that_do_not_do() -> None:
    few = LayerVectors.of_arrays(PLAIN[None, :5])
    with pytest.raises(CorpusError, match="5 word types are too few to look up 10"):
        list(encoding_effects(few, {"c": few}, TYPES[:5], SENTENCES[:5]))
    once = LayerVectors.of_arrays(PLAIN[None, :N_TYPES])
    with pytest.raises(CorpusError, match="no word occurs in 5 sentences"):
        list(encoding_effects(once, {"c": once}, TYPES[:N_TYPES], SENTENCES[:N_TYPES]))
    zero = PLAIN.copy()
    zero[3] = 0
    with pytest.raises(ModelError, match="vectors of 1 words are zero"):
        effects(zero)
    zero[3] = np.nan
    with pytest.raises(ModelError, match="not finite"):
        effects(zero)
