"""Likeness of two sets of vectors of the same words: each measure a plain function of two arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.errors import FitError
from bertology.geometry._sums import Floats, Integers

LEAST = 4
"""Words below which the unbiased estimate of HSIC is not defined."""
N_NEIGHBOURS = 10


def linear_cka(x: ArrayLike, y: ArrayLike, *, debiased: bool = True) -> float:
    """Linear centred kernel alignment of vectors ``[word, p]`` and ``[word, q]`` of the same words.

    1 for vectors that differ by a rotation and a scale (Kornblith et al. 2019). The plain estimate of independent
    vectors is about p / (n + p); the debiased one, of Song et al.'s (2007) HSIC₁, is about 0 and may be negative.

    Raises:
        FitError: fewer than four words, or vectors that do not vary.
    """
    a, b = centred(x), centred(y)
    _check_rows(a, b, LEAST)
    cross, own_a, own_b = (
        hsic(((left.T @ right) ** 2).sum(), (left**2).sum(axis=1), (right**2).sum(axis=1), debiased=debiased)
        for left, right in ((a, b), (a, a), (b, b))
    )
    if not (own_a > 0 and own_b > 0):
        raise FitError("CKA of vectors that do not vary is not defined: give words with different vectors")
    return float(cross / np.sqrt(own_a * own_b))


def cka_parts(x: ArrayLike) -> tuple[Floats, Floats, float]:
    """``[word, dim]`` centred vectors, ``[word]`` their squared lengths, and their HSIC with themselves."""
    a = centred(x)
    norms = (a**2).sum(axis=1)
    own = hsic(((a.T @ a) ** 2).sum(), norms, norms)
    if not own > 0:
        raise FitError("CKA of vectors that do not vary is not defined: give words with different vectors")
    return a, norms, own


def reordered_parts(a: tuple[Floats, Floats, float], order: Integers) -> tuple[Floats, Floats, float]:
    """:func:`cka_parts` of the words in another order."""
    return a[0][order], a[1][order], a[2]


def parts_cka(a: tuple[Floats, Floats, float], b: tuple[Floats, Floats, float]) -> float:
    """Debiased :func:`linear_cka` of :func:`cka_parts`."""
    return float(hsic(((a[0].T @ b[0]) ** 2).sum(), a[1], b[1]) / np.sqrt(a[2] * b[2]))


def hsic(squared: float, norms_a: Floats, norms_b: Floats, *, debiased: bool = True) -> float:
    """‖XᵀY‖² of centred vectors, debiased: s(X, Y), of which n (n − 3) HSIC₁ is the value."""
    if not debiased:
        return float(squared)
    n = len(norms_a)
    return float(squared - n / (n - 2) * (norms_a @ norms_b) + norms_a.sum() * norms_b.sum() / ((n - 1) * (n - 2)))


def procrustes(x: ArrayLike, y: ArrayLike) -> float:
    """Similarity of two sets of vectors after the best rotation: ‖XᵀY‖_* / (‖X‖ ‖Y‖) of centred vectors, 0 to 1.

    The squared Procrustes distance of vectors scaled to length 1 is 2 − 2 times this (Schönemann 1966; Ding et al.
    2021 find it to follow a model's behaviour best). ``x`` is ``[word, p]``, ``y`` ``[word, q]``.

    Raises:
        FitError: other numbers of words, or vectors that do not vary.
    """
    a, b = centred(x), centred(y)
    _check_rows(a, b, 2)
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    if not scale > 0:
        raise FitError("vectors that do not vary cannot be rotated onto others: give words with different vectors")
    return float(np.linalg.svd(a.T @ b, compute_uv=False).sum() / scale)


def rsa(x: ArrayLike, y: ArrayLike) -> float:
    """Representational similarity: Pearson's r of the cosines of all pairs of words in both sets of vectors.

    As Abnar et al. (2019) and Merchant et al. (2020, §4). ``x`` is ``[word, p]``, ``y`` ``[word, q]``.
    """
    a, b = cosines_of(np.asarray(x)), cosines_of(np.asarray(y))
    _check_rows(a, b, 3)
    above = np.triu_indices(len(a), 1)
    return float(np.corrcoef(a[above], b[above])[0, 1])


def rsa_spearman(x: ArrayLike, y: ArrayLike) -> float:
    """:func:`rsa` by Spearman's rank correlation, which asks for the same order of likeness alone."""
    a, b = cosines_of(np.asarray(x)), cosines_of(np.asarray(y))
    _check_rows(a, b, 3)
    above = np.triu_indices(len(a), 1)
    return float(np.corrcoef(ranked(a)[above], ranked(b)[above])[0, 1])


def ranked(cosines: Floats) -> Floats:
    """``[word, word]`` ranks of the cosines of pairs; of equals their mean. The diagonal is 0."""
    from scipy.stats import rankdata

    above = np.triu_indices(len(cosines), 1)
    ranks = np.zeros_like(cosines)
    ranks[above] = rankdata(cosines[above])
    return np.asarray(ranks + ranks.T)


def mutual_neighbours(x: ArrayLike, y: ArrayLike, *, k: int = N_NEIGHBOURS) -> float:
    """Mean share of a word's ``k`` nearest neighbours (by cosine) that are the same in both sets of vectors.

    Huh et al. (2024), §2. By chance it is k / (n − 1).

    Raises:
        FitError: there are not more words than neighbours.
    """
    a, b = np.asarray(x), np.asarray(y)
    _check_rows(a, b, k + 2)
    return float(shared_neighbours(nearest(a, k), nearest(b, k)).mean())


def rbf_cka(x: ArrayLike, y: ArrayLike, *, bandwidth: float = 0.8) -> float:
    """Centred kernel alignment with Gaussian kernels, debiased as :func:`linear_cka` (Kornblith et al. 2019, §4).

    Near words count, whichever direction they differ in. All pairs of words are formed: give some thousand at most.

    Args:
        x: ``[word, p]``
        y: ``[word, q]`` of the same words.
        bandwidth: of the kernels, in median distances of two words.

    Raises:
        FitError: fewer than four words, or vectors that do not vary.
    """
    a, b = centred(x), centred(y)
    _check_rows(a, b, LEAST)
    return gram_cka(rbf_gram(a, bandwidth=bandwidth), rbf_gram(b, bandwidth=bandwidth))


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


def svcca(x: ArrayLike, y: ArrayLike, *, variance: float = 0.99) -> float:
    """Mean canonical correlation of the principal components that hold 99 % of the variance (Raghu et al. 2017).

    Raises:
        FitError: fewer than ten words for each component, with which correlations are high by chance.
    """
    return float(canonical(*(_components(centred(part), variance) for part in (x, y)))[0].mean())


def svcca_parts(x: ArrayLike) -> Floats:
    """``[word, component]`` what :func:`canonical` compares for :func:`svcca`."""
    return _components(centred(x), 0.99)


def pwcca(x: ArrayLike, y: ArrayLike) -> float:
    """Canonical correlations weighted by how much of ``x`` their directions account for (Morcos et al. 2018).

    Not symmetric: weights are those of ``x``. Raises as :func:`svcca`.
    """
    return _weighted(pwcca_parts(x), pwcca_parts(y))


def pwcca_parts(x: ArrayLike) -> tuple[Floats, Floats]:
    """``[word, dim]`` centred vectors, and ``[word, component]`` their orthonormal scores."""
    a = centred(x)
    return a, _components(a, 1.0)


def projected(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> float:
    """The mean of :func:`pwcca` both ways, of :func:`pwcca_parts`."""
    return (_weighted(a, b) + _weighted(b, a)) / 2


def _weighted(x: tuple[Floats, Floats], y: tuple[Floats, Floats]) -> float:
    correlations, directions = canonical(x[1], y[1])
    weights = np.abs(directions.T @ x[0]).sum(axis=1)
    return float(weights @ correlations / weights.sum())


def neuron_matching(x: ArrayLike, y: ArrayLike) -> float:
    """Mean over dimensions of ``x`` of the largest |r| with a dimension of ``y`` (Wu et al. 2020, *maxcorr*)."""
    a, b = np.asarray(x), np.asarray(y)
    _check_rows(a, b, 3)
    return float(np.abs(standardised(a).T @ standardised(b)).max(axis=1).mean())


def standardised(x: ArrayLike) -> Floats:
    """``[word, dim]`` dimensions of mean 0 and length 1, without those that do not vary."""
    a = centred(x)
    lengths = np.linalg.norm(a, axis=0)
    return np.asarray(a[:, lengths > 0] / lengths[lengths > 0])


def matching(a: Floats, b: Floats) -> float:
    """The mean of :func:`neuron_matching` both ways, of :func:`standardised` vectors."""
    r = np.abs(a.T @ b)
    return float((r.max(axis=1).mean() + r.max(axis=0).mean()) / 2)


def centred(x: ArrayLike) -> Floats:
    """``[word, dim]`` vectors less their mean."""
    array = np.asarray(x, dtype=np.float64)
    return np.asarray(array - array.mean(axis=0))


def _check_rows(a: NDArray[np.floating], b: NDArray[np.floating], least: int) -> None:
    if len(a) != len(b):
        raise FitError(f"vectors of {len(a)} and {len(b)} words cannot be compared: give those of the same words")
    if len(a) < least:
        raise FitError(f"{len(a)} words are too few to compare vectors by: give {least} or more")


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


def canonical(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Canonical correlations, and the canonical directions ``[word, component]`` of the first set."""
    _check_rows(a, b, 2)
    rotation, correlations, _ = np.linalg.svd(a.T @ b, full_matrices=False)
    return np.clip(correlations, 0, 1), a @ rotation


def cosines_of(vectors: NDArray[np.floating]) -> Floats:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def nearest(vectors: NDArray[np.floating], k: int) -> Integers:
    """``[word, k]`` the nearest other words by cosine."""
    cosines = cosines_of(vectors)
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(np.argpartition(-cosines, k, axis=1)[:, :k])


def shared_neighbours(a: Integers, b: Integers) -> Floats:
    """``[word]`` the share of neighbours in both."""
    return np.asarray((a[:, :, None] == b[:, None, :]).any(axis=2).mean(axis=1))
