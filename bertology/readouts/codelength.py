"""Codelength of labels given vectors: the variational and the online code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.measures.baselines import fraction_mask
from bertology.measures.sums import cluster_sums
from bertology.readouts import _base
from bertology.readouts._neural import FittedBayes
from bertology.readouts._sources import AnySource, FeatureSource, SpanSource, in_memory, subset

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as parts of the training items (Voita & Titov 2020)."""
SMOOTHING = (1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0)
"""Parts of the probability that may be spread evenly over all classes."""
_MEMORY = 1 << 30


@dataclass(frozen=True)
class Codelength:
    """Number of bits of the training labels, given the vectors (Voita & Titov 2020, section 3).

    All lengths are in bits, of the items that a problem uses.
    """

    method: Literal["online", "variational"]
    item_bits: float
    """Bits of an item under the uniform code: log2 K, or K where it may have any number of the K classes."""
    cluster_bits: _base.Floats
    """``[problem, layer, cluster]`` labels of each cluster's items, which hold its part of the model too where that is
    told apart: sums over clusters are ``bits``."""
    cluster_items: _base.Integers
    """``[problem, cluster]`` number of coded items."""
    block_bits: _base.Floats
    """``[problem, layer, block]`` labels coded between two fits, the first block by the uniform code; one block for a
    variational code, without the model."""
    block_items: _base.Integers
    """``[problem, block]`` number of coded items."""
    model_bits: _base.Floats
    """``[problem, layer]`` bits of the model: 0 for an online code, which transmits none."""

    @property
    def bits(self) -> _base.Floats:
        """``[problem, layer]`` the whole message."""
        return np.asarray(self.block_bits.sum(axis=2) + self.model_bits)

    @property
    def uniform_bits(self) -> _base.Floats:
        """``[problem]`` bits of the labels under the uniform code: n · log2 K."""
        return np.asarray(self.block_items.sum(axis=1) * self.item_bits)

    @property
    def compression(self) -> _base.Floats:
        """``[problem, layer]`` uniform code over this one: 1 where the vectors are of no help; higher is better."""
        return np.asarray(self.uniform_bits[:, None] / self.bits)


def _number_clusters(clusters: NDArray[np.integer] | None, n_items: int) -> tuple[_base.Integers, int]:
    """``[item]`` cluster of each item and how many there are; each item its own when ``clusters`` are left out."""
    numbers = np.asarray(np.arange(n_items) if clusters is None else clusters, dtype=np.int64)
    return numbers, int(numbers.max(initial=-1)) + 1


def _uniform_item_bits(targets: _base.Targets) -> float:
    """Bits of an item under the uniform code; FitError for items with weights."""
    if targets.weights is not None and not np.isin(targets.weights, (0, 1)).all():
        raise FitError("a code tells each item once: leave weights out; another seed takes another order instead")
    return float(targets.n_classes if targets.is_multi_label else np.log2(targets.n_classes))


def _sum_by(groups: _base.Integers, values: NDArray[Any], n_groups: int) -> NDArray[Any]:
    """Values ``[…, item]`` summed over the items of each group: ``[…, group]``; of truth values their number."""
    sums = cluster_sums(values.reshape(-1, values.shape[-1]), groups, n_groups).reshape(*values.shape[:-1], n_groups)
    return sums.astype(np.int64) if values.dtype == np.bool_ else sums


def variational_codelength(
    readout: _base.Readout,
    train: FeatureSource,
    targets: _base.Targets,
    *,
    dev: FeatureSource,
    dev_targets: _base.Targets,
    clusters: NDArray[np.integer] | None = None,
    **settings: Any,
) -> Codelength:
    """Variational codelength of every problem in every layer (Voita & Titov 2020, section 3.2.1).

    The message holds a posterior over the readout's weights and the training labels given weights drawn from it. The
    log-uniform prior is improper, so that the model's part is known up to a constant, which is chosen so that a scale
    without information costs 0 bits (Molchanov et al. 2017). The model's part is shared out over the items in
    ``cluster_bits``. Arguments that are not named here are those of :meth:`Readout.fit`.

    Args:
        readout: what is fitted; the fit has to have a posterior over its weights.
        dev: vectors of other items, on which nothing depends.
        clusters: ``[item]`` number of the sentence that a training item stands in; the items themselves if left out.

    Raises:
        FitError: as :meth:`Readout.fit`; items with weights; or a readout without a posterior.
    """
    _uniform_item_bits(targets)
    fitted = readout.fit(train, targets, dev=dev, dev_targets=dev_targets, **settings)
    if not isinstance(fitted, FittedBayes):
        raise FitError(f"{readout.name} has no variational code: choose readout bayes, or the online code")
    return codelength_of(fitted, train, targets, clusters=clusters)


