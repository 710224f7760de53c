"""The variational code: a readout's posterior, and the labels given what is drawn from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.readouts._base import Progress, Targets, check_agreement
from bertology.readouts._bayes import BayesReadout, FittedBayes
from bertology.readouts._codelength import (
    Codelength,
    check_codable,
    coded_items,
    count_by,
    number_clusters,
    sum_by,
    uniform_item_bits,
)
from bertology.readouts._features import FeatureSource


def variational_codelength(
    readout: BayesReadout,
    train: FeatureSource,
    targets: Targets,
    *,
    dev: FeatureSource,
    dev_targets: Targets,
    clusters: NDArray[np.integer] | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Codelength:
    """Variational codelength of every problem in every layer (Voita & Titov 2020, section 3.2.1).

    The message holds a posterior over the readout's weights and the training labels given weights drawn from it. The
    log-uniform prior has no finite mass, so that the model's part is known up to a constant, which is chosen to make
    a scale of which nothing is known free (Molchanov et al. 2017).

    Args:
        readout: what is fitted.
        train: vectors of the items whose labels are coded.
        targets: the labels; items of −1 are left out.
        dev: vectors of other items, on which nothing depends.
        dev_targets: the same problems over ``dev``.
        clusters: ``[item]`` number of the sentence that a training item stands in; the items themselves if left out.
        seed: of the fit.
        device: where to compute, as torch names it.
        progress: told how far the fit has come.

    Returns:
        The codelength; the model's part is shared out over the items in ``cluster_bits``.

    Raises:
        FitError: as :meth:`Readout.fit`; or items with weights.
    """
    check_codable(targets)
    fitted = readout.fit(train, targets, dev=dev, dev_targets=dev_targets, seed=seed, device=device, progress=progress)
    return codelength_of(fitted, train, targets, clusters=clusters)


def codelength_of(
    fitted: FittedBayes, train: FeatureSource, targets: Targets, *, clusters: NDArray[np.integer] | None = None
) -> Codelength:
    """What :func:`variational_codelength` returns, of a readout fitted already, on what it was fitted to."""
    check_agreement(train, targets, "train")
    check_codable(targets)
    numbers, n_clusters = number_clusters(clusters, train.n_items)
    used = coded_items(targets)
    labels = targets.labels.astype(np.int64)
    bits = np.where(used[:, None], -fitted.sampled_log_probs(train, labels) / np.log(2), 0.0)
    cluster_items = count_by(numbers, used, n_clusters)
    block_items = cluster_items.sum(axis=1, keepdims=True)
    share = cluster_items / block_items
    return Codelength(
        method="variational",
        item_bits=uniform_item_bits(targets),
        cluster_bits=sum_by(numbers, bits, n_clusters) + fitted.model_bits[:, :, None] * share[:, None],
        cluster_items=cluster_items,
        block_bits=bits.sum(axis=2, keepdims=True),
        block_items=block_items,
        model_bits=fitted.model_bits,
    )
