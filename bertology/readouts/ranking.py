"""Rankings of the dimensions of vectors by what each tells of a label, and how many of the best two rankings share.

Three methods that Antverg & Belinkov (2022), *On the Pitfalls of Analyzing Individual Neurons in Language Models*,
compare: the weights of a linear readout (Dalvi et al. 2019), differences of class means (their *Probeless*), and the
greedy choice of dimensions for Gaussian classes (Torroba Hennigen et al. 2020).
"""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from bertology._lazy import scipy
from bertology._names import check_name
from bertology.errors import FitError
from bertology.readouts._base import FittedReadout, Floats, Integers, Targets, get_readout
from bertology.readouts._sources import ArrayFeatures

Ranking = Literal["linear", "probeless", "gaussian"]
RANKINGS: tuple[str, ...] = get_args(Ranking)
_MOST_ITEMS = 2_000
"""Items that the greedy choice is made on at most, drawn at random: each step computes all items, classes and
dimensions."""
_PRIOR_ITEMS = 1.0
"""Number of items that the prior of each class counts as: uncorrelated dimensions of the variance of all items."""


def rank_by_weights(weights: Floats) -> Integers:
    """``[dim]`` dimensions by the weights ``[class, dim]`` of a linear readout, best first (Dalvi et al. 2019).

    The weights of a class are sorted by size. A dimension ranks by the share of the sum that larger weights hold, in
    the class where that is least: the first are those with the largest weight of some class. It is the order of
    ``get_neuron_ordering`` of NeuroX with steps of no width.
    """
    sizes = np.abs(np.asarray(weights, dtype=np.float64))
    sizes = sizes[sizes.any(axis=1)]
    if not len(sizes):
        raise FitError("all weights are 0: no dimension is better than another")
    shares = sizes / sizes.sum(axis=1, keepdims=True)
    order = np.argsort(-shares, axis=1, kind="stable")
    by_size = np.take_along_axis(shares, order, axis=1)
    held = np.empty_like(shares)
    np.put_along_axis(held, order, by_size.cumsum(axis=1) - by_size, axis=1)
    best = held.argmin(axis=0)
    columns = np.arange(shares.shape[1])
    return np.lexsort((-shares[best, columns], held[best, columns])).astype(np.int64)


def rank_by_means(means: Floats) -> Integers:
    """``[dim]`` dimensions by the sum of |difference| of all pairs of class means ``[class, dim]`` (*Probeless*)."""
    differences = np.abs(means[:, None] - means[None]).sum(axis=(0, 1))
    return np.argsort(-differences, kind="stable").astype(np.int64)