def codelength_of(
    fitted: FittedBayes, train: FeatureSource, targets: _base.Targets, *, clusters: NDArray[np.integer] | None = None
) -> Codelength:
    """The result of :func:`variational_codelength` for a readout that is fitted, on the items it was fitted to."""
    _base.check_agreement(train, targets, "train")
    numbers, n_clusters = _number_clusters(clusters, train.n_items)
    used = targets.item_weights() > 0  # [problem, item]
    bits = np.where(used[:, None], -fitted.sampled_log_probs(train, targets.labels.astype(np.int64)) / np.log(2), 0.0)
    cluster_items = _sum_by(numbers, used, n_clusters)
    block_items = cluster_items.sum(axis=1, keepdims=True)
    model_bits, share = fitted.model_bits, cluster_items / block_items
    return Codelength(
        method="variational",
        item_bits=_uniform_item_bits(targets),
        cluster_bits=_sum_by(numbers, bits, n_clusters) + model_bits[:, :, None] * share[:, None],
        cluster_items=cluster_items,
        block_bits=bits.sum(axis=2, keepdims=True),
        block_items=block_items,
        model_bits=model_bits,
    )


def online_codelength(
    readout: _base.Readout,
    train: AnySource,
    targets: _base.Targets,
    *,
    dev: AnySource,
    dev_targets: _base.Targets,
    clusters: NDArray[np.integer] | None = None,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    progress: _base.Progress | None = None,
    **settings: Any,
) -> Codelength:
    """Online (prequential) codelength of every problem in every layer (Voita & Titov 2020, section 3.2.2).

    The training data are put in a random order and cut into blocks. The first block takes log2 K bits an item, each
    later one what a readout fitted to all blocks before it gives to its labels. A short code needs a readout that is
    good and that was good early, so that it weighs quality against the effort of reaching it.

    A readout gives no probability to classes that it has not seen yet, and early ones are too sure of themselves. So
    labels are coded by a mixture: the readout's probability times 1 − ε, plus ε / K. It sums to 1 over the K classes
    whatever ε is, and ε is chosen among ``SMOOTHING`` for each fit by the dev labels, which both sides of the code are
    taken to know, as is the strength (in the paper: when to stop). Where an item may have any number of the K classes,
    the uniform code takes K bits an item, and the mixture is over all 2ᴷ sets. A block before which a problem has
    shown fewer than two classes is coded uniformly. Every problem chooses its strength for itself, whatever its
    strength source. Arguments that are not named here are as in :meth:`Readout.fit`.

    Args:
        readout: what is fitted; it has to give probabilities.
        dev: vectors of other items, by which strengths and ε are chosen.
        clusters: ``[item]`` number of the sentence that a training item stands in. Whole sentences are shuffled, so
            that no readout has seen the neighbours of what it codes; single items, as in the paper, if left out.
        fractions: where blocks end, as rising parts of the items; the last is 1.
        seed: of the order and of the fits.

    Raises:
        FitError: as :meth:`Readout.fit`; items with weights; a readout without probabilities.
    """
    _base.check_problems(train, targets, dev, dev_targets)
    uniform = _uniform_item_bits(targets)
    numbers, n_clusters = _number_clusters(clusters, train.n_items)
    used = targets.item_weights() > 0
    ends, is_used = np.asarray(fractions, dtype=np.float64), np.asarray(used.any(axis=0))
    planned = np.sum([~fraction_mask(numbers[is_used], end, seed=seed) for end in ends.tolist()], axis=0)
    # in few data, no sentence begins between two ends that are close to each other: there is no such block
    kept, block = np.unique(planned, return_inverse=True)
    n_blocks, blocks = len(kept), np.full(len(numbers), -1, dtype=np.int64)  # [item] −1 where it is not used
    blocks[is_used] = block

    def bits_of(seen: NDArray[np.bool_], now: NDArray[np.bool_]) -> _base.Floats:
        """``[problem, layer, item]`` of the items that are coded ``now``, after those that were ``seen``: 0 if unused.

        One layer stands for all where nothing could be fitted.
        """
        bits = np.where(used[:, now], uniform, 0.0)[:, None]
        known = targets.only(items=seen)
        n_known = np.count_nonzero(known.class_weights(), axis=1)
        able = np.flatnonzero((n_known > (0 if known.is_multi_label else 1)) & used[:, now].any(axis=1))
        if not len(able):
            return bits
        able_dev: Any = dev_targets.only(able)
        before: Any = subset(train, seen)
        if not isinstance(before, SpanSource):  # readouts of spans keep what they need themselves
            before = in_memory(before, device=torch.device("cpu"), memory=_MEMORY)
        given: dict[str, Any] = {"seed": seed, "progress": progress, **settings}
        fitted = readout.fit(before, known.only(able), dev=dev, dev_targets=able_dev, **given)
        on_dev, on_now = able_dev.item_weights() > 0, used[able][:, now]
        smoothing = choose_smoothing(label_log_probs(fitted, dev, able_dev, on_dev), on_dev, uniform)
        log_probs = label_log_probs(fitted, subset(train, now), targets.only(able, now), on_now)
        bits = np.repeat(bits, log_probs.shape[1], axis=1)
        bits[able] = np.where(on_now[:, None], code_bits(log_probs, smoothing, uniform), 0.0)
        return bits

    by_cluster, by_block = [], []
    for number in range(n_blocks):
        now = blocks == number
        if progress is not None:
            progress(f"online code: block {number + 1} of {n_blocks}, {np.count_nonzero(now)} items")
        bits = bits_of((blocks >= 0) & (blocks < number), now)
        by_cluster.append(_sum_by(numbers[now], bits, n_clusters))
        by_block.append(bits.sum(axis=2))
    # what nothing was fitted to is the same in every layer
    block_bits = np.stack(np.broadcast_arrays(*by_block), axis=2)
    return Codelength(
        method="online",
        item_bits=uniform,
        cluster_bits=np.sum(np.broadcast_arrays(*by_cluster), axis=0),
        cluster_items=_sum_by(numbers, used, n_clusters),
        block_bits=block_bits,
        block_items=_sum_by(np.maximum(blocks, 0), used, n_blocks),
        model_bits=np.zeros(block_bits.shape[:2]),
    )


