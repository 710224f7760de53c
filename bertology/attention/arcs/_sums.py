"""Sums over a whole text by cluster of sentences, of what needs no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.attention._ratios import Floats, HeadRatios
from bertology.corpora import Sentences

Integers = NDArray[np.int64]


def text_ratios(
    names: tuple[str, ...],
    sentences: Sentences,
    of_sentence: Integers,
    groups: Integers,
    over: Floats,
    under: Floats,
    *,
    metric: str,
) -> HeadRatios:
    """Ratios of the whole text, in the clusters in which those of heads are.

    Args:
        names: of the groups.
        sentences: the text.
        of_sentence: ``[item]`` number of its sentence.
        groups: ``[item]`` place in ``names``.
        over: ``[item]``
        under: ``[item]``
        metric: what the ratios are called.
    """
    # Scope says which sentences share a cluster; its module needs torch, which this one should not at import.
    from bertology.attention._batch import Scope

    scope = Scope(len(sentences), (), 0, "word")
    places = groups * scope.n_clusters + scope.clusters(of_sentence)
    shape, n = (len(names), 1, 1, scope.n_clusters), len(names) * scope.n_clusters
    sums = np.zeros((2, n))
    for total, values in zip(sums, (over, under), strict=True):
        np.add.at(total, places, values)
    return HeadRatios(names, (), sums[0].reshape(shape), sums[1].reshape(shape), metric, "model")
