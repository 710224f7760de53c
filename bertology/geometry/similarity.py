"""Likeness of the layers of one model or of two, with intervals and the likeness that chance gives.

Measures that follow from products, cosines or neighbours come with what each sentence contributes; others are of a
sample of words, with what blocks of sentences contribute. The layers of two models are compared as those of one
(:meth:`LayerVectors.beside`): pairs are places of layers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._lazy import figures, pd, scipy
from bertology._names import check_name
from bertology.activations.layers import Floats32, LayerVectors, type_directions, unit_vectors
from bertology.errors import CorpusError, FitError, ModelError
from bertology.geometry.text import mean_cosine
from bertology.measures import Metric, sum_metric, sums
from bertology.measures.metrics import Bounds, metric_form
from bertology.measures.sums import Floats, Integers, LayerSums

Pair = tuple[int, int]
_Groups = Mapping[str, tuple[tuple[int, ...], Sequence[Pair]]]  # by name layers, each with another
LEAST = 4  # words below which the unbiased estimate of HSIC is not defined
N_NEIGHBOURS = 10
PAIRED = 1000  # words of which all pairs are formed
_PER_DIMENSION = 12  # words for each dimension where products of dimensions are enough
_N_BLOCKS = 10
_ASKED = 1000  # words whose type is looked up by their vector


@dataclass(frozen=True)
class Measure:
    """A measure of likeness in two steps, so that the vectors of a layer are prepared once for all comparisons."""

    prepare: Callable[..., Any]  # takes the vectors, and the measure's settings
    compare: Callable[[Any, Any], float]  # symmetric: a measure that is not is the mean of both directions
    least: int  # the fewest words that it is defined for
    is_paired: bool = False  # whether all pairs of words are formed
    reorder: Callable[[Any, Integers], Any] | None = None  # brings a prepared set to another order of words
    settings: tuple[str, ...] = ()

    def n_words(self, vectors: LayerVectors) -> int:
        """The number of words that it is computed on."""
        return min(PAIRED if self.is_paired else max(4000, _PER_DIMENSION * vectors.dim), len(vectors))


def find_measure(name: str) -> Measure:
    """A measure of :data:`MEASURES`; a NameNotFoundError names the others."""
    check_name("measure of similarity", name, MEASURES)
    return MEASURES[name]


def likeness(x: ArrayLike, y: ArrayLike, *, measure: str = "cka", **settings: float) -> float:
    """Similarity of two sets of vectors of the same words.

    - ``cka``: linear centred kernel alignment, debiased, as :func:`linear_cka`; ``rbf``: the same with Gaussian kernels
      (Kornblith et al. 2019, §4): near words count, whichever direction they differ in.
    - ``rsa``: Pearson's r of the cosines of all pairs of words in both sets (Abnar et al. 2019; Merchant et al. 2020,
      §4); ``rsa_spearman``: Spearman's. All pairs of words are formed, as by ``rbf`` and the next: give some thousand
      at most.
    - ``mutual_neighbours``: mean share of a word's ten nearest neighbours by cosine that are the same in both (Huh et
      al. 2024, §2). By chance it is 10 / (n − 1).
    - ``procrustes``: ‖XᵀY‖_* / (‖X‖ ‖Y‖) of centred vectors, 0 to 1, the similarity after the best rotation; the
      squared distance of vectors scaled to length 1 is 2 − 2 times this (Schönemann 1966; Ding et al. 2021).
    - ``svcca``: mean canonical correlation of the principal components that hold 99 % of the variance (Raghu et al.
      2017); ``pwcca``: correlations weighted by how much of a set their directions account for (Morcos et al. 2018).
    - ``neuron_matching``: mean over dimensions of the largest |r| with a dimension of the other set (Wu et al. 2020,
      *maxcorr*). This and ``pwcca`` are means of both ways.

    Args:
        x: ``[word, p]``
        y: ``[word, q]`` of the same words.
        measure: one of these.
        settings: ``k`` neighbours of ``mutual_neighbours`` (10), ``variance`` of ``svcca`` (0.99), ``bandwidth`` of
            ``rbf`` in median distances of two words (0.8).

    Raises:
        NameNotFoundError: there is no such measure, or it has no such setting.
        FitError: other numbers of words, or too few, or vectors that do not vary.
    """
    chosen, a, b = find_measure(measure), np.asarray(x), np.asarray(y)
    if len(a) != len(b):
        raise FitError(f"vectors of {len(a)} and {len(b)} words cannot be compared: give those of the same words")
    for name in settings:
        check_name(f"setting of {measure}", name, chosen.settings)
    least = int(settings.get("k", N_NEIGHBOURS)) + 2 if "k" in chosen.settings else chosen.least
    if len(a) < least:
        raise FitError(f"{len(a)} words are too few to compare vectors by: give {least} or more")
    return float(chosen.compare(chosen.prepare(a, **settings), chosen.prepare(b, **settings)))


def linear_cka(x: ArrayLike, y: ArrayLike, *, debiased: bool = True) -> float:
    """Linear centred kernel alignment of vectors ``[word, p]`` and ``[word, q]`` of the same words.

    1 for vectors that differ by a rotation and a scale (Kornblith et al. 2019). The plain estimate of independent
    vectors is about p / (n + p); the debiased one, of Song et al.'s (2007) HSIC₁, is about 0 and may be negative.

    Raises:
        FitError: other numbers of words, fewer than four words, or vectors that do not vary.
    """
    value = likeness(x, y)
    if debiased:
        return value
    a, b = _centred(x), _centred(y)
    return float(((a.T @ b) ** 2).sum() / np.sqrt(((a.T @ a) ** 2).sum() * ((b.T @ b) ** 2).sum()))


def _centred(x: ArrayLike, doing: str = "") -> Floats:
    """``[word, dim]`` vectors less their mean; where ``doing`` is named an error if they do not vary."""
    array = np.asarray(x, dtype=np.float64)
    array = array - array.mean(axis=0)
    if doing and not (array**2).sum() > 0:
        raise FitError(f"vectors that do not vary {doing}: give words with different vectors")
    return np.asarray(array)


def _hsic(squared: float, norms_a: Floats, norms_b: Floats) -> float:
    """Debiased ‖XᵀY‖² of centred vectors, which equals n (n − 3) HSIC₁."""
    n = len(norms_a)
    return float(squared - n / (n - 2) * (norms_a @ norms_b) + norms_a.sum() * norms_b.sum() / ((n - 1) * (n - 2)))


_Parts = tuple[Floats, Floats, float]
"""``[word, dim]`` centred vectors, ``[word]`` their squared lengths, and their HSIC with themselves."""


def _cka_parts(x: ArrayLike) -> _Parts:
    a = _centred(x)
    norms = (a**2).sum(axis=1)
    own = _hsic(((a.T @ a) ** 2).sum(), norms, norms)
    if not own > 0:
        raise FitError("CKA of vectors that do not vary is not defined: give words with different vectors")
    return a, norms, own


def _cka(a: _Parts, b: _Parts) -> float:
    return _hsic(((a[0].T @ b[0]) ** 2).sum(), a[1], b[1]) / float(np.sqrt(a[2] * b[2]))


def _procrustes(a: Floats, b: Floats) -> float:
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.linalg.svd(a.T @ b, compute_uv=False).sum() / scale)


def _pearson(a: Floats, b: Floats) -> float:
    """Correlation of the entries above the diagonals of two square matrices."""
    above = np.triu_indices(len(a), 1)
    return float(np.corrcoef(a[above], b[above])[0, 1])


def cosines_of(vectors: NDArray[np.floating]) -> Floats:
    """``[word, word]`` cosines of all pairs of words."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def _ranked(cosines: Floats) -> Floats:
    """``[word, word]`` ranks of the cosines of pairs; equal ones have their mean. The diagonal is 0."""
    above = np.triu_indices(len(cosines), 1)
    ranks = np.zeros_like(cosines)
    ranks[above] = scipy.stats.rankdata(cosines[above])
    return np.asarray(ranks + ranks.T)