def label_log_probs(
    fitted: _base.FittedReadout, source: Any, targets: _base.Targets, used: NDArray[np.bool_]
) -> _base.Floats:
    """``[problem, layer, item]`` log-probability of the labels, 0 where none is used; FitError if there is none."""
    labels: Any = targets.labels
    log_probs = np.where(used[:, None], fitted.log_probs(source, labels), 0.0)
    if np.isnan(log_probs).any():
        raise FitError(f"readout {fitted.name} gives no probabilities: choose one that does, such as linear.v1")
    return log_probs


def code_bits(log_probs: _base.Floats, smoothing: _base.Floats, uniform: float) -> _base.Floats:
    """Code length of labels in bits under the readout mixed with the uniform code, whose weight is ``smoothing``."""
    part = np.asarray(smoothing)[..., None]
    with np.errstate(divide="ignore"):  # of 1 − ε = 0, nothing is left, and of no probability nothing
        mixed = np.logaddexp(np.log1p(-part) + log_probs, np.log(part) - uniform * np.log(2))
    return np.asarray(-mixed / np.log(2))


def choose_smoothing(log_probs: _base.Floats, used: NDArray[np.bool_], uniform: float) -> _base.Floats:
    """``[problem, layer]`` which of ``SMOOTHING`` gives the shortest code of the items ``used [problem, item]``."""
    each = [code_bits(log_probs, np.full(log_probs.shape[:2], smoothing), uniform) for smoothing in SMOOTHING]
    total = [np.where(used[:, None], bits, 0.0).sum(axis=2) for bits in each]
    return np.asarray(np.array(SMOOTHING)[np.stack(total).argmin(axis=0)])