def rank_by_gaussians(vectors: Floats, labels: Integers, *, k: int) -> Integers:
    """``[dim]`` dimensions of vectors ``[item, dim]``, of which the first ``k`` are chosen one after the other.

    Each next dimension is that with which normal distributions of the classes give the labels the highest
    log-probability, given the dimensions chosen before (Torroba Hennigen et al. 2020, section 3); the covariance of a
    class is its own, with a weak prior. Dimensions that are not chosen follow by what they give alone. Conditional
    distributions are updated as in a Cholesky decomposition, so that a step costs one pass over items and classes.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    frequency = np.bincount(codes)
    n_items, dim = vectors.shape
    spread = vectors.std(axis=0)
    values = (vectors - vectors.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    centred = [values - values[codes == one].mean(axis=0) for one in range(len(classes))]
    own = [centred[one][codes == one] for one in range(len(classes))]
    counted = frequency + _PRIOR_ITEMS
    # Of each class the variances [dim] given what is chosen, the columns [dim, chosen] of the Cholesky factor, the
    # innovations [item, chosen], and the log-densities [item] of what is chosen with the log-frequency of the class.
    variance = [((rows**2).sum(axis=0) + _PRIOR_ITEMS) / n for rows, n in zip(own, counted, strict=True)]
    factors = [np.zeros((dim, 0)) for _ in classes]
    innovations = [np.zeros((n_items, 0)) for _ in classes]
    log_density = [np.full(n_items, np.log(n / n_items)) for n in frequency]
    chosen: list[int] = []
    alone = np.zeros(dim)
    while len(chosen) < k:
        total, of_label = np.full((n_items, dim), -np.inf), np.zeros((n_items, dim))
        for one in range(len(classes)):
            left = centred[one] - innovations[one] @ factors[one].T
            found = log_density[one][:, None] - (left**2 / variance[one] + np.log(variance[one])) / 2
            total = np.logaddexp(total, found)
            of_label[codes == one] = found[codes == one]
        gain = (of_label - total).mean(axis=0)
        alone = alone if chosen else gain
        gain[chosen] = -np.inf
        new = int(gain.argmax())
        chosen.append(new)
        for one in range(len(classes)):
            left = centred[one][:, new] - innovations[one] @ factors[one][new]
            deviation = np.sqrt(variance[one][new])
            covariance = own[one].T @ own[one][:, new] / counted[one]
            covariance[new] += _PRIOR_ITEMS / counted[one]
            column = (covariance - factors[one] @ factors[one][new]) / deviation
            log_density[one] = log_density[one] - (left / deviation) ** 2 / 2 - np.log(deviation)
            innovations[one] = np.column_stack([innovations[one], left / deviation])
            factors[one] = np.column_stack([factors[one], column])
            variance[one] = np.maximum(variance[one] - column**2, np.finfo(np.float64).tiny)
    others = np.argsort(-alone, kind="stable")
    return np.concatenate([chosen, others[~np.isin(others, chosen)]]).astype(np.int64)


def class_means(vectors: Floats, labels: Integers, n_classes: int) -> Floats:
    """``[class, dim]`` means of vectors ``[item, dim]`` by their label, −1 for none; NaN of a class without items."""
    used = labels >= 0
    is_of = np.arange(n_classes)[:, None] == labels[used]
    n = is_of.sum(axis=1, keepdims=True).astype(np.float64)
    return np.asarray(is_of.astype(np.float64) @ vectors[used] / np.where(n > 0, n, np.nan))


def rank_dimensions(
    vectors: ArrayFeatures,
    targets: Targets,
    *,
    dev: ArrayFeatures,
    dev_targets: Targets,
    ranking: Ranking,
    k: int,
    fitted: FittedReadout | None = None,
) -> Integers:
    """``[layer, dim]`` the dimensions of each layer, those that tell most of a label first.

    Args:
        vectors: ``[layer, item, dim]`` those of train.
        targets: their labels, of one problem.
        dev: vectors and, as ``dev_targets``, labels that the strength of a linear readout is chosen on.
        ranking: ``linear``, by weights for dimensions of one standard deviation; ``probeless``; or ``gaussian``.
        k: number of dimensions that are asked for, 1 or more and at most the width.
        fitted: the linear readout of these vectors and labels, where there is one already.

    Raises:
        FitError: ``k`` does not fit, or train has not two labels.
        NameNotFoundError: no such ranking.
    """
    check_name("ranking of dimensions", ranking, RANKINGS)
    labels, n_classes = np.asarray(targets.labels)[0], targets.n_classes
    check_k(k, vectors.dim)
    if len(np.unique(labels[labels >= 0])) < 2:
        raise FitError("dimensions are ranked by labels that differ: train has fewer than two")
    every = [vectors.held(place).double().cpu().numpy() for place in range(vectors.n_layers)]
    if ranking == "linear":
        readout: Any = fitted or get_readout("linear").fit(vectors, targets, dev=dev, dev_targets=dev_targets)
        weights = readout.model.coefficients[0, :, 0].double().cpu().numpy()  # [layer, class, dim]
        spread = [of_layer[labels >= 0].std(axis=0) for of_layer in every]
        return np.stack([rank_by_weights(one * by) for one, by in zip(weights, spread, strict=True)])
    if ranking == "probeless":
        means = [class_means(of_layer, labels, n_classes) for of_layer in every]
        return np.stack([rank_by_means(one[np.isfinite(one).all(axis=1)]) for one in means])
    used = np.flatnonzero(labels >= 0)
    if len(used) > _MOST_ITEMS:
        used = np.sort(np.random.default_rng(0).permutation(used)[:_MOST_ITEMS])
    return np.stack([rank_by_gaussians(of_layer[used], labels[used], k=k) for of_layer in every])


def check_k(k: int, dim: int) -> None:
    """Raise a FitError for a number of dimensions that a vector of ``dim`` does not have."""
    if not 1 <= k <= dim:
        raise FitError(f"the best {k} dimensions: vectors have {dim}: give k from 1 to {dim}")


class Overlap(NamedTuple):
    """How many dimensions two sets share."""

    shared: int
    expected: float
    """Number that two random sets of these sizes share on average."""
    p: float
    """Probability that two random sets share as many or more (hypergeometric distribution)."""


def overlap(first: Integers, second: Integers, dim: int) -> Overlap:
    """The overlap of two sets of dimensions of vectors of ``dim``."""
    shared, sizes = len(np.intersect1d(first, second)), (len(first), len(second))
    p = float(scipy.stats.hypergeom.sf(shared - 1, dim, *sizes))
    return Overlap(shared, sizes[0] * sizes[1] / dim, p)
