"""Likeness of two sets of vectors of the same words: each measure in two steps, preparing a set and comparing two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._names import name_not_found
from bertology.activations.layers import LayerVectors
from bertology.errors import FitError
from bertology.measures.sums import Floats, Integers

LEAST = 4
"""Words below which the unbiased estimate of HSIC is not defined."""
N_NEIGHBOURS = 10
PAIRED = 1000
"""Words of which all pairs are formed."""
_PER_DIMENSION = 12
"""Words for each dimension where products of dimensions are enough."""


@dataclass(frozen=True)
class Measure:
    """A measure of likeness in two steps, so that the vectors of a layer are prepared once for all comparisons."""

    prepare: Callable[..., Any]
    """Takes the vectors, and the measure's settings."""
    compare: Callable[[Any, Any], float]
    """Symmetric: a measure that is not is the mean of both directions."""
    least: int
    """The fewest words that it is defined for."""
    is_paired: bool = False
    """Whether all pairs of words are formed."""
    reorder: Callable[[Any, Integers], Any] | None = None
    """Brings a prepared set to another order of words; it is prepared again where there is none."""
    settings: tuple[str, ...] = ()

    def n_words(self, vectors: LayerVectors) -> int:
        """The number of words that it is computed on."""
        return min(PAIRED if self.is_paired else max(4000, _PER_DIMENSION * vectors.dim), len(vectors))


def find_measure(name: str) -> Measure:
    """A measure of :data:`MEASURES`; a NameNotFoundError names the others."""
    if name not in MEASURES:
        raise name_not_found("measure of similarity", name, MEASURES)
    return MEASURES[name]


