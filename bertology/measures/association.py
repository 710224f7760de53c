"""Association tests of vectors: effect size and permutation test of WEAT (Caliskan et al. 2017)."""

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import scipy

Floats = NDArray[np.float64]
SETS = ("target_x", "target_y", "attribute_a", "attribute_b")
"""The sets of an association test."""
_MOST_PARTITIONS = 100_000


def associations(targets: Floats, a: Floats, b: Floats) -> Floats:
    """``[target]`` mean cosine with the attributes ``a`` minus that with ``b``; all are ``[vector, dim]``."""
    unit = [some / np.linalg.norm(some, axis=1, keepdims=True) for some in (targets, a, b)]
    return np.asarray((unit[0] @ unit[1].T).mean(1) - (unit[0] @ unit[2].T).mean(1))


def effect_size(x: Floats, y: Floats) -> float:
    """The effect size d of associations ``[target]`` of two sets: the difference of their means in standard deviations
    (n − 1) of all targets, between −2 and 2; NaN where all are the same."""
    spread = np.std([*x, *y], ddof=1)
    return float((x.mean() - y.mean()) / spread) if spread > 1e-12 else np.nan


def association_p(x: Floats, y: Floats, a: Floats, b: Floats, *, seed: int = 0) -> float:
    """The one-sided p-value of four sets of ``[vector, dim]``: the share of divisions of the targets into two sets of
    these sizes with as large a difference, of all where they are 100,000 or fewer, else of so many random ones."""
    of_x, of_y = associations(x, a, b), associations(y, a, b)
    found = scipy.stats.permutation_test(
        (of_x, of_y),
        lambda one, other, axis: one.mean(axis=axis) - other.mean(axis=axis),
        vectorized=True,
        n_resamples=_MOST_PARTITIONS,
        batch=1000,
        alternative="greater",
        random_state=np.random.default_rng(seed),  # its name in all versions of scipy from 1.13 on
    )
    return float(found.pvalue)


def left_out_effects(x: Floats, y: Floats, a: Floats, b: Floats) -> Floats:
    """``[1 + vector]`` the effect size of all vectors, and without each, in the order of the sets."""
    sets, values = [x, y, a, b], []
    for number, index in [(0, None), *((one, index) for one, some in enumerate(sets) for index in range(len(some)))]:
        some = list(sets)
        if index is not None:
            some[number] = np.delete(sets[number], index, axis=0)
        values.append(effect_size(associations(some[0], *some[2:]), associations(some[1], *some[2:])))
    return np.array(values)
