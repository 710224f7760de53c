"""Effects of another encoding of the same sentences on the vectors of their words (Mickus et al. 2020)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from bertology.activations.layers import Floats32, LayerVectors, type_directions, unit_vectors
from bertology.errors import CorpusError
from bertology.geometry.similarity import shared_neighbours
from bertology.geometry.text import WordSample
from bertology.measures.sums import Floats, Integers, LayerSums, mean_sums, ratio_sums

_MOST_OCCURRENCES = 200
"""Occurrences of a type whose distances within and across encodings are taken: all pairs of them are formed."""
_QUERIES = 1000
"""Words whose nearest neighbours are looked up."""
_LEAST_SENTENCES = 5


def encoding_effects(
    plain: LayerVectors,
    changed: Mapping[str, LayerVectors],
    types: Integers,
    sentences: Integers,
    *,
    k: int = 10,
    n_permutations: int = 200,
    seed: int = 0,
) -> Iterator[LayerSums]:
    """How far words move in other encodings of their sentences, and whether an encoding sets its words apart.

    Each statistic of an encoding ends in its name. ``moved`` is the mean of ‖x′ − x‖ / ‖x‖ of a word's vectors x in the
    plain and x′ in the other encoding, ``cosine`` that of their cosine. ``neighbours_changed`` is the share of the
    ``k`` nearest word types that are other ones for x′ than for x: types, without the word's own, stand for the mean of
    their plain vectors, so that what is compared is an unchanged vocabulary.

    Within and across: each sentence is in the plain or the other encoding by the toss of a coin. ``across_within`` is,
    as a mean over types, the cosine distance of two occurrences of a type in two encodings, less that in one. 0 is what
    an encoding shows that leaves no trace. ``across_within_p`` is the share of permutations of the sentences' encodings
    with as large a difference: sentences are exchanged, not occurrences, as the words of one have the same encoding.

    As a yardstick ``moved_other_sentence`` and ``cosine_other_sentence`` are of two occurrences of one type, in two
    sentences in the plain encoding.
    """
    _, types = np.unique(types, return_inverse=True)
    _, clusters = np.unique(sentences, return_inverse=True)
    n_types = int(types.max(initial=-1)) + 1
    if n_types < k + 2:
        raise CorpusError(f"{n_types} word types are too few to look up {k} nearest ones: give more text")
    sample, _ = WordSample.of(types, clusters, least=_LEAST_SENTENCES, most=_MOST_OCCURRENCES, seed=seed)
    others = np.concatenate([np.roll(part, -1) for part in np.split(sample.places, sample.starts[1:-1])])
    asked = np.sort(np.random.default_rng(seed).permutation(len(types))[:_QUERIES])
    test = _WithinAcross(sample, clusters, n_permutations, seed)
    n_clusters = int(clusters[-1]) + 1

    def mean(name: str, values: Floats, of_items: Integers) -> LayerSums:
        return mean_sums(name, values, of_items, n_clusters=n_clusters)

    def measure(layer: int, vectors: Floats32) -> Iterator[LayerSums]:
        unit, means = unit_vectors(vectors, layer), type_directions(vectors, types)
        near = _nearest_types(unit[asked], means, types[asked], k)
        for name, values in zip(("moved", "cosine"), _moves(vectors[sample.places], vectors[others]), strict=True):
            yield mean(f"{name}_other_sentence", values, clusters[sample.places])
        for name, of_changed in changed.items():
            after = of_changed.of(layer)
            moved, cosine = _moves(vectors, after)
            yield mean(f"moved_{name}", moved, clusters)
            yield mean(f"cosine_{name}", cosine, clusters)
            unit_after = unit_vectors(after, layer)
            now = _nearest_types(unit_after[asked], means, types[asked], k)
            yield mean(f"neighbours_changed_{name}", 1 - shared_neighbours(now, near), clusters[asked])
            difference, p = test.of(unit, unit_after)
            yield ratio_sums(f"across_within_{name}", difference, None, "types")
            yield ratio_sums(f"across_within_p_{name}", np.array([p]), None, "types")

    return plain.statistics(measure)


def _nearest_types(unit: Floats32, means: Floats32, types: Integers, k: int) -> Integers:
    """``[word, k]`` the nearest types of unit vectors ``[word, dim]`` by cosine, without the word's own ``[word]``."""
    cosines = unit @ means.T
    cosines[np.arange(len(cosines)), types] = -np.inf
    return np.asarray(np.argpartition(-cosines, k, axis=1)[:, :k])


def _moves(before: Floats32, after: Floats32) -> tuple[Floats, Floats]:
    """``[word]`` how far vectors ``[word, dim]`` move, over their length before, and the cosine of both."""
    x, y = before.astype(np.float64), after.astype(np.float64)
    length = np.maximum(np.linalg.norm(x, axis=1), 1e-30)
    cosine = np.einsum("wd,wd->w", x, y) / (length * np.maximum(np.linalg.norm(y, axis=1), 1e-30))
    return np.linalg.norm(y - x, axis=1) / length, cosine


class _WithinAcross:
    """Distances of a type's occurrences within one encoding and across two, with sentences encoded by a coin."""

    def __init__(self, sample: WordSample, clusters: Integers, n_permutations: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        coins = np.where(rng.permutation(int(clusters.max()) + 1) % 2 == 0, 1.0, -1.0)
        shuffled = np.stack([rng.permutation(coins) for _ in range(n_permutations)])
        self._sample = sample
        self._sides = np.concatenate([coins[None], shuffled])[:, clusters[sample.places]]
        """``[permutation, occurrence]`` 1 for the plain encoding, −1 for the other; the first are those as they are."""

    def of(self, plain: Floats32, changed: Floats32) -> tuple[Floats, float]:
        """``[type]`` mean distance across less within, and the p-value of its mean over types; of unit vectors."""
        places = self._sample.places
        vectors = np.where(self._sides[0, :, None] > 0, plain[places], changed[places]).astype(np.float64)
        bounds = itertools.pairwise(self._sample.starts)
        by_type = np.stack([_across_less_within(vectors[a:b], self._sides[:, a:b]) for a, b in bounds], axis=1)
        totals = by_type.sum(axis=1)
        p = float((totals >= totals[0] - 1e-9).mean())  # the assignment as it is counts as one of them
        return by_type[0], p


def _across_less_within(unit: Floats, sides: Floats) -> Floats:
    """``[permutation]`` the mean cosine of pairs on one side less that of pairs on two; 0 where there is either none.

    With s = ±1 for the side of each vector, sᵀ G s adds up what their Gram matrix G has on one side and subtracts what
    it has across.
    """
    gram = unit @ unit.T
    np.fill_diagonal(gram, 0.0)
    n, total = len(unit), gram.sum()
    signed = np.einsum("pi,pi->p", sides @ gram, sides)
    one = (sides > 0).sum(axis=1)
    across, within = one * (n - one), (n * (n - 1) - 2 * one * (n - one)) / 2
    has_both = (across > 0) & (within > 0)
    means = (total + signed) / 4 / np.maximum(within, 1) - (total - signed) / 4 / np.maximum(across, 1)
    return np.where(has_both, means, 0.0)