def _nearest(vectors: NDArray[np.floating], *, k: int = N_NEIGHBOURS) -> Integers:
    """``[word, k]`` the nearest other words by cosine."""
    cosines = cosines_of(vectors)
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(np.argpartition(-cosines, k, axis=1)[:, :k])


def shared_neighbours(a: Integers, b: Integers) -> Floats:
    """``[word]`` the share of neighbours in both."""
    return np.asarray((a[:, :, None] == b[:, None, :]).any(axis=2).mean(axis=1))


def _rbf_gram(x: ArrayLike, *, bandwidth: float = 0.8) -> Floats:
    """``[word, word]`` Gaussian kernel of the distances of words, with a diagonal of 0."""
    a = _centred(x)
    norms = (a**2).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * a @ a.T, 0)
    median = float(np.median(squared[np.triu_indices(len(a), 1)]))
    if not median > 0:
        raise FitError("most words have the same vector, so that their kernel is not defined: give different words")
    gram = np.exp(-squared / (2 * bandwidth**2 * median))
    np.fill_diagonal(gram, 0.0)
    return np.asarray(gram)


def gram_cka(k: Floats, m: Floats) -> float:
    """CKA of two kernels with diagonals of 0, by HSIC₁ of Song et al. (2007)."""

    def unbiased(one: Floats, other: Floats) -> float:
        n, rows, columns = len(one), one.sum(axis=1), other.sum(axis=1)
        total = rows.sum() * columns.sum() / ((n - 1) * (n - 2))
        return float((one * other).sum() + total - 2 / (n - 2) * rows @ columns)

    return float(unbiased(k, m) / np.sqrt(unbiased(k, k) * unbiased(m, m)))


