"""What every readout takes and gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.readouts._features import FeatureSource, Shaped
from bertology.readouts._path import rising_ends

Progress = Callable[[str], None]
"""Called with one line about how far a fit has come."""


@dataclass(frozen=True)
class Targets:
    """What to predict from the items of a source: one or several problems over the same items.

    Raises:
        FitError: shapes, labels or weights are out of bounds.
    """

    labels: NDArray[np.int64] | NDArray[np.bool_]
    """``[problem, item]`` int64 class of each item, −1 where the item is not used in that problem; or, where an item
    may have any number of classes, ``[problem, item, class]`` bool, unused items having weight 0."""
    n_classes: int
    """Classes are ``0 … n_classes − 1``, in every problem."""
    weights: NDArray[np.float32] | None = None
    """``[problem, item]`` how often each item counts (resampling by seed), 1 when left out."""
    names: tuple[str, ...] = ()
    """What each problem is called in messages."""
    leaders: tuple[int, ...] = ()
    """For each problem the one whose strength it takes over: itself where it chooses its own, as all do when left out.
    A control task takes over that of its task, so that selectivity compares one readout with itself (Hewitt & Liang
    2019, section 2)."""

    def __post_init__(self) -> None:
        labels = _checked_labels(np.asarray(self.labels), self.n_classes)
        object.__setattr__(self, "labels", labels)
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float32)
            if weights.shape != labels.shape[:2]:
                wanted = list(labels.shape[:2])
                raise FitError(f"weights have shape {list(weights.shape)}: give {wanted}, as the labels")
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                raise FitError("some weights are negative or not finite: give finite weights of 0 or more")
            object.__setattr__(self, "weights", weights)
        leaders = self.leaders or tuple(range(len(labels)))
        if len(leaders) != len(labels) or not all(0 <= one < len(labels) and leaders[one] == one for one in leaders):
            raise FitError(f"leaders are {list(leaders)}: give {len(labels)} numbers of problems that lead themselves")
        object.__setattr__(self, "leaders", leaders)

    @property
    def is_multi_label(self) -> bool:
        """Whether an item may have any number of classes."""
        return self.labels.ndim == 3

    @property
    def n_problems(self) -> int:
        """How many problems there are."""
        return int(self.labels.shape[0])

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.labels.shape[1])

    def only(self, problems: NDArray[np.int64]) -> Targets:
        """Only some of the problems, each of which chooses for itself."""
        weights = None if self.weights is None else self.weights[problems]
        return Targets(self.labels[problems], self.n_classes, weights, tuple(self.name(one) for one in problems))

    def name(self, problem: int) -> str:
        """What problem number ``problem`` is called in messages."""
        return self.names[problem] if problem < len(self.names) else f"problem {problem}"


def _checked_labels(labels: NDArray[Any], n_classes: int) -> NDArray[np.int64] | NDArray[np.bool_]:
    if labels.ndim == 3 and labels.dtype == np.bool_:
        if labels.shape[2] != n_classes:
            raise FitError(f"labels have shape {list(labels.shape)}: give [problem, item, {n_classes}], one a class")
        return labels
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise FitError(
            f"labels have shape {list(labels.shape)} of {labels.dtype}: give integers [problem, item] "
            "or bool [problem, item, class]"
        )
    if labels.size and not -1 <= labels.min() <= labels.max() < n_classes:
        raise FitError(f"labels run from {labels.min()} to {labels.max()}: give -1 to {n_classes - 1}")
    return labels.astype(np.int64, copy=False)


@dataclass(frozen=True)
class FitReport:
    """How a fit went: the path of strengths, which was chosen and why, and whether each fit arrived.

    Problems and layers that a readout does not tell apart repeat their value.
    """

    strengths: tuple[float, ...]
    """The path, from the strongest regularisation to the weakest, in the readout's own terms, with all strengths beyond
    its ends that some fit tried."""
    chosen: NDArray[np.float64]
    """``[problem, layer]`` the strength with the best dev accuracy, of equals the strongest regularisation; or that of
    the problem's leader."""
    dev_accuracy: NDArray[np.float64]
    """``[problem, layer, strength]``, NaN where a strength was not tried; micro F1 where items have several labels."""
    iterations: NDArray[np.int64]
    """``[problem, layer, strength]`` steps taken, each of them one evaluation of loss and gradient."""
    converged: NDArray[np.bool_]
    """``[problem, layer, strength]`` whether the fit met its tolerance."""
    gradient_norm: NDArray[np.float64]
    """``[problem, layer, strength]`` what was compared with the tolerance at the end."""

    @property
    def all_converged(self) -> bool:
        """Whether every fit met its tolerance."""
        return bool(self.converged[~np.isnan(self.dev_accuracy)].all())

    def end(self, problem: int, layer: int) -> Literal["strongest", "weakest"] | None:
        """Which end of the path was chosen, where dev accuracy still rises towards it; None where neither was."""
        accuracy = self.dev_accuracy[problem, layer]
        if self.strengths[int(np.nanargmax(accuracy))] != self.chosen[problem, layer]:
            return None  # the choice is another problem's
        end = int(rising_ends(accuracy[None, None])[0, 0])
        return None if not end else "weakest" if end > 0 else "strongest"

    def without_untried(self) -> FitReport:
        """The same without strengths that no fit tried."""
        tried = ~np.isnan(self.dev_accuracy).all(axis=(0, 1))
        return replace(
            self,
            strengths=tuple(np.array(self.strengths)[tried].tolist()),
            dev_accuracy=self.dev_accuracy[..., tried],
            iterations=self.iterations[..., tried],
            converged=self.converged[..., tried],
            gradient_norm=self.gradient_norm[..., tried],
        )