def likeness(x: ArrayLike, y: ArrayLike, *, measure: str = "cka", **settings: float) -> float:
    """How alike two sets of vectors of the same words are.

    - ``cka``: linear centred kernel alignment, debiased, as :func:`linear_cka`.
    - ``rbf``: the same with Gaussian kernels (Kornblith et al. 2019, §4): near words count, whichever direction they
      differ in. All pairs of words are formed, as by the next three: give some thousand at most.
    - ``rsa``: Pearson's r of the cosines of all pairs of words in both sets (Abnar et al. 2019; Merchant et al. 2020,
      §4); ``rsa_spearman``: Spearman's, which asks for the same order of likeness alone.
    - ``mutual_neighbours``: mean share of a word's ten nearest neighbours by cosine that are the same in both (Huh et
      al. 2024, §2). By chance it is 10 / (n − 1).
    - ``procrustes``: ‖XᵀY‖_* / (‖X‖ ‖Y‖) of centred vectors, 0 to 1, the similarity after the best rotation. The
      squared Procrustes distance of vectors scaled to length 1 is 2 − 2 times this (Schönemann 1966; Ding et al. 2021
      find it to follow a model's behaviour best).
    - ``svcca``: mean canonical correlation of the principal components that hold 99 % of the variance (Raghu et al.
      2017); ``pwcca``: canonical correlations weighted by how much of a set their directions account for (Morcos et al.
      2018), mean of the weights of both.
    - ``neuron_matching``: mean over dimensions of the largest |r| with a dimension of the other set (Wu et al. 2020,
      *maxcorr*), mean of both ways.

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
        if name not in chosen.settings:
            raise name_not_found(f"setting of {measure}", name, chosen.settings)
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
    a, b = centred(x), centred(y)
    return float(((a.T @ b) ** 2).sum() / np.sqrt(((a.T @ a) ** 2).sum() * ((b.T @ b) ** 2).sum()))


def hsic(squared: float, norms_a: Floats, norms_b: Floats) -> float:
    """‖XᵀY‖² of centred vectors, debiased: s(X, Y), of which n (n − 3) HSIC₁ is the value."""
    n = len(norms_a)
    return float(squared - n / (n - 2) * (norms_a @ norms_b) + norms_a.sum() * norms_b.sum() / ((n - 1) * (n - 2)))


def _cka_parts(x: ArrayLike) -> tuple[Floats, Floats, float]:
    """``[word, dim]`` centred vectors, ``[word]`` their squared lengths, and their HSIC with themselves."""
    a = centred(x)
    norms = (a**2).sum(axis=1)
    own = hsic(((a.T @ a) ** 2).sum(), norms, norms)
    if not own > 0:
        raise FitError("CKA of vectors that do not vary is not defined: give words with different vectors")
    return a, norms, own


def _cka(a: tuple[Floats, Floats, float], b: tuple[Floats, Floats, float]) -> float:
    return hsic(((a[0].T @ b[0]) ** 2).sum(), a[1], b[1]) / float(np.sqrt(a[2] * b[2]))


def _cka_reordered(a: tuple[Floats, Floats, float], order: Integers) -> tuple[Floats, Floats, float]:
    return a[0][order], a[1][order], a[2]


def _procrustes(a: Floats, b: Floats) -> float:
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    if not scale > 0:
        raise FitError("vectors that do not vary cannot be rotated onto others: give words with different vectors")
    return float(np.linalg.svd(a.T @ b, compute_uv=False).sum() / scale)


def _pearson(a: Floats, b: Floats) -> float:
    """Correlation of the entries above the diagonals of two square matrices."""
    above = np.triu_indices(len(a), 1)
    return float(np.corrcoef(a[above], b[above])[0, 1])


def ranked(cosines: Floats) -> Floats:
    """``[word, word]`` ranks of the cosines of pairs; equal ones have their mean. The diagonal is 0."""
    from scipy.stats import rankdata

    above = np.triu_indices(len(cosines), 1)
    ranks = np.zeros_like(cosines)
    ranks[above] = rankdata(cosines[above])
    return np.asarray(ranks + ranks.T)


def rbf_gram(x: ArrayLike, *, bandwidth: float = 0.8) -> Floats:
    """``[word, word]`` Gaussian kernel of the distances of words, with a diagonal of 0."""
    a = centred(x)
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


def _components(a: Floats, variance: float) -> Floats:
    """``[word, component]`` orthonormal scores of the components that hold a share of the variance."""
    squared, axes = np.linalg.eigh(a.T @ a)
    squared, axes = np.maximum(squared[::-1], 0), axes[:, ::-1]
    if not squared[0] > 0:
        raise FitError("vectors that do not vary have no canonical correlations: give words with different vectors")
    n = int(np.searchsorted(np.cumsum(squared) / squared.sum(), variance - 1e-12)) + 1
    n = min(n, int((squared > squared[0] * 1e-12).sum()))
    if len(a) < 10 * n:
        remedy = f"give {10 * n} words or more, or compare by cka"
        raise FitError(f"{len(a)} words are too few for canonical correlations of {n} dimensions: {remedy}")
    return np.asarray(a @ (axes[:, :n] / np.sqrt(squared[:n])))


def _svcca_part(x: ArrayLike, *, variance: float = 0.99) -> Floats:
    """``[word, component]`` scores of the components that hold a share of the variance."""
    return _components(centred(x), variance)


def _svcca(a: Floats, b: Floats) -> float:
    return float(np.clip(np.linalg.svd(a.T @ b, compute_uv=False), 0, 1).mean())


def _pwcca_parts(x: ArrayLike) -> tuple[Floats, Floats]:
    """``[word, dim]`` centred vectors, and ``[word, component]`` their orthonormal scores."""
    a = centred(x)
    return a, _components(a, 1.0)


def _pwcca(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> float:
    rotation, correlations, turned = np.linalg.svd(a[1].T @ b[1], full_matrices=False)
    means = []
    for vectors, directions in ((a[0], a[1] @ rotation), (b[0], b[1] @ turned.T)):
        weights = np.abs(directions.T @ vectors).sum(axis=1)
        means.append(weights @ np.clip(correlations, 0, 1) / weights.sum())
    return float(means[0] + means[1]) / 2


def _standardised(x: ArrayLike) -> Floats:
    """``[word, dim]`` dimensions of mean 0 and length 1, without those that do not vary."""
    a = centred(x)
    lengths = np.linalg.norm(a, axis=0)
    return np.asarray(a[:, lengths > 0] / lengths[lengths > 0])


def _matching(a: Floats, b: Floats) -> float:
    r = np.abs(a.T @ b)
    return float((r.max(axis=1).mean() + r.max(axis=0).mean()) / 2)


def centred(x: ArrayLike) -> Floats:
    """``[word, dim]`` vectors less their mean."""
    array = np.asarray(x, dtype=np.float64)
    return np.asarray(array - array.mean(axis=0))


def cosines_of(vectors: NDArray[np.floating]) -> Floats:
    """``[word, word]`` cosines of all pairs of words."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def nearest(vectors: NDArray[np.floating], *, k: int = N_NEIGHBOURS) -> Integers:
    """``[word, k]`` the nearest other words by cosine."""
    cosines = cosines_of(vectors)
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(np.argpartition(-cosines, k, axis=1)[:, :k])


def shared_neighbours(a: Integers, b: Integers) -> Floats:
    """``[word]`` the share of neighbours in both."""
    return np.asarray((a[:, :, None] == b[:, None, :]).any(axis=2).mean(axis=1))


MEASURES: Mapping[str, Measure] = {
    "cka": Measure(_cka_parts, _cka, LEAST, reorder=_cka_reordered),
    "procrustes": Measure(centred, _procrustes, 2),
    "rsa": Measure(cosines_of, _pearson, 3, is_paired=True),
    "rsa_spearman": Measure(lambda x: ranked(cosines_of(x)), _pearson, 3, is_paired=True),
    "mutual_neighbours": Measure(
        nearest, lambda a, b: shared_neighbours(a, b).mean(), 3, is_paired=True, settings=("k",)
    ),
    "svcca": Measure(_svcca_part, _svcca, 2, settings=("variance",)),
    "pwcca": Measure(_pwcca_parts, _pwcca, 2),
    "rbf": Measure(rbf_gram, gram_cka, LEAST, is_paired=True, settings=("bandwidth",)),
    "neuron_matching": Measure(_standardised, _matching, 3),
}