def _components(x: ArrayLike, *, variance: float = 0.99) -> tuple[Floats, Floats]:
    """``[word, dim]`` centred vectors, ``[word, component]`` orthonormal scores of components with that much of it."""
    a = _centred(x, "have no canonical correlations")
    squared, axes = np.linalg.eigh(a.T @ a)
    squared, axes = np.maximum(squared[::-1], 0), axes[:, ::-1]
    n = int(np.searchsorted(np.cumsum(squared) / squared.sum(), variance - 1e-12)) + 1
    n = min(n, int((squared > squared[0] * 1e-12).sum()))
    if len(a) < 10 * n:
        remedy = f"give {10 * n} words or more, or compare by cka"
        raise FitError(f"{len(a)} words are too few for canonical correlations of {n} dimensions: {remedy}")
    return a, np.asarray(a @ (axes[:, :n] / np.sqrt(squared[:n])))


def _pwcca(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> float:
    rotation, correlations, turned = np.linalg.svd(a[1].T @ b[1], full_matrices=False)
    means = []
    for vectors, directions in ((a[0], a[1] @ rotation), (b[0], b[1] @ turned.T)):
        weights = np.abs(directions.T @ vectors).sum(axis=1)
        means.append(weights @ np.clip(correlations, 0, 1) / weights.sum())
    return float(means[0] + means[1]) / 2


def _standardised(x: ArrayLike) -> Floats:
    """``[word, dim]`` dimensions of mean 0 and length 1, without those that do not vary."""
    a = _centred(x)
    lengths = np.linalg.norm(a, axis=0)
    return np.asarray(a[:, lengths > 0] / lengths[lengths > 0])


def _matching(a: Floats, b: Floats) -> float:
    r = np.abs(a.T @ b)
    return float((r.max(axis=1).mean() + r.max(axis=0).mean()) / 2)


MEASURES: Mapping[str, Measure] = {
    "cka": Measure(_cka_parts, _cka, LEAST, reorder=lambda a, order: (a[0][order], a[1][order], a[2])),
    "procrustes": Measure(lambda x: _centred(x, "cannot be rotated onto others"), _procrustes, 2),
    "rsa": Measure(cosines_of, _pearson, 3, is_paired=True),
    "rsa_spearman": Measure(lambda x: _ranked(cosines_of(x)), _pearson, 3, is_paired=True),
    "mutual_neighbours": Measure(
        _nearest, lambda a, b: float(shared_neighbours(a, b).mean()), 3, is_paired=True, settings=("k",)
    ),
    "svcca": Measure(
        lambda x, **settings: _components(x, **settings)[1],
        lambda a, b: float(np.clip(np.linalg.svd(a.T @ b, compute_uv=False), 0, 1).mean()),
        2,
        settings=("variance",),
    ),
    "pwcca": Measure(lambda x: _components(x, variance=1.0), _pwcca, 2),
    "rbf": Measure(_rbf_gram, gram_cka, LEAST, is_paired=True, settings=("bandwidth",)),
    "neuron_matching": Measure(_standardised, _matching, 3),
}
DESCRIPTIONS: Mapping[str, str] = {
    "cka": "CKA, centred kernel alignment (100: alike up to rotation and scale; 0: unrelated)",
    "procrustes": "Procrustes similarity after the best rotation (100: alike)",
    "rsa": "RSA, Pearson's r of the cosines of all pairs of words",
    "rsa_spearman": "RSA of ranks, Spearman's ρ of the cosines of all pairs of words",
    "mutual_neighbours": "share of a word's ten nearest words that are common",
    "svcca": "mean canonical correlation of principal components (SVCCA)",
    "pwcca": "weighted mean canonical correlation (PWCCA)",
    "rbf": "CKA, centred kernel alignment, with Gaussian kernels",
    "neuron_matching": "mean of the largest |r| of a dimension with one of the other set",
}
"""What each measure compares, in percent, as notes under tables describe it."""
_DISTANCE = "Procrustes distance, 1 minus the similarity after the best rotation"


def likeness_metrics(names: Iterable[str], about: str, null: str, *, is_distance: bool = False) -> Iterator[Metric]:
    """Metrics of measures of likeness ``about`` something, and of each by chance; ``procrustes`` may be a distance."""
    shown = {name: "procrustes_distance" if is_distance and name == "procrustes" else name for name in names}
    for name, metric in shown.items():
        what = DESCRIPTIONS.get(name, name) if metric == name else _DISTANCE
        bounds: Bounds = "share" if name == "mutual_neighbours" else "none"
        yield sum_metric(metric, f"{what}, {about}", higher_is_better=metric == name, bounds=bounds)
    for metric in shown.values():
        yield sum_metric(f"{metric}_null", f"{metric_form(metric).title} of unrelated vectors: {null}")


def layer_similarity(
    vectors: LayerVectors, sentences: Integers, *, measures: Sequence[str] = ("cka",)
) -> Iterator[LayerSums]:
    """Similarities of all pairs of layers, and the distance by which a word moves from each layer to the next one read.

    Each measure of :func:`likeness` is given with the layer before, and by the group ``layer k`` with each other layer
    k; ``MEASURE_null`` is the same with the layer before, its words in random order. ``rsa``, ``rsa_spearman``,
    ``mutual_neighbours`` and ``rbf`` are of the first 1,000 words; ``svcca``, ``pwcca`` and ``neuron_matching`` of the
    first 4,000 or 12 for each dimension. Then follow ``cosine_previous`` and ``moved_previous``, ‖x − x′‖ / ‖x′‖, of a
    word's vectors x and x′ in both (Lan et al. 2020, figure 1 shows angle and distance). ``sentences`` are ``[word]``,
    ascending.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: there are fewer than two sentences, or four words.
        ModelError: a layer does not vary, or is not finite.
        FitError: fewer than ten words for each dimension, for ``svcca`` and ``pwcca``.
    """
    layers, n_layers = vectors.layers, len(vectors.layers)
    pairs = _LayerPairs(vectors, sentences, measures, list(combinations(range(n_layers), 2)), "layers")
    if n_layers < 2:
        return
    groups = {"": (layers[1:], [(place + 1, place) for place in range(n_layers - 1)])}
    for other, layer in enumerate(layers):
        places = [place for place in range(n_layers) if place != other]
        groups[f"layer {layer}"] = tuple(layers[place] for place in places), [(place, other) for place in places]
    for measure in measures:
        yield from pairs.statistics(measure, groups)
    values = np.zeros((2, n_layers - 1, len(vectors)))
    for items, chunk in vectors.chunks():
        lengths = np.maximum(np.sqrt(np.einsum("lwd,lwd->lw", chunk, chunk)), 1e-30)
        values[0][:, items] = np.einsum("lwd,lwd->lw", chunk[:-1], chunk[1:]) / (lengths[:-1] * lengths[1:])
        change = chunk[1:] - chunk[:-1]
        values[1][:, items] = np.sqrt(np.einsum("lwd,lwd->lw", change, change)) / lengths[:-1]
    for name, of_words in zip(("cosine_previous", "moved_previous"), values, strict=True):
        yield sums.mean_sums(name, of_words, pairs.clusters, layers=layers[1:])


def model_similarity(
    vectors: LayerVectors,
    reference: LayerVectors,
    sentences: Integers,
    *,
    layers: Sequence[Pair],
    measures: Sequence[str] = ("cka",),
) -> Iterator[LayerSums]:
    """Similarities of the layers of two models, over the same words; widths and numbers of layers may differ.

    Each measure is given as by :func:`layer_similarity`, of ``cka`` by the group ``reference layer k`` also with each
    layer of the reference, and its null with the words of the reference in random order. ``procrustes`` is a distance,
    ``procrustes_distance`` = 1 − ``procrustes``: half the squared distance after the best rotation of vectors of length
    1 in all (Schönemann 1966; Ding et al. 2021).

    Args:
        vectors: vectors of the words of a text.
        reference: vectors of the same words in the other model.
        sentences: ``[word]`` the sentence of each, ascending.
        layers: each layer of ``vectors``, and the layer of ``reference`` that it is compared with.
        measures: of :func:`likeness`.

    Raises:
        BertologyError: as :func:`layer_similarity`; or the words are not the same.
    """
    n_own = len(vectors.layers)
    matched = [(vectors.layers.index(a), n_own + reference.layers.index(b)) for a, b in layers]
    crossed = [(a, n_own + b) for a, b in np.ndindex(n_own, len(reference.layers))]
    every = crossed if "cka" in measures else matched
    pairs = _LayerPairs(vectors.beside(reference), sentences, measures, every, "models")
    own = {"": (tuple(layer for layer, _ in layers), matched)}
    with_each = {
        f"reference layer {layer}": (vectors.layers, [(a, n_own + place) for a in range(n_own)])
        for place, layer in enumerate(reference.layers)
    }
    for measure in measures:
        yield from pairs.statistics(measure, own | with_each if measure == "cka" else own, is_distance=True)


class _LayerPairs:
    """Pairs of layers, by their places, whose vectors of the same words are compared."""

    def __init__(
        self, vectors: LayerVectors, sentences: Integers, measures: Sequence[str], pairs: Sequence[Pair], what: str
    ) -> None:
        for measure in measures:
            find_measure(measure)
        _, clusters = np.unique(sentences, return_inverse=True)
        if len(vectors) < LEAST or clusters[-1] < 1:
            raise CorpusError(f"{len(vectors)} words of one sentence are too few to compare {what} by: give more text")
        self.vectors, self.clusters, self._pairs = vectors, np.asarray(clusters), pairs

    def statistics(self, measure: str, groups: _Groups, *, is_distance: bool = False) -> Iterator[LayerSums]:
        """A measure of the pairs of layers of each group, and the null of those of none; procrustes as a distance."""
        distinct = list(dict.fromkeys((min(pair), max(pair)) for _, some in groups.values() for pair in some))
        layers, pairs = groups[""]
        kind: sums.Clusters = "sentences"
        if measure == "cka":
            found = self._cka(distinct)
        elif measure == "procrustes":
            found = self._procrustes(distinct)
        elif measure in ("rsa", "rsa_spearman", "mutual_neighbours"):
            found = self._sampled(measure, distinct)
        else:
            without, kind = left_out(find_measure(measure), self.vectors, self.clusters, distinct), "blocks"
            found = {pair: (float(values[0]), values[0] - values[1:]) for pair, values in without.items()}
        name, null = measure, null_likeness(find_measure(measure), self.vectors, pairs)
        if measure == "procrustes" and is_distance:
            name, null = "procrustes_distance", 1 - null
            found = {pair: (1 - value, -influences) for pair, (value, influences) in found.items()}
        for group, (of_group, some) in groups.items():
            values, influences = zip(*(found[min(pair), max(pair)] for pair in some), strict=True)
            yield sums.jackknife_sums(name, np.array(values), np.stack(influences), kind, group=group, layers=of_group)
        yield sums.ratio_sums(f"{name}_null", null[:, None], None, "blocks", layers=layers)

    @cached_property
    def _means(self) -> Floats32:
        """Means ``[layer, 1, dim]`` of all words."""
        totals = np.zeros((len(self.vectors.layers), self.vectors.dim))
        for _, chunk in self.vectors.chunks():
            totals += chunk.sum(axis=1, dtype=np.float64)
        means = (totals / len(self.vectors)).astype(np.float32)
        if not np.isfinite(means).all():
            layer = self.vectors.layers[int(np.flatnonzero(~np.isfinite(means).all(axis=1))[0])]
            raise ModelError(f"layer {layer}: vectors are not finite: compute in float32, or give another model")
        return means[:, None]

    @cached_property
    def _products(self) -> tuple[Mapping[Pair, Floats32], Floats]:
        """``[dim, dim]`` XᵀY of centred vectors by pair, each layer with itself among them; ``[layer, word]`` ‖x‖²."""
        dim, n_layers = self.vectors.dim, len(self.vectors.layers)
        needed = [*((place, place) for place in range(n_layers)), *self._pairs]
        cross = {pair: np.zeros((dim, dim), dtype=np.float32) for pair in needed}
        norms = np.zeros((n_layers, len(self.vectors)))
        for items, chunk in self.vectors.chunks():
            centred = chunk - self._means
            norms[:, items] = (centred**2).sum(axis=2, dtype=np.float64)
            for a, b in cross:
                cross[a, b] += centred[a].T @ centred[b]
        return cross, norms

    def _quadratic(self, matrices: Mapping[Pair, Floats32]) -> dict[Pair, Floats]:
        """``[word]`` xᵀ M y of the centred vectors of each word in two layers."""
        found = {pair: np.zeros(len(self.vectors)) for pair in matrices}
        for items, chunk in self.vectors.chunks():
            centred = chunk - self._means
            for (a, b), matrix in matrices.items():
                found[a, b][items] = np.einsum("wd,wd->w", centred[a] @ matrix, centred[b])
        return found

    def _cka(self, pairs: Sequence[Pair]) -> dict[Pair, tuple[float, Floats]]:
        (cross, norms), n = self._products, len(self.vectors)
        squared = {
            (a, b): _hsic(float((matrix.astype(np.float64) ** 2).sum()), norms[a], norms[b])
            for (a, b), matrix in cross.items()
        }
        for place, layer in enumerate(self.vectors.layers):
            if not squared[place, place] > 0:
                problem = "words do not differ in their vectors, so that no other layer is like it"
                raise ModelError(f"layer {layer}: {problem}")
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

    def _procrustes(self, pairs: Sequence[Pair]) -> dict[Pair, tuple[float, Floats]]:
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

    def _sampled(self, measure: str, pairs: Sequence[Pair]) -> dict[Pair, tuple[float, Floats]]:
        """The measures of the first words that follow from pairs of them."""
        prepared = [MEASURES[measure].prepare(self.vectors.of(layer)[:PAIRED]) for layer in self.vectors.layers]
        off = ~np.eye(len(prepared[0]), dtype=bool)
        if measure != "mutual_neighbours":
            for place, matrix in enumerate(prepared):
                scores = np.where(off, matrix - matrix[off].mean(), 0.0)
                prepared[place] = scores / np.sqrt((scores**2).sum())
        found = {}
        for a, b in pairs:
            x, y = prepared[a], prepared[b]
            if measure == "mutual_neighbours":
                shared = shared_neighbours(x, y)
                value = float(shared.mean())
                by_word = (shared - value) / len(shared)
            else:
                value = float((x * y).sum())
                # Derivative of a correlation over pairs by the weight of each, in two places of which a word is.
                by_word = 2 * (x * y - value / 2 * (x**2 + y**2)).sum(axis=1)
            clusters = self.clusters[: len(by_word)]
            found[a, b] = value, sums.cluster_sums(by_word, clusters, int(self.clusters[-1]) + 1)[0]
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
        for a, b in found:
            # Measures are symmetric: each two layers are compared once.
            is_known = a > b and (b, a) in found
            found[a, b].append(found[b, a][-1] if is_known else float(measure.compare(parts[a], parts[b])))
    return {pair: np.array(values) for pair, values in found.items()}


def null_likeness(measure: Measure, vectors: LayerVectors, pairs: Sequence[Pair]) -> Floats:
    """``[pair]`` likeness by chance of pairs of layers, the words of the second of which are in random order."""
    n = measure.n_words(vectors)
    order = np.random.default_rng(0).permutation(n)
    # Where a layer is compared with one other, no more than two are in memory.
    size = 2 if len(pairs) <= len(vectors.layers) else None

    @lru_cache(size)
    def prepared(place: int) -> Any:
        return measure.prepare(vectors.of(vectors.layers[place])[:n])

    @lru_cache(size)
    def shuffled(place: int) -> Any:
        if measure.reorder:
            return measure.reorder(prepared(place), order)
        return measure.prepare(vectors.of(vectors.layers[place])[:n][order])

    # The second is prepared first: of neighbouring layers it is the first of the pair before.
    compared = ((shuffled(second), prepared(first)) for first, second in pairs)
    return np.array([float(measure.compare(one, other)) for other, one in compared])


@dataclass(frozen=True, eq=False)
class LayerMatrix:
    """The likeness of the layers of two models, or of one with itself."""

    measure: str
    layers_a: tuple[int, ...]
    layers_b: tuple[int, ...]
    values: Floats  # [layer a, layer b]
    ci_low: Floats  # [layer a, layer b] lower ends of 95 % intervals, by the jackknife over ten blocks of sentences
    ci_high: Floats  # [layer a, layer b] upper ends
    null: Floats  # [layer a, layer b] the same with the words of b in random order
    n_words: int  # number of words that were compared

    def to_pandas(self) -> "pd.DataFrame":
        """A data frame: a row for each pair of layers."""
        pairs = pd.MultiIndex.from_product([self.layers_a, self.layers_b], names=["layer_a", "layer_b"])
        columns = {"value": self.values, "ci_low": self.ci_low, "ci_high": self.ci_high, "null": self.null}
        return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=pairs).reset_index()

    def plot(self, *, title: str | None = None) -> "figures.ShownFigure":
        """A heatmap with the layers of a on the vertical axis, from the bottom up, and those of b on the other."""
        from bertology.encoders import LabelledArray
        from bertology.results.figures import plot_head

        labels = {"from": list(map(str, self.layers_a[::-1])), "to": list(map(str, self.layers_b))}
        shades = LabelledArray(np.clip(self.values[::-1], 0, None).astype(np.float32), labels, {})
        return plot_head(shades, title=title or f"{self.measure} of layers", label=self.measure)