@dataclass(frozen=True)
class Predictions:
    """What a fitted readout says of every item, whatever items it was fitted on."""

    labels: NDArray[np.int64] | NDArray[np.bool_]
    """``[problem, layer, item]`` int64 most probable class; ``[problem, layer, item, class]`` bool, which classes are
    more probable than not, where an item may have any number of them."""
    log_prob: NDArray[np.float32]
    """``[problem, layer, item]`` natural logarithm of the probability of that class, or of exactly these classes; NaN
    where the readout gives none."""


class FittedReadout(ABC):
    """A readout after fitting; it does not change any more."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Registered name of the readout, with its version."""

    @property
    @abstractmethod
    def report(self) -> FitReport:
        """How the fit went."""

    @property
    @abstractmethod
    def n_params(self) -> int:
        """Trained parameters of one layer's readout for one problem."""

    @abstractmethod
    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """What there is to know of one fit beyond the report, as JSON can hold it; mostly nothing.

        Args:
            problem: number of the problem.
            layer: place of the layer (or column) among those fitted.
        """

    @abstractmethod
    def predict(self, source: FeatureSource) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk.

        Raises:
            FitError: the source has other layers or another width than the readout was fitted on.
        """

    @abstractmethod
    def log_probs(self, source: FeatureSource, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the readout gives to one class of each item, as a code for these classes would need it.

        Args:
            source: the items.
            labels: ``[problem, item]`` the class of each item, −1 where none is asked about.

        Returns:
            ``[problem, layer, item]`` natural logarithm of the class's probability: NaN where none is asked about,
            and throughout for a readout that gives no probabilities; −∞ for a class to which it gives none, as
            ``linear.v1`` and ``mlp.v1`` do to a class that their training data do not have.

        Raises:
            FitError: the source or the labels have another shape than the readout, or a class is not one of its.
        """


class Settings(ABC):
    """How something is to be decoded from vectors, before any have been seen."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Registered name, with its version."""

    @property
    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """The settings, as JSON can hold them."""


