"""Effects of another encoding of the same sentences on the vectors of their words (Mickus et al. 2020)."""

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
_QUERIES = 1000  # words whose nearest neighbours are looked up
_LEAST_SENTENCES, _PERMUTATIONS = 5, 200


def encoding_effects(
    plain: LayerVectors,
    changed: Mapping[str, LayerVectors],
    types: Integers,
    sentences: Integers,
    *,
    k: int = 10,
    seed: int = 0,
) -> Iterator[LayerSums]:
    """Distances by which words move in other encodings of their sentences, and separation of words by encoding.

    Each statistic of an encoding ends in its name. ``moved`` is the mean of ‖x′ − x‖ / ‖x‖ of a word's vectors x in the
    plain and x′ in the other encoding, ``cosine`` that of their cosine; ``moved_other_sentence`` and
    ``cosine_other_sentence`` are of two occurrences of one type, in two sentences in the plain encoding.
    ``neighbours_changed`` is the share of the ``k`` nearest other word types, by the mean of their plain vectors, that
    are other ones for x′ than for x.

    Within and across: each sentence is in the plain or the other encoding by the toss of a coin. ``across_within`` is,
    as a mean over types, the cosine distance of two occurrences of a type in two encodings, less that in one.
    ``across_within_p`` is the share of permutations of the sentences' encodings with as large a difference: sentences
    are exchanged, not occurrences, as the words of one have the same encoding.
    """
    _, types = np.unique(types, return_inverse=True)
    _, clusters = np.unique(sentences, return_inverse=True)
    n_types, n_clusters, rng = int(types.max(initial=-1)) + 1, int(clusters[-1]) + 1, np.random.default_rng(seed)
    if n_types < k + 2:
        raise CorpusError(f"{n_types} word types are too few to look up {k} nearest ones: give more text")
    sample, _ = WordSample.of(types, clusters, least=_LEAST_SENTENCES, most=_MOST_OCCURRENCES, seed=seed)
    places, bounds = sample.places, list(itertools.pairwise(sample.starts))
    others = np.concatenate([np.roll(places[first:last], -1) for first, last in bounds])
    coins = np.where(rng.permutation(n_clusters) % 2 == 0, 1.0, -1.0)
    # [permutation, occurrence] 1 for the plain encoding, −1 for the other; the first are those as they are.
    sides = np.stack([coins, *(rng.permutation(coins) for _ in range(_PERMUTATIONS))])[:, clusters[places]]
    asked = np.sort(np.random.default_rng(seed).permutation(len(types))[:_QUERIES])

    def mean(name: str, values: Floats, of_items: Integers) -> LayerSums:
        return mean_sums(name, values, of_items, n_clusters=n_clusters)

    def nearest(unit: Floats32, means: Floats32) -> Integers:
        """``[word, k]`` the nearest types of the words that are asked about, without the word's own."""
        cosines = unit[asked] @ means.T
        cosines[np.arange(len(asked)), types[asked]] = -np.inf
        return np.asarray(np.argpartition(-cosines, k, axis=1)[:, :k])

    def measure(layer: int, vectors: Floats32) -> Iterator[LayerSums]:
        unit, means = unit_vectors(vectors, layer), type_directions(vectors, types)
        near = nearest(unit, means)
        for name, values in _moves(vectors[places], vectors[others]).items():
            yield mean(f"{name}_other_sentence", values, clusters[places])
        for name, of_changed in changed.items():
            after = of_changed.of(layer)
            for moved, values in _moves(vectors, after).items():
                yield mean(f"{moved}_{name}", values, clusters)
            unit_after = unit_vectors(after, layer)
            change = 1 - shared_neighbours(nearest(unit_after, means), near)
            yield mean(f"neighbours_changed_{name}", change, clusters[asked])
            mixed = np.where(sides[0, :, None] > 0, unit[places], unit_after[places]).astype(np.float64)
            by_type = np.stack([_across_less_within(mixed[a:b], sides[:, a:b]) for a, b in bounds], axis=1)
            totals = by_type.sum(axis=1)
            p = float((totals >= totals[0] - 1e-9).mean())  # the assignment as it is counts as one of them
            yield ratio_sums(f"across_within_{name}", by_type[0], None, "types")
            yield ratio_sums(f"across_within_p_{name}", np.array([p]), None, "types")

    return plain.statistics(measure)


def _moves(before: Floats32, after: Floats32) -> dict[str, Floats]:
    """``[word]`` how far vectors ``[word, dim]`` move, over their length before, and the cosine of both."""
    x, y = before.astype(np.float64), after.astype(np.float64)
    length = np.maximum(np.linalg.norm(x, axis=1), 1e-30)
    cosine = np.einsum("wd,wd->w", x, y) / (length * np.maximum(np.linalg.norm(y, axis=1), 1e-30))
    return {"moved": np.linalg.norm(y - x, axis=1) / length, "cosine": cosine}


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
    means = (total + signed) / 4 / np.maximum(within, 1) - (total - signed) / 4 / np.maximum(across, 1)
    return np.where((across > 0) & (within > 0), means, 0.0)
