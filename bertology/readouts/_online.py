"""The online code: labels told block by block, each by a readout fitted to all blocks before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology._nested import share_before
from bertology.errors import FitError
from bertology.readouts._base import FittedReadout, Progress, Readout, Targets, check_problems
from bertology.readouts._codelength import (
    Codelength,
    Floats,
    Numbers,
    check_codable,
    coded_labels,
    count_by,
    number_clusters,
    sum_by,
)
from bertology.readouts._features import FeatureSource
from bertology.readouts._subset import SubsetFeatures, held

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Where blocks end, as parts of the training items (Voita & Titov 2020)."""
DOUBTS = (1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0)
"""What part of the probability may be spread evenly over all classes."""
_MEMORY = 1 << 30


def online_codelength(
    readout: Readout,
    train: FeatureSource,
    targets: Targets,
    *,
    dev: FeatureSource,
    dev_targets: Targets,
    clusters: NDArray[np.integer] | None = None,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Codelength:
    """Online (prequential) codelength of every problem in every layer (Voita & Titov 2020, section 3.2.2).

    The training data are put in a random order and cut into blocks. The first block takes log2 K bits an item, each
    later one what a readout fitted to all blocks before it gives to its labels. A short code needs a readout that is
    good and that was good early, so that it weighs quality against the effort of reaching it.

    Whole sentences are shuffled, so that no readout has seen the neighbours of what it codes; where ``clusters`` are
    left out, single items are, as in the paper.

    A readout gives no probability to classes that it has not seen yet, and early ones are too sure of themselves. So
    labels are coded by a mixture: the readout's probability times 1 − ε, plus ε / K. It sums to 1 over the K classes
    whatever ε is, and ε is chosen among ``DOUBTS`` for each fit by the dev labels, which both sides of the code are
    taken to know, as is the strength (in the paper: when to stop). A block before which a problem has shown fewer than
    two classes takes log2 K bits an item, too. Every problem chooses its strength for itself, whatever its leader.

    Args:
        readout: what is fitted; it has to give probabilities.
        train: vectors of the items whose labels are coded.
        targets: the labels; items of −1 are left out.
        dev: vectors of other items, by which strengths and ε are chosen.
        dev_targets: the same problems over ``dev``.
        clusters: ``[item]`` number of the sentence that a training item stands in.
        fractions: where blocks end, as parts of the items; the last is 1.
        seed: of the order and of the fits.
        device: where to compute, as torch names it.
        progress: told how far the code has come.

    Raises:
        FitError: as :meth:`Readout.fit`; items with weights; a readout without probabilities; fractions that do not
            rise to 1.
    """
    check_problems(train, targets, dev, dev_targets)
    check_codable(targets)
    numbers, n_clusters = number_clusters(clusters, train.n_items)
    labels = coded_labels(targets)
    blocks, n_blocks = _blocks(numbers, labels, fractions, seed=seed)
    coder = _Coder(readout, train, targets, labels, dev, dev_targets, seed, device, progress)
    cluster_bits = np.zeros((targets.n_problems, train.n_layers, n_clusters))
    block_bits = np.zeros((targets.n_problems, train.n_layers, n_blocks))
    for number in range(n_blocks):
        now = blocks == number
        if progress is not None:
            progress(f"online code: block {number + 1} of {n_blocks}, {np.count_nonzero(now)} items")
        found = coder.bits((blocks >= 0) & (blocks < number), now)
        cluster_bits += sum_by(numbers[now], found, n_clusters)
        block_bits[:, :, number] = found.sum(axis=2)
    return Codelength(
        method="online",
        n_classes=targets.n_classes,
        cluster_bits=cluster_bits,
        cluster_items=count_by(numbers, labels, n_clusters),
        block_bits=block_bits,
        block_items=count_by(np.maximum(blocks, 0), labels, n_blocks),
        model_bits=np.zeros(block_bits.shape[:2]),
    )


def _blocks(clusters: Numbers, labels: Numbers, fractions: Sequence[float], *, seed: int) -> tuple[Numbers, int]:
    """``[item]`` the block of each item, −1 where no problem uses it, and how many blocks there are."""
    ends = np.asarray(fractions, dtype=np.float64)
    if not len(ends) or ends[0] <= 0 or ends[-1] != 1 or (np.diff(ends) <= 0).any():
        raise FitError(f"fractions are {list(fractions)}: give rising numbers above 0, of which the last is 1")
    used = (labels >= 0).any(axis=0)
    planned = np.searchsorted(ends, share_before(clusters[used], seed=seed), side="right")
    # in few data, no sentence begins between two ends that are close to each other: there is no such block
    kept, block = np.unique(planned, return_inverse=True)
    blocks = np.full(len(clusters), -1, dtype=np.int64)
    blocks[used] = block
    return blocks, len(kept)


@dataclass(frozen=True)
class _Coder:
    """Codes labels of some items by what others have shown."""

    readout: Readout
    train: FeatureSource
    targets: Targets
    labels: Numbers
    dev: FeatureSource
    dev_targets: Targets
    seed: int
    device: str
    progress: Progress | None

    def bits(self, seen: NDArray[np.bool_], now: NDArray[np.bool_]) -> Floats:
        """``[problem, layer, item]`` of the items that are coded ``now``, after those that were ``seen``: 0 if unused.

        Args:
            seen: ``[item]``
            now: ``[item]``
        """
        coded = self.labels[:, now]
        uniform = np.where(coded >= 0, np.log2(self.targets.n_classes), 0.0)
        bits = np.repeat(uniform[:, None], self.train.n_layers, axis=1)
        known = self.labels[:, seen]
        several = np.array([len(np.unique(row[row >= 0])) > 1 for row in known])
        able = np.flatnonzero(several & (coded >= 0).any(axis=1))
        if not len(able):
            return bits
        names = tuple(self.targets.name(problem) for problem in able.tolist())
        dev_targets = self.dev_targets.only(able)
        fitted = self.readout.fit(
            held(SubsetFeatures(self.train, seen), memory=_MEMORY),
            Targets(known[able], self.targets.n_classes, names=names),
            dev=self.dev,
            dev_targets=dev_targets,
            seed=self.seed,
            device=self.device,
            progress=self.progress,
        )
        dev_labels = coded_labels(dev_targets)
        doubt = choose_doubt(_log_probs(fitted, self.dev, dev_labels), dev_labels, self.targets.n_classes)
        log_probs = _log_probs(fitted, SubsetFeatures(self.train, now), coded[able])
        found = code_bits(log_probs, doubt[..., None], self.targets.n_classes)
        bits[able] = np.where((coded[able] >= 0)[:, None], found, 0.0)
        return bits


def _log_probs(fitted: FittedReadout, source: FeatureSource, labels: Numbers) -> Floats:
    """``[problem, layer, item]`` log-probability of the labels, 0 where there is none."""
    used = (labels >= 0)[:, None]
    found = np.where(used, fitted.log_probs(source, labels), 0.0)
    if np.isnan(found).any():
        raise FitError(f"readout {fitted.name} gives no probabilities: choose one that does, such as linear.v1")
    return found


def code_bits(log_probs: Floats, doubt: Floats, n_classes: int) -> Floats:
    """Bits of a class under the mixture of a readout's probability and the uniform one.

    Args:
        log_probs: natural logarithm of what the readout gives to the class.
        doubt: what part is spread evenly over all classes, above 0.
        n_classes: how many there are.
    """
    with np.errstate(divide="ignore"):  # of 1 − ε = 0, nothing is left, and of no probability nothing
        mixed = np.logaddexp(np.log1p(-doubt) + log_probs, np.log(doubt / n_classes))
    return np.asarray(-mixed / np.log(2))


def choose_doubt(log_probs: Floats, labels: Numbers, n_classes: int) -> Floats:
    """``[problem, layer]`` which of ``DOUBTS`` gives the shortest code of ``labels [problem, item]``."""
    used = (labels >= 0)[:, None]
    total = [np.where(used, code_bits(log_probs, np.array(doubt), n_classes), 0.0).sum(axis=2) for doubt in DOUBTS]
    return np.asarray(np.array(DOUBTS)[np.stack(total).argmin(axis=0)])