class Readout(Settings):
    """A way to decode labels from vectors."""

    @abstractmethod
    def fit(
        self,
        train: FeatureSource,
        targets: Targets,
        *,
        dev: FeatureSource,
        dev_targets: Targets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> FittedReadout:
        """Fit every problem in every layer, all at once, and choose the strength by dev accuracy.

        Args:
            train: vectors to fit on.
            targets: what to predict from them.
            dev: vectors of other items, for the choice of strength.
            dev_targets: the same problems over ``dev``.
            seed: of whatever is random in the fit.
            device: where to compute, as torch names it.
            progress: told how far the fit has come.

        Raises:
            FitError: the training data cannot be fitted: nothing labelled, one class alone, vectors that are not
                finite, shapes that do not agree.
        """


def check_agreement(source: Shaped, targets: Targets, what: str) -> None:
    """Raise :class:`FitError` unless ``targets`` are about the items of ``source``."""
    if source.n_items != targets.n_items:
        raise FitError(f"{what} has {source.n_items} items and {targets.n_items} labels: give one label for each item")


def check_same_shape(source: Shaped, n_layers: int, dim: int) -> None:
    """Raise :class:`FitError` unless ``source`` has the layers and the width that a readout was fitted on."""
    if (source.n_layers, source.dim) != (n_layers, dim):
        raise FitError(
            f"the readout was fitted on {n_layers} layers of width {dim}: "
            f"it cannot read {source.n_layers} layers of width {source.dim}"
        )


def check_problems(train: Shaped, targets: Targets, dev: Shaped, dev_targets: Targets) -> None:
    """Raise :class:`FitError` unless there is something to learn in every problem and something to choose by."""
    check_agreement(train, targets, "train")
    check_agreement(dev, dev_targets, "dev")
    check_same_shape(dev, train.n_layers, train.dim)
    if (targets.n_problems, targets.n_classes) != (dev_targets.n_problems, dev_targets.n_classes):
        raise FitError(
            f"train has {targets.n_problems} problems of {targets.n_classes} classes and dev {dev_targets.n_problems} "
            f"of {dev_targets.n_classes}: give the same problems"
        )
    for problem in range(targets.n_problems):
        name = targets.name(problem)
        counts = class_weights(targets)[problem]
        if not counts.any():
            raise FitError(f"{name}: no training item has a label; give labelled training data")
        if np.count_nonzero(counts) == 1 and not targets.is_multi_label:
            only = int(counts.argmax())
            raise FitError(f"{name}: all training items have the one class {only}; give data with at least two")
        if not class_weights(dev_targets)[problem].any():
            raise FitError(f"{name}: no dev item has a label; give labelled dev data to choose the strength by")


def check_single_label(targets: Targets, readout: str) -> None:
    """Raise :class:`FitError` where items may have several labels, which ``readout`` cannot give."""
    if targets.is_multi_label:
        raise FitError(f"{readout} gives each item one class: use an edge readout for labels [problem, item, class]")


def item_weights(targets: Targets) -> NDArray[np.float32]:
    """``[problem, item]`` weight of each item, 0 where its label is −1."""
    shape = targets.labels.shape[:2]
    used = np.ones(shape, np.float32) if targets.is_multi_label else (targets.labels >= 0).astype(np.float32)
    return used if targets.weights is None else used * targets.weights


def class_weights(targets: Targets) -> NDArray[np.float64]:
    """``[problem, class]`` total weight of the items of each class."""
    if targets.is_multi_label:
        return np.asarray(np.einsum("pi,pic->pc", item_weights(targets).astype(np.float64), targets.labels))
    totals = np.zeros((targets.n_problems, targets.n_classes))
    for problem, weights in enumerate(item_weights(targets)):
        used = targets.labels[problem] >= 0
        totals[problem] = np.bincount(
            targets.labels[problem][used], weights=weights[used].astype(np.float64), minlength=targets.n_classes
        )
    return totals
