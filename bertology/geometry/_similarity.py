"""Likeness of the layers of one model or of two, with intervals and the likeness that chance gives.

Measures that follow from products, cosines or neighbours come with what each sentence contributes; others are of a
sample of words, with what blocks of sentences contribute. The layers of two models are compared as those of one
(:meth:`LayerVectors.beside`): pairs are places of layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.activations.layers import Floats32, LayerVectors, type_directions, unit_vectors
from bertology.errors import CorpusError, ModelError
from bertology.geometry._likeness import (
    LEAST,
    PAIRED,
    Measure,
    cosines_of,
    find_measure,
    hsic,
    nearest,
    ranked,
    shared_neighbours,
)
from bertology.geometry._text import mean_cosine
from bertology.measures.sums import Clusters, Floats, Integers, LayerSums, cluster_sums, jackknife_sums, mean_sums

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure

Pair = tuple[int, int]
Likenesses = Mapping[Pair, tuple[float, Floats]]
"""Likeness by pair, and ``[cluster]`` its derivative by the weight of each cluster."""
_N_BLOCKS = 10
_ASKED = 1000
"""Words whose type is looked up by their vector."""


def layer_similarity(
    vectors: LayerVectors, sentences: Integers, *, measures: Sequence[str] = ("cka",)
) -> Iterator[LayerSums]:
    """How alike all pairs of layers are, and how far a word moves from each layer to the next that is read.

    Args:
        vectors: vectors of the words of a text.
        sentences: ``[word]`` the sentence of each, ascending.
        measures: measures of :func:`likeness`. ``rsa``, ``rsa_spearman``, ``mutual_neighbours`` and ``rbf`` are of the
            first 1,000 words; ``svcca``, ``pwcca`` and ``neuron_matching`` of the first 4,000 or 12 for each dimension.

    Yields:
        Each measure with the layer before in ``vectors.layers``, and by the group ``layer k`` with each other layer k;
        and ``MEASURE_null``, the same with the layer before, its words in random order.
        Then ``cosine_previous`` and ``moved_previous``, ‖x − x′‖ / ‖x′‖, of a word's vectors x and x′ in both (Lan et
        al. 2020, figure 1 shows angle and distance).

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: there are fewer than two sentences, or four words.
        ModelError: a layer does not vary, or is not finite.
        FitError: fewer than ten words for each dimension, for ``svcca`` and ``pwcca``.
    """
    layers, n_layers = vectors.layers, len(vectors.layers)
    pairs = _LayerPairs.of(vectors, sentences, measures, list(combinations(range(n_layers), 2)))
    neighbours = [(place + 1, place) for place in range(n_layers - 1)]
    for measure in measures:
        found, kind = pairs.likenesses(measure, pairs.pairs)
        both = {**found, **{(b, a): values for (a, b), values in found.items()}}
        if neighbours:
            yield _likeness_sums(measure, layers[1:], [both[pair] for pair in neighbours], kind)
        for other, layer in enumerate(layers if neighbours else ()):
            places = [place for place in range(n_layers) if place != other]
            of_others = [both[place, other] for place in places]
            yield _likeness_sums(measure, tuple(layers[p] for p in places), of_others, kind, group=f"layer {layer}")
        if neighbours:
            yield pairs.null(measure, layers[1:], neighbours)
    if neighbours:
        values = np.zeros((2, n_layers - 1, len(vectors)))
        for items, chunk in vectors.chunks():
            lengths = np.maximum(np.sqrt(np.einsum("lwd,lwd->lw", chunk, chunk)), 1e-30)
            values[0][:, items] = np.einsum("lwd,lwd->lw", chunk[:-1], chunk[1:]) / (lengths[:-1] * lengths[1:])
            change = chunk[1:] - chunk[:-1]
            values[1][:, items] = np.sqrt(np.einsum("lwd,lwd->lw", change, change)) / lengths[:-1]
        yield mean_sums("cosine_previous", layers[1:], values[0], pairs.clusters)
        yield mean_sums("moved_previous", layers[1:], values[1], pairs.clusters)


def model_similarity(
    vectors: LayerVectors,
    reference: LayerVectors,
    sentences: Integers,
    *,
    layers: Sequence[Pair],
    measures: Sequence[str] = ("cka",),
) -> Iterator[LayerSums]:
    """How alike the layers of two models are, over the same words; widths and numbers of layers may differ.

    Args:
        vectors: vectors of the words of a text.
        reference: vectors of the same words in the other model.
        sentences: ``[word]`` the sentence of each, ascending.
        layers: each layer of ``vectors``, and the layer of ``reference`` that it is compared with.
        measures: as for :func:`layer_similarity`; ``procrustes`` as a distance, ``procrustes_distance`` = 1 −
            ``procrustes``: half the squared distance after the best rotation of vectors of length 1 in all, which is 0
            where they differ by a rotation and a scale (Schönemann 1966; Ding et al. 2021).

    Yields:
        Each measure, of ``cka`` by the group ``reference layer k`` also with each layer of the reference; and
        ``MEASURE_null``, the same with the words of the reference in random order.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: there are fewer than two sentences, or four words, or the words are not the same.
        ModelError: a layer does not vary, or is not finite.
        FitError: fewer than ten words for each dimension, for ``svcca`` and ``pwcca``.
    """
    n_own = len(vectors.layers)
    own = tuple(layer for layer, _ in layers)
    matched = [(vectors.layers.index(a), n_own + reference.layers.index(b)) for a, b in layers]
    crossed = [(a, n_own + b) for a, b in np.ndindex(n_own, len(reference.layers))]
    needed = crossed if "cka" in measures else matched
    pairs = _LayerPairs.of(vectors.beside(reference), sentences, measures, needed, what="models")
    for measure in measures:
        found, kind = pairs.likenesses(measure, crossed if measure == "cka" else matched)
        yield _likeness_sums(measure, own, [found[pair] for pair in matched], kind, is_distance=True)
        for place, layer in enumerate(reference.layers if measure == "cka" else ()):
            of_all = [found[a, n_own + place] for a in range(n_own)]
            yield _likeness_sums(measure, vectors.layers, of_all, kind, group=f"reference layer {layer}")
        yield pairs.null(measure, own, matched, is_distance=True)


def _likeness_sums(
    measure: str,
    layers: tuple[int, ...],
    found: Sequence[tuple[float, Floats]],
    kind: Clusters,
    *,
    group: str = "",
    is_distance: bool = False,
) -> LayerSums:
    values, influences = np.array([value for value, _ in found]), np.stack([change for _, change in found])
    if is_distance and measure == "procrustes":
        measure, values, influences = "procrustes_distance", 1 - values, -influences
    return jackknife_sums(measure, layers, values, influences, kind, group=group)


@dataclass(frozen=True, eq=False)
class _LayerPairs:
    """Pairs of layers, by their places, whose vectors of the same words are compared."""

    vectors: LayerVectors
    clusters: Integers
    """``[word]`` the sentence of each, from 0."""
    pairs: Sequence[Pair]

    @classmethod
    def of(
        cls,
        vectors: LayerVectors,
        sentences: Integers,
        measures: Sequence[str],
        pairs: Sequence[Pair],
        *,
        what: str = "layers",
    ) -> _LayerPairs:
        """The pairs, once it is checked that there are such measures and enough words."""
        for measure in measures:
            find_measure(measure)
        _, clusters = np.unique(sentences, return_inverse=True)
        if len(vectors) < LEAST or clusters[-1] < 1:
            raise CorpusError(f"{len(vectors)} words of one sentence are too few to compare {what} by: give more text")
        return cls(vectors, clusters, pairs)

    def likenesses(self, measure: str, pairs: Sequence[Pair]) -> tuple[Likenesses, Clusters]:
        """The likeness of some of the pairs, and the clusters of its derivatives: sentences, or blocks of them."""
        if measure == "cka":
            return self._cka(pairs), "sentences"
        if measure == "procrustes":
            return self._procrustes(pairs), "sentences"
        if measure in ("rsa", "rsa_spearman"):
            return self._rsa(pairs, is_ranked=measure == "rsa_spearman"), "sentences"
        if measure == "mutual_neighbours":
            return self._neighbours(pairs), "sentences"
        found = left_out(find_measure(measure), self.vectors, self.clusters, pairs)
        return {pair: (float(values[0]), values[0] - values[1:]) for pair, values in found.items()}, "blocks"

    def null(
        self, measure: str, layers: tuple[int, ...], pairs: Sequence[Pair], *, is_distance: bool = False
    ) -> LayerSums:
        """A measure with the words of the second layer of each pair in random order; it has no interval."""
        values = null_likeness(find_measure(measure), self.vectors, pairs)
        if is_distance and measure == "procrustes":
            measure, values = "procrustes_distance", 1 - values
        return LayerSums(f"{measure}_null", layers, values[:, None], np.ones((1, 1)), "blocks")

    @cached_property
    def _means(self) -> Floats32:
        """Means ``[layer, dim]`` of all words."""
        totals = np.zeros((len(self.vectors.layers), self.vectors.dim))
        for _, chunk in self.vectors.chunks():
            totals += chunk.sum(axis=1, dtype=np.float64)
        means = (totals / len(self.vectors)).astype(np.float32)
        if not np.isfinite(means).all():
            layer = self.vectors.layers[int(np.flatnonzero(~np.isfinite(means).all(axis=1))[0])]
            raise ModelError(f"layer {layer}: vectors are not finite: compute in float32, or give another model")
        return means

    @cached_property
    def _products(self) -> tuple[Mapping[Pair, Floats32], Floats]:
        """``[dim, dim]`` XᵀY of centred vectors by pair, each layer with itself among them; ``[layer, word]`` ‖x‖²."""
        dim, n_layers = self.vectors.dim, len(self.vectors.layers)
        needed = [*((place, place) for place in range(n_layers)), *self.pairs]
        cross = {pair: np.zeros((dim, dim), dtype=np.float32) for pair in needed}
        norms = np.zeros((n_layers, len(self.vectors)))
        for items, centred in self._centred():
            norms[:, items] = (centred**2).sum(axis=2, dtype=np.float64)
            for a, b in cross:
                cross[a, b] += centred[a].T @ centred[b]
        return cross, norms

    def _centred(self) -> Iterator[tuple[Integers, Floats32]]:
        for items, chunk in self.vectors.chunks():
            yield items, chunk - self._means[:, None]

    def _quadratic(self, matrices: Mapping[Pair, Floats32]) -> dict[Pair, Floats]:
        """``[word]`` xᵀ M y of the centred vectors of each word in two layers."""
        found = {pair: np.zeros(len(self.vectors)) for pair in matrices}
        for items, centred in self._centred():
            for (a, b), matrix in matrices.items():
                found[a, b][items] = np.einsum("wd,wd->w", centred[a] @ matrix, centred[b])
        return found

    def _cka(self, pairs: Sequence[Pair]) -> Likenesses:
        (cross, norms), n = self._products, len(self.vectors)
        squared = {
            (a, b): hsic(float((matrix.astype(np.float64) ** 2).sum()), norms[a], norms[b])
            for (a, b), matrix in cross.items()
        }
        for place, layer in enumerate(self.vectors.layers):
            if not squared[place, place] > 0:
                raise ModelError(
                    f"layer {layer}: words do not differ in their vectors, so that no other layer is like it"
                )
        changes = {}
        for (a, b), along in self._quadratic(cross).items():
            # Derivative of s(X, Y) by the weight of each word, to first order in 1 / n.
            by_word = 2 * (along - norms[a] * norms[b]) + (norms[a] * norms[b].sum() + norms[a].sum() * norms[b]) / n**2
            changes[a, b] = np.bincount(self.clusters, by_word) / squared[a, b]
        found = {}
        for a, b in pairs:
            value = squared[a, b] / np.sqrt(squared[a, a] * squared[b, b])
            found[a, b] = value, value * (changes[a, b] - changes[a, a] / 2 - changes[b, b] / 2)
        return found

    def _procrustes(self, pairs: Sequence[Pair]) -> Likenesses:
        (cross, norms), rotations, nuclear = self._products, {}, {}
        for pair in pairs:
            left, scale, right = np.linalg.svd(cross[pair].astype(np.float64), full_matrices=False)
            rotations[pair], nuclear[pair] = (left @ right).astype(np.float32), scale.sum()
        lengths = np.sqrt(norms.sum(axis=1))
        shares = [np.bincount(self.clusters, of_layer) / of_layer.sum() for of_layer in norms]
        found = {}
        for (a, b), along in self._quadratic(rotations).items():
            value = float(nuclear[a, b] / (lengths[a] * lengths[b]))
            change = np.bincount(self.clusters, along) / nuclear[a, b] - shares[a] / 2 - shares[b] / 2
            found[a, b] = value, value * change
        return found

    def _sampled(self, values: Floats) -> Floats:
        """``[cluster]`` sums of the values of the first words."""
        return np.asarray(cluster_sums(values, self.clusters[: len(values)], int(self.clusters[-1]) + 1)[0])

    def _rsa(self, pairs: Sequence[Pair], *, is_ranked: bool) -> Likenesses:
        cosines = [cosines_of(self.vectors.of(layer)[:PAIRED]) for layer in self.vectors.layers]
        off = ~np.eye(len(cosines[0]), dtype=bool)
        scores = []
        for matrix in map(ranked, cosines) if is_ranked else cosines:
            centred = np.where(off, matrix - matrix[off].mean(), 0.0)
            scores.append(centred / np.sqrt((centred**2).sum()))
        found = {}
        for a, b in pairs:
            r = float((scores[a] * scores[b]).sum())
            # Derivative of a correlation over pairs by the weight of each pair; a word is in two of a pair's places.
            by_pair = scores[a] * scores[b] - r / 2 * (scores[a] ** 2 + scores[b] ** 2)
            found[a, b] = r, self._sampled(2 * by_pair.sum(axis=1))
        return found

    def _neighbours(self, pairs: Sequence[Pair]) -> Likenesses:
        neighbours = [nearest(self.vectors.of(layer)[:PAIRED]) for layer in self.vectors.layers]
        found = {}
        for a, b in pairs:
            shared = shared_neighbours(neighbours[a], neighbours[b])
            mean = float(shared.mean())
            found[a, b] = mean, self._sampled((shared - mean) / len(shared))
        return found


def left_out(measure: Measure, vectors: LayerVectors, clusters: Integers, pairs: Iterable[Pair]) -> dict[Pair, Floats]:
    """``[1 + block]`` the likeness of some pairs of layers, by their places, of all words and without each block.

    Blocks are ten of neighbouring sentences, or as many as there are sentences.
    """
    n = measure.n_words(vectors)
    n_sentences = int(clusters[n - 1]) + 1
    blocks = clusters[:n] * min(_N_BLOCKS, n_sentences) // n_sentences
    kept = [vectors.of(layer)[:n] for layer in vectors.layers]
    found: dict[Pair, list[float]] = {pair: [] for pair in pairs}
    for block in (-1, *range(int(blocks[-1]) + 1)):
        parts = [measure.prepare(of_layer[blocks != block]) for of_layer in kept]
        known: dict[Pair, float] = {}
        for pair, values in found.items():
            # Measures are symmetric: each two layers are compared once.
            both = min(pair), max(pair)
            if both not in known:
                known[both] = float(measure.compare(parts[pair[0]], parts[pair[1]]))
            values.append(known[both])
    return {pair: np.array(values) for pair, values in found.items()}


def null_likeness(measure: Measure, vectors: LayerVectors, pairs: Sequence[Pair]) -> Floats:
    """``[pair]`` likeness by chance of pairs of layers, the words of the second of which are in random order."""
    n = measure.n_words(vectors)
    order = np.random.default_rng(0).permutation(n)
    # Where a layer is compared with one other, no more than two are in memory.
    size = 2 if len(pairs) <= len(vectors.layers) else None

    def read(place: int) -> Floats32:
        return vectors.of(vectors.layers[place])[:n]

    @lru_cache(size)
    def prepared(place: int) -> Any:
        return measure.prepare(read(place))

    @lru_cache(size)
    def shuffled(place: int) -> Any:
        return measure.reorder(prepared(place), order) if measure.reorder else measure.prepare(read(place)[order])

    # The second is prepared first: of neighbouring layers it is the first of the pair before.
    compared = ((shuffled(second), prepared(first)) for first, second in pairs)
    return np.array([float(measure.compare(one, other)) for other, one in compared])


@dataclass(frozen=True, eq=False)
class LayerMatrix:
    """The likeness of the layers of two models, or of one with itself."""

    measure: str
    layers_a: tuple[int, ...]
    layers_b: tuple[int, ...]
    values: Floats
    """``[layer a, layer b]``"""
    ci_low: Floats
    """``[layer a, layer b]`` lower ends of 95 % intervals, by the jackknife over ten blocks of sentences."""
    ci_high: Floats
    """``[layer a, layer b]`` upper ends."""
    null: Floats
    """``[layer a, layer b]`` the same with the words of b in random order."""
    n_words: int
    """Number of words that were compared."""

    def to_pandas(self) -> pd.DataFrame:
        """A data frame: a row for each pair of layers."""
        import pandas as pd

        rows, columns = np.indices(self.values.shape)
        layers = {"layer_a": np.array(self.layers_a)[rows.ravel()], "layer_b": np.array(self.layers_b)[columns.ravel()]}
        named = ("values", "ci_low", "ci_high", "null")
        return pd.DataFrame(layers | {name.rstrip("s"): getattr(self, name).ravel() for name in named})

    def plot(self, *, title: str | None = None) -> ShownFigure:
        """A heatmap with the layers of a on the vertical axis, from the bottom up, and those of b on the other."""
        from bertology.encoders import LabelledArray
        from bertology.results.head_maps import plot_head

        labels = {"from": list(map(str, self.layers_a[::-1])), "to": list(map(str, self.layers_b))}
        shades = LabelledArray(np.clip(self.values[::-1], 0, None).astype(np.float32), labels, {})
        return plot_head(shades, title=title or f"{self.measure} of layers", label=self.measure)


def compare_layers(
    vectors_a: LayerVectors, vectors_b: LayerVectors, sentences: Integers, *, measure: str = "cka"
) -> LayerMatrix:
    """How alike the layers of two models are, over the same words: all layers of one by all of the other.

    The models may be pretrained and random weights, two seeds, or one before and after fine-tuning. Vectors may differ
    in width, but for ``procrustes``, which then rotates the narrower into the wider. Words are the first 4,000 or 12
    for each dimension; 1,000 for measures of pairs of words.

    Args:
        vectors_a: vectors of the words of a text.
        vectors_b: vectors of the same words; ``vectors_a`` itself compares a model's own layers.
        sentences: ``[word]`` the sentence of each, ascending.
        measure: a measure of :func:`likeness`.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: other words, or words of fewer than three sentences.
        FitError: words are too few for the measure.
    """
    from scipy.special import stdtrit

    chosen = find_measure(measure)
    if len(vectors_a) != len(vectors_b) or len(vectors_a) != len(sentences):
        sizes = f"{len(vectors_a)}, {len(vectors_b)} and {len(sentences)}"
        raise CorpusError(f"vectors and sentences of {sizes} words cannot be compared: give those of the same words")
    both, pairs = _beside(vectors_a, vectors_b)
    n = chosen.n_words(both)
    _, clusters = np.unique(sentences[:n], return_inverse=True)
    if len(clusters) < LEAST or clusters[-1] < 2:
        raise CorpusError(f"{n} words of fewer than three sentences are too few to compare layers by: give more text")
    shape = len(vectors_a.layers), len(vectors_b.layers)
    every = np.stack(list(left_out(chosen, both, clusters, pairs).values())).reshape(*shape, -1)
    values, without = every[..., 0], every[..., 1:]
    n_blocks = without.shape[2]
    spread = ((without - without.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    reach = stdtrit(n_blocks - 1, 0.975) * np.sqrt(spread * (n_blocks - 1) / n_blocks)
    null = null_likeness(chosen, both, pairs).reshape(shape)
    return LayerMatrix(
        measure, vectors_a.layers, vectors_b.layers, values, values - reach, values + reach, null, n_words=n
    )


def _beside(a: LayerVectors, b: LayerVectors) -> tuple[LayerVectors, list[Pair]]:
    """The layers of two models as those of one, and all pairs of a layer of each."""
    first = 0 if b is a else len(a.layers)
    pairs = [(own, first + other) for own, other in np.ndindex(len(a.layers), len(b.layers))]
    return a if b is a else a.beside(b), pairs


def most_alike(
    vectors_a: LayerVectors, vectors_b: LayerVectors, *, measure: str = "cka"
) -> tuple[tuple[int, int], ...]:
    """Find for each layer of a model the layer of another that is most like it, over the same words.

    Args:
        vectors_a: vectors of the words of a text; the first 4,000 or 12 for each dimension are compared, 1,000 for
            measures of pairs of words.
        vectors_b: vectors of the same words in the other model.
        measure: a measure of :func:`likeness`.

    Returns:
        Numbers of layers of a, each with that of b; of equals the lowest.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: the words are not the same.
        FitError: words are too few.
    """
    chosen, (both, _) = find_measure(measure), _beside(vectors_a, vectors_b)
    n, n_b = chosen.n_words(both), len(vectors_b.layers)
    parts_b = [chosen.prepare(both.of(layer)[:n]) for layer in both.layers[-n_b:]]
    found = []
    for layer, place in zip(vectors_a.layers, both.layers, strict=False):
        part = chosen.prepare(both.of(place)[:n])
        found.append((layer, vectors_b.layers[int(np.argmax([chosen.compare(part, one) for one in parts_b]))]))
    return tuple(found)


def anisotropy_change(
    vectors: LayerVectors, reference: LayerVectors, sentences: Integers, *, layers: Sequence[Pair]
) -> Iterator[LayerSums]:
    """Mean cosine of the vectors of two words, of all pairs of words, in both models, and by how much it differs.

    Ethayarajh (2019, §3.3) calls it anisotropy. Intervals leave out one sentence after the other (jackknife).

    Args:
        vectors: vectors of the words of a text.
        reference: vectors of the same words in the other model.
        sentences: ``[word]`` the sentence of each, ascending.
        layers: each layer of ``vectors``, and the layer of ``reference`` that it is compared with.

    Yields:
        ``anisotropy``, ``anisotropy_reference``, and ``anisotropy_change``, the former less the latter.

    Raises:
        CorpusError: the words are not the same.
        ModelError: a vector is zero or not finite.
    """
    vectors.check_same_words(reference)
    counts = np.unique(sentences, return_counts=True)[1]
    starts = np.append(0, counts.cumsum()[:-1])

    @lru_cache
    def cosine(is_reference: bool, layer: int) -> tuple[float, Floats]:
        unit = unit_vectors((reference if is_reference else vectors).of(layer), layer).astype(np.float64)
        return mean_cosine(np.add.reduceat(unit, starts), counts)

    own = tuple(layer for layer, _ in layers)
    both = [(cosine(False, layer), cosine(True, other)) for layer, other in layers]
    change = [(a - b, of_a - of_b) for (a, of_a), (b, of_b) in both]
    named = {"": [one for one, _ in both], "_reference": [other for _, other in both], "_change": change}
    for name, found in named.items():
        yield _likeness_sums(f"anisotropy{name}", own, found, "sentences")


def cosine_to_reference(
    vectors: LayerVectors, reference: LayerVectors, sentences: Integers, *, layers: Sequence[Pair]
) -> Iterator[LayerSums]:
    """How far a word's vector has moved from that of the reference, dimension by dimension, without any rotation.

    Only for models of one width; it means something where one was trained on from the other.

    Yields:
        ``cosine_reference``, the mean cosine of a word's two vectors; ``moved_reference``, the mean of ‖x − x′‖ / ‖x′‖,
        where x′ is the vector of the reference. Nothing where widths differ.

    Raises:
        CorpusError: the words are not the same.
    """
    vectors.check_same_words(reference)
    if vectors.dim != reference.dim:
        return
    _, clusters = np.unique(sentences, return_inverse=True)
    own = tuple(layer for layer, _ in layers)
    cosines, moved = [], []
    for layer, other in layers:
        x, y = vectors.of(layer), reference.of(other)
        cosines.append(np.einsum("wd,wd->w", unit_vectors(x, layer), unit_vectors(y, other)))
        moved.append(np.linalg.norm(x - y, axis=1) / np.linalg.norm(y, axis=1))
    yield mean_sums("cosine_reference", own, np.stack(cosines).astype(np.float64), clusters)
    yield mean_sums("moved_reference", own, np.stack(moved).astype(np.float64), clusters)


def identity(vectors: LayerVectors, types: Integers, sentences: Integers, *, seed: int = 0) -> Iterator[LayerSums]:
    """Whether a layer still holds which word it was given: by layer the share of words found by their vector.

    The nearest word type by cosine is looked up among the mean vectors of types in layer 0, both layers less their
    mean; 1,000 words are looked up (after Voita et al. 2019, who measure what a layer knows of its input token). By
    chance it is one over the number of types.

    Args:
        vectors: vectors of the words of a text, layer 0 among them; without it there is nothing to yield.
        types: ``[word]`` the type of each.
        sentences: ``[word]`` the sentence of each.
        seed: random seed of the words that are looked up.

    Yields:
        ``identity``, over sentences.
    """
    if 0 not in vectors.layers:
        return
    _, types = np.unique(types, return_inverse=True)
    asked = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:_ASKED])
    embedded = vectors.of(0)
    means = type_directions(embedded - embedded.mean(axis=0), types)
    _, clusters = np.unique(sentences[asked], return_inverse=True)
    right = []
    for layer in vectors.layers:
        of_layer = vectors.of(layer)
        # Lengths do not matter to which type is nearest.
        nearest_types = ((of_layer[asked] - of_layer.mean(axis=0)) @ means.T).argmax(axis=1)
        right.append(nearest_types == types[asked])
    yield mean_sums("identity", vectors.layers, np.stack(right).astype(np.float64), clusters)