def compare_layers(
    vectors_a: LayerVectors, vectors_b: LayerVectors, sentences: Integers, *, measure: str = "cka"
) -> LayerMatrix:
    """Similarities of the layers of two models, over the same words: all layers of one by all of the other.

    The models may be pretrained and random weights, two seeds, or one before and after fine-tuning; ``vectors_a``
    itself as ``vectors_b`` compares a model's own layers. Vectors may differ in width, but for ``procrustes``, which
    then rotates the narrower into the wider. Words, whose ``sentences`` ascend, are the first 4,000 or 12 for each
    dimension; 1,000 for measures of pairs of words.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: other words, or words of fewer than three sentences.
        FitError: words are too few for the measure.
    """
    chosen, (both, pairs) = find_measure(measure), _beside(vectors_a, vectors_b)
    if len(both) != len(sentences):
        raise CorpusError(f"{len(sentences)} sentences of {len(both)} words: give the sentence of each word")
    n = chosen.n_words(both)
    _, clusters = np.unique(sentences[:n], return_inverse=True)
    if len(clusters) < LEAST or clusters[-1] < 2:
        raise CorpusError(f"{n} words of fewer than three sentences are too few to compare layers by: give more text")
    shape = len(vectors_a.layers), len(vectors_b.layers)
    every = np.stack(list(left_out(chosen, both, clusters, pairs).values())).reshape(*shape, -1)
    values, without = every[..., 0], every[..., 1:]
    n_blocks = without.shape[2]
    spread = ((without - without.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    reach = scipy.special.stdtrit(n_blocks - 1, 0.975) * np.sqrt(spread * (n_blocks - 1) / n_blocks)
    null = null_likeness(chosen, both, pairs).reshape(shape)
    return LayerMatrix(measure, vectors_a.layers, vectors_b.layers, values, values - reach, values + reach, null, n)


def _beside(a: LayerVectors, b: LayerVectors) -> tuple[LayerVectors, list[Pair]]:
    """The layers of two models as those of one, and all pairs of a layer of each."""
    first = 0 if b is a else len(a.layers)
    pairs = [(own, first + other) for own, other in np.ndindex(len(a.layers), len(b.layers))]
    return a if b is a else a.beside(b), pairs


def most_alike(vectors_a: LayerVectors, vectors_b: LayerVectors, *, measure: str = "cka") -> tuple[Pair, ...]:
    """Each layer of a model with the layer of another most like it over the same words, of equals the lowest."""
    chosen, (both, _) = find_measure(measure), _beside(vectors_a, vectors_b)
    n, n_b = chosen.n_words(both), len(vectors_b.layers)
    parts_b = [chosen.prepare(both.of(layer)[:n]) for layer in both.layers[-n_b:]]
    found = []
    for layer, place in zip(vectors_a.layers, both.layers, strict=False):
        part = chosen.prepare(both.of(place)[:n])
        found.append((layer, vectors_b.layers[int(np.argmax([chosen.compare(part, one) for one in parts_b]))]))
    return tuple(found)


def moves_from_reference(
    vectors: LayerVectors, reference: LayerVectors, sentences: Integers, *, layers: Sequence[Pair]
) -> Iterator[LayerSums]:
    """Mean cosine of all pairs of words in both models (anisotropy; Ethayarajh 2019, §3.3), and how far words moved.

    Intervals of anisotropy leave out one sentence after the other (jackknife). Of models of one width a word's vector
    is compared with that of the reference, dimension by dimension, which means something where one was trained on from
    the other.
    """
    vectors.check_same_words(reference)
    _, clusters, counts = np.unique(sentences, return_inverse=True, return_counts=True)
    starts = np.append(0, counts.cumsum()[:-1])

    @lru_cache
    def cosine(is_reference: bool, layer: int) -> tuple[float, Floats]:
        unit = unit_vectors((reference if is_reference else vectors).of(layer), layer).astype(np.float64)
        return mean_cosine(np.add.reduceat(unit, starts), counts)

    def measure(layer: int, other: int) -> Iterator[LayerSums]:
        (own, of_own), (theirs, of_theirs) = cosine(False, layer), cosine(True, other)
        yield sums.jackknife_sums("anisotropy", own, of_own)
        yield sums.jackknife_sums("anisotropy_reference", theirs, of_theirs)
        yield sums.jackknife_sums("anisotropy_change", own - theirs, of_own - of_theirs)
        if vectors.dim == reference.dim:
            x, y = vectors.of(layer), reference.of(other)
            cosines = np.einsum("wd,wd->w", unit_vectors(x, layer), unit_vectors(y, other))
            yield sums.mean_sums("cosine_reference", cosines, clusters)
            yield sums.mean_sums("moved_reference", np.linalg.norm(x - y, axis=1) / np.linalg.norm(y, axis=1), clusters)

    return sums.by_layer((layer, measure(layer, other)) for layer, other in layers)


def identity(vectors: LayerVectors, types: Integers, sentences: Integers) -> Iterator[LayerSums]:
    """The share of words that a layer still tells: those found by their vector among the word types of layer 0.

    The nearest mean vector of a type by cosine is looked up for 1,000 words, both layers less their mean (after Voita
    et al. 2019, who measure what a layer knows of its input token). By chance it is one over the number of types.
    """
    if 0 not in vectors.layers:
        return
    _, types = np.unique(types, return_inverse=True)
    asked = np.sort(np.random.default_rng(0).permutation(len(vectors))[:_ASKED])
    embedded = vectors.of(0)
    means = type_directions(embedded - embedded.mean(axis=0), types)
    _, clusters = np.unique(sentences[asked], return_inverse=True)

    def measure(_: int, of_layer: Floats32) -> Iterator[LayerSums]:
        # Lengths do not matter to which type is nearest.
        nearest = ((of_layer[asked] - of_layer.mean(axis=0)) @ means.T).argmax(axis=1)
        yield sums.mean_sums("identity", nearest == types[asked], clusters)

    yield from vectors.statistics(measure)
