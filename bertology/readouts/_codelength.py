"""How short labels can be told to someone who has the vectors: what every codelength has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.readouts._base import Targets, item_weights

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Codelength:
    """How many bits the training labels take, given the vectors (Voita & Titov 2020, section 3).

    All lengths are in bits, of the items that a problem uses.
    """

    method: Literal["online", "variational"]
    item_bits: float
    """What an item takes where nothing is known: log2 K, or K where it may have any number of the K classes."""
    cluster_bits: Floats
    """``[problem, layer, cluster]`` labels of each cluster's items, which hold its part of the model too where that is
    told apart: sums over clusters are ``bits``."""
    cluster_items: Numbers
    """``[problem, cluster]`` how many items those are."""
    block_bits: Floats
    """``[problem, layer, block]`` labels coded between two fits, the first block by the uniform code; one block for a
    variational code, without the model."""
    block_items: Numbers
    """``[problem, block]`` how many items those are."""
    model_bits: Floats
    """``[problem, layer]`` the model itself: 0 for an online code, which sends none."""

    @property
    def bits(self) -> Floats:
        """``[problem, layer]`` the whole message."""
        return np.asarray(self.block_bits.sum(axis=2) + self.model_bits)

    @property
    def uniform_bits(self) -> Floats:
        """``[problem]`` what the labels take where nothing is known: n · log2 K."""
        return np.asarray(self.block_items.sum(axis=1) * self.item_bits)

    @property
    def uniform_cluster_bits(self) -> Floats:
        """``[problem, cluster]`` the same for each cluster; over ``cluster_bits``, compression by resampling."""
        return np.asarray(self.cluster_items * self.item_bits)

    @property
    def compression(self) -> Floats:
        """``[problem, layer]`` uniform code over this one: 1 where the vectors are of no help, higher is better."""
        return np.asarray(self.uniform_bits[:, None] / self.bits)


def number_clusters(clusters: NDArray[np.integer] | None, n_items: int) -> tuple[Numbers, int]:
    """``[item]`` cluster of each item and how many there are; each item its own when ``clusters`` are left out.

    Raises:
        FitError: the clusters are not one number, 0 or more, for each item.
    """
    if clusters is None:
        return np.arange(n_items), n_items
    numbers = np.asarray(clusters)
    if numbers.shape != (n_items,) or numbers.dtype.kind not in "iu" or (n_items and numbers.min() < 0):
        raise FitError(
            f"clusters have shape {list(numbers.shape)} of {numbers.dtype}: give {n_items} numbers of 0 or more, "
            "the sentence of each item"
        )
    return numbers.astype(np.int64), int(numbers.max(initial=-1)) + 1


def check_codable(targets: Targets) -> None:
    """Raise :class:`FitError` where items would have to be coded several times, or not wholly."""
    if targets.weights is not None and not np.isin(targets.weights, (0, 1)).all():
        raise FitError("a code tells each item once: leave weights out; another seed takes another order instead")
    if uniform_item_bits(targets) == 0:
        raise FitError(f"there is nothing to tell of {targets.n_classes} class: give labels of at least two")


def uniform_item_bits(targets: Targets) -> float:
    """Bits of one item's label under the uniform code."""
    return float(targets.n_classes if targets.is_multi_label else np.log2(targets.n_classes))


def coded_items(targets: Targets) -> NDArray[np.bool_]:
    """``[problem, item]`` whether an item's label is coded."""
    return item_weights(targets) > 0


def sum_by(groups: Numbers, values: Floats, n_groups: int) -> Floats:
    """Values ``[problem, layer, item]`` summed over the items of each group: ``[problem, layer, group]``."""
    sums = np.empty((*values.shape[:2], n_groups))
    for place in np.ndindex(values.shape[:2]):
        sums[place] = np.bincount(groups, weights=values[place], minlength=n_groups)
    return sums


def count_by(groups: Numbers, used: NDArray[np.bool_], n_groups: int) -> Numbers:
    """How many items of each group are ``used [problem, item]``: ``[problem, group]``."""
    counts = [np.bincount(groups[row], minlength=n_groups) for row in used]
    return np.stack(counts).astype(np.int64)
