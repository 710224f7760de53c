"""Readouts by name, and the types that every readout takes and returns: targets, settings, reports, predictions.

Importing this module imports no torch.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._machine import fit_device
from bertology._names import Registered, Registry, imported
from bertology._settings import Checked, checked_settings
from bertology.errors import FitError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[str], None]
"""Called with one line about how far a fit has come."""
_PASSES = 100  # passes over the training data that a linear fit takes, roughly


def sum_over(function: Callable[..., tuple[Any, ...]], shards: Iterable[Any], *args: Any) -> tuple[Any, ...]:
    """The sums over shards of each value that a function of a shard and further arguments returns."""
    parts = (function(shard, *args) for shard in shards)
    return functools.reduce(lambda before, part: tuple(map(operator.add, before, part)), parts)


@dataclass(frozen=True)
class Targets:
    """Labels to predict from the items of a source, in one or several problems over the same items.

    Raises:
        FitError: shapes, labels or weights are out of bounds.
    """

    labels: Integers | NDArray[np.bool_]
    """``[problem, item]`` int64 class of each item, −1 where the item is not used in that problem; or, where an item
    may have any number of classes, ``[problem, item, class]`` bool, unused items having weight 0."""
    n_classes: int
    """Classes are ``0 … n_classes − 1``, in every problem."""
    weights: NDArray[np.float32] | None = None
    """``[problem, item]`` how often each item counts (resampling by seed), 1 when left out."""
    names: tuple[str, ...] = ()
    """Name of each problem in messages."""
    strength_sources: tuple[int, ...] = ()
    """``[problem]`` the problem whose regularisation strength is used: itself where the strength is chosen on dev, as
    for all problems when left out. A control task uses the strength of its task, so that selectivity compares a readout
    with itself (Hewitt & Liang 2019, section 2)."""
    n_problems: int = field(init=False)
    is_multi_label: bool = field(init=False)
    """Whether an item may have any number of classes."""

    def __post_init__(self) -> None:
        labels, k = np.asarray(self.labels), self.n_classes
        shape = f"labels have shape {list(labels.shape)}"
        if labels.ndim == 3 and labels.dtype == np.bool_:
            if labels.shape[2] != k:
                raise FitError(f"{shape}: give [problem, item, {k}], one a class")
        elif labels.ndim != 2 or labels.dtype.kind not in "iu":
            kinds = "integers [problem, item] or bool [problem, item, class]"
            raise FitError(f"{shape} of {labels.dtype}: give {kinds}")
        elif labels.size and not -1 <= labels.min() <= labels.max() < k:
            raise FitError(f"labels run from {labels.min()} to {labels.max()}: give -1 to {k - 1}")
        else:
            labels = labels.astype(np.int64, copy=False)
        object.__setattr__(self, "labels", labels)
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights, labels.shape[:2]))
        n, sources = len(labels), self.strength_sources or tuple(range(len(labels)))
        if len(sources) != n or not all(0 <= one < n and sources[one] == one for one in sources):
            raise FitError(f"strength_sources are {list(sources)}: give {n} problems that are their own source")
        object.__setattr__(self, "strength_sources", sources)
        object.__setattr__(self, "n_problems", n)
        object.__setattr__(self, "is_multi_label", labels.ndim == 3)

    def only(self, problems: Integers | slice = slice(None), items: NDArray[np.bool_] | slice = slice(None)) -> Targets:
        """Some problems, each of which is its own strength source, and some items."""
        names = tuple(np.array([self.name(one) for one in range(self.n_problems)], dtype=object)[problems])
        weights = None if self.weights is None else self.weights[problems][:, items]
        return Targets(self.labels[problems][:, items], self.n_classes, weights, names)

    def name(self, problem: int) -> str:
        """Name of problem number ``problem`` in messages."""
        return self.names[problem] if problem < len(self.names) else f"problem {problem}"

    def item_weights(self) -> NDArray[np.float32]:
        """``[problem, item]`` weight of each item, 0 where its label is −1."""
        used = np.ones(self.labels.shape[:2], dtype=bool) if self.is_multi_label else self.labels >= 0
        return used.astype(np.float32) if self.weights is None else used * self.weights

    def class_weights(self) -> Floats:
        """``[problem, class]`` total weight of the items of each class."""
        by_item = self.item_weights().astype(np.float64)
        if self.is_multi_label:
            return np.asarray(np.einsum("pi,pic->pc", by_item, self.labels))
        # Items without a label have weight 0, so that it does not matter where they count.
        rows = zip(self.labels.clip(min=0), by_item, strict=True)
        return np.stack([np.bincount(labels, weights, minlength=self.n_classes) for labels, weights in rows])


def checked_weights(weights: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The weights in float32; FitError unless all are finite, not negative, and of the given shape."""
    if weights.shape != shape:
        raise FitError(f"weights have shape {list(weights.shape)}: give {list(shape)}")
    weights = np.asarray(weights, dtype=np.float32)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise FitError("some weights are negative or not finite: give finite weights of 0 or more")
    return weights


@dataclass(frozen=True)
class FitReport:
    """Report of a fit: the path of strengths, the strength chosen by dev accuracy, and whether each fit converged.

    Where a value is the same for several problems or layers, it is repeated.
    """

    strengths: tuple[float, ...]
    """The path, from the strongest regularisation to the weakest, in the readout's own terms, with all strengths beyond
    its ends that some fit tried."""
    chosen: Floats
    """``[problem, layer]`` the strength with the best dev accuracy, of equals the strongest regularisation; or that of
    the problem's strength source."""
    dev_accuracy: Floats
    """``[problem, layer, strength]``, NaN where a strength was not tried; micro F1 where items have several labels. Of
    the fits that strengths were compared by, which ``linear`` ends sooner, and fits to a part of many items."""
    iterations: Integers
    """``[problem, layer, strength]`` number of evaluations of loss and gradient."""
    converged: NDArray[np.bool_]
    """``[problem, layer, strength]`` whether the fit met its tolerance."""
    gradient_norm: Floats
    """``[problem, layer, strength]`` the norm that was compared with the tolerance in the last iteration."""

    @property
    def all_converged(self) -> bool:
        """Whether every fit met its tolerance."""
        return bool(self.converged[~np.isnan(self.dev_accuracy)].all())

    def end(self, problem: int, layer: int) -> Literal["strongest", "weakest"] | None:
        """The end of the path that was chosen, if dev accuracy still rises towards it; else None."""
        accuracy = self.dev_accuracy[problem, layer]
        if self.strengths[int(np.nanargmax(accuracy))] != self.chosen[problem, layer]:
            return None  # the choice is another problem's
        end = int(rising_ends(accuracy[None, None])[0, 0])
        return None if not end else "weakest" if end > 0 else "strongest"

    @classmethod
    def of_tried(cls, strengths: tuple[float, ...], chosen: Integers, **by_strength: NDArray[Any]) -> FitReport:
        """The report of fits, without strengths that no fit tried; ``chosen`` are indices into ``strengths``."""
        tried = ~np.isnan(by_strength["dev_accuracy"]).all(axis=(0, 1))
        kept = {name: values[..., tried] for name, values in by_strength.items()}
        return cls(tuple(np.array(strengths)[tried].tolist()), np.array(strengths)[chosen], **kept)

    @classmethod
    def without_path(cls, *facts: NDArray[Any]) -> FitReport:
        """The report of fits without strengths: dev accuracy, iterations, converged and norm, ``[problem, layer]``."""
        return cls((0.0,), np.zeros(facts[0].shape), *(fact[:, :, None].copy() for fact in facts))


@dataclass(frozen=True)
class Predictions:
    """Predictions of a fitted readout for every item of a source."""

    labels: Integers | NDArray[np.bool_]
    """``[problem, layer, item]`` int64 most probable class; ``[problem, layer, item, class]`` bool, which classes are
    more probable than not, where an item may have any number of them."""
    log_prob: NDArray[np.float32]
    """``[problem, layer, item]`` natural logarithm of the probability of that class, or of exactly these classes; NaN
    where the readout gives none."""


class FittedReadout(ABC):
    """A fitted readout, which is immutable."""

    name: str
    """Registered name of the readout, with its version."""
    report: FitReport
    """Report on the fit."""

    @property
    @abstractmethod
    def n_params(self) -> int:
        """Trained parameters of one layer's readout for one problem."""

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """Further facts about one fit, as JSON can hold them, by the numbers of the problem and the fitted layer."""
        return {}

    @abstractmethod
    def predict(self, source: Any) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk.

        Raises:
            FitError: the source has other layers or another width than the readout was fitted on.
        """

    @abstractmethod
    def log_probs(self, source: Any, labels: Integers) -> Floats:
        """``[problem, layer, item]`` natural logarithm of the probability of a given class of each item.

        NaN where ``labels [problem, item]`` are −1, and throughout for a readout that gives no probabilities; −∞ for a
        class to which it gives none, as ``linear.v1`` and ``mlp.v1`` do to a class that their training data lack.

        Raises:
            FitError: the source or the labels have another shape than the readout, or a class is not one of its.
        """


@dataclass(frozen=True)
class TrainingData:
    """Data, seed and device of a fit, as :meth:`Readout.fit` describes them."""

    train: Any
    targets: Any
    dev: Any
    dev_targets: Any
    seed: int = 0
    device: Any = "cpu"
    progress: Progress | None = None
    n_threads: int | None = None
    is_control: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", fit_device(self.device))

    def say(self, line: str) -> None:
        """Report one line about how far the fit has come."""
        if self.progress is not None:
            self.progress(line)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of problems and layers."""
        return self.targets.n_problems, self.train.n_layers


class Readout(Checked, ABC):
    """A readout of labels before it is fitted. Subclasses are frozen dataclasses whose fields are the settings."""

    gives_sets: ClassVar[bool] = False
    """Whether it can give several labels to an item."""

    def training_flops(self, n_items: int, dim: int, n_classes: int) -> float:
        """Floating-point operations of a fit in one layer, roughly; by default those of a linear readout."""
        return 4.0 * _PASSES * n_items * dim * n_classes

    @abstractmethod
    def fit_to(self, data: TrainingData) -> Any:
        """Fit to data that were checked; FitError where vectors are not finite."""

    def fit(self, train: Any, targets: Targets, *, dev: Any, dev_targets: Targets, **settings: Any) -> Any:
        """Fit every problem in every layer side by side, and choose the strength by dev accuracy.

        Args:
            train: vectors (or spans) of the training items.
            targets: their labels.
            dev: those of the dev items, by which the strength is chosen.
            dev_targets: their labels in the same problems.
            settings: ``seed`` of everything random, ``device`` as torch names it, ``progress``, a function called with
                lines about the fit, ``n_threads`` to spread layers over, and ``is_control``: of random weights or not.

        Returns:
            A :class:`FittedReadout`.

        Raises:
            FitError: the training data cannot be fitted: nothing labelled, one class alone, vectors that are not
                finite, shapes that do not agree.
        """
        if targets.is_multi_label and not self.gives_sets:
            remedy = "use an edge readout for labels [problem, item, class]"
            raise FitError(f"{self.name} gives each item one class: {remedy}")
        check_problems(train, targets, dev, dev_targets)
        return self.fit_to(TrainingData(train, targets, dev, dev_targets, **settings))


def check_agreement(source: Any, targets: Targets, what: str) -> None:
    """Raise :class:`FitError` unless ``targets`` are about the items of ``source``."""
    if source.n_items != (n := targets.labels.shape[1]):
        raise FitError(f"{what} has {source.n_items} items and {n} labels: give one label for each item")


def check_labels(source: Any, labels: NDArray[Any], n_problems: int, n_classes: int) -> Targets:
    """Labels of the items of ``source`` as targets; :class:`FitError` unless they are of that many problems."""
    targets = Targets(labels, n_classes)
    check_agreement(source, targets, "the source")
    if (n := targets.n_problems) != n_problems:
        raise FitError(f"labels are of {n} problems: the readout was fitted to {n_problems}; give a row for each")
    return targets


def check_same_shape(source: Any, n_layers: int, dim: int, *, what: str = "readout") -> None:
    """Raise :class:`FitError` unless ``source`` has the layers and the width that a readout was fitted on."""
    if (source.n_layers, source.dim) != (n_layers, dim):
        fitted = f"the {what} was fitted on {n_layers} layers of width {dim}"
        raise FitError(f"{fitted}: it cannot read {source.n_layers} layers of width {source.dim}")


def check_problems(train: Any, targets: Targets, dev: Any, dev_targets: Targets) -> None:
    """Raise :class:`FitError` unless every problem has training items of two classes and labelled dev items."""
    check_agreement(train, targets, "train")
    check_agreement(dev, dev_targets, "dev")
    check_same_shape(dev, train.n_layers, train.dim)
    own, of_dev = ((one.n_problems, one.n_classes) for one in (targets, dev_targets))
    if own != of_dev:
        problems = "train has {} problems of {} classes and dev {} of {}".format(*own, *of_dev)
        raise FitError(f"{problems}: give the same problems")
    on_dev = dev_targets.class_weights()
    for problem, counts in enumerate(targets.class_weights()):
        name = targets.name(problem)
        if not counts.any():
            raise FitError(f"{name}: no training item has a label; give labelled training data")
        if np.count_nonzero(counts) == 1 and not targets.is_multi_label:
            raise FitError(
                f"{name}: all training items have the one class {counts.argmax()}; give data with at least two. "
                "A control task draws one class for each word form: with few forms leave it out (--controls)"
            )
        if not on_dev[problem].any():
            raise FitError(f"{name}: no dev item has a label; give labelled dev data to choose the strength by")


def rising_ends(dev_accuracy: Floats) -> Integers:
    """``[problem, layer]`` −1 or 1 where the strongest or the weakest strength tried is best, 0 where none is.

    Only an end that is better than the strength next to it counts: among equals the strongest is chosen.
    """
    ends = np.zeros(dev_accuracy.shape[:2], dtype=np.int64)
    for at in np.ndindex(ends.shape):
        tried = dev_accuracy[at][~np.isnan(dev_accuracy[at])]
        best = int(tried.argmax())
        if len(tried) > 1 and best in (0, len(tried) - 1) and tried[best] > tried[1 if best == 0 else -2]:
            ends[at] = 1 if best else -1
    return ends


@dataclass(frozen=True)
class ReadoutKind:
    """Declaration of a readout: everything that planning needs to know before anything is fitted.

    A package adds a readout with one file and one entry point of the group ``bertology.readouts``, whose name is
    :attr:`name` and whose target is a ``ReadoutKind``.
    """

    name: str
    """Registered name, with its version: ``linear.v1``."""
    make: str | Callable[..., Any]
    """The frozen dataclass of the readout, whose fields are its settings; or where to import it from, as
    ``"module:object"``, which keeps planning quick where the module imports torch."""
    about: str = ""
    """One line: what is fitted, with the paper it comes from."""
    reads: Literal["words", "spans", "trees", "numbers"] = "words"
    """``words``: one vector an item. ``spans``: the vectors of all words in an item's spans. ``trees``: the vectors of
    whole sentences, whose trees are decoded. ``numbers``: one vector an item, whose number is predicted."""
    columns: Literal["layer", "below", "all"] = "layer"
    """The layers that one score describes: one layer, a layer with all layers below it, or all layers together."""
    has_posterior: bool = False
    """Whether the fitted readout has a posterior over its weights, which a variational code needs."""
    fitted_together: str | None = None
    """Name of a setting whose values in a sweep are fitted in the same passes over the data."""
    settings_problem: Callable[[Mapping[str, Any], int], str | None] = lambda settings, width: None
    """Called while planning with settings and the width of the vectors; returns what is wrong with them, or None."""


_REGISTRY = Registry[ReadoutKind](
    "readout", "bertology.readouts", "linear.v1", ReadoutKind, "a ReadoutKind", lambda kind: kind.name
)


def registered_readouts() -> Mapping[str, Registered[ReadoutKind]]:
    """All versions of all installed readouts by registered name (``linear.v1``), not yet imported."""
    return _REGISTRY.registered()


def readout_kind(name: str) -> ReadoutKind:
    """The declaration of a readout by name, such as ``linear.v1``, or ``linear`` for its newest version.

    Raises:
        NameNotFoundError: no readout has that name.
    """
    return _REGISTRY.get(name)


def get_readout(name: str, **settings: Any) -> Readout:
    """A readout of labels by name, as :func:`make_readout`; FitError where the readout finds trees and no labels."""

    readout = make_readout(name, **settings)
    if not isinstance(readout, Readout):
        raise FitError(f"readout {readout.name} predicts trees, not labels: choose a readout of labels, such as linear")
    return readout


def make_readout(name: str, **settings: Any) -> Any:
    """A readout by name, whatever it reads.

    Args:
        name: ``linear.v1``, or ``linear`` for its newest version.
        **settings: the readout's own settings, the fields of its dataclass.

    Raises:
        NameNotFoundError: no readout has that name, or it has no such setting.
        FitError: a setting is of another type than it should be.
        BertologyError: the readout cannot be imported.
    """
    kind = readout_kind(name)
    make = kind.make
    if isinstance(make, str):
        make = imported(EntryPoint(kind.name, make, _REGISTRY.group), _REGISTRY.kind)
    return make(**checked_settings(settings, make, owner=f"readout {kind.name}"))


def _rank_problem(settings: Mapping[str, Any], width: int) -> str | None:
    rank = settings.get("rank")
    is_too_large = isinstance(rank, int) and rank > width
    return f"rank {rank} of vectors that are {width} wide: give 1 to {width}" if is_too_large else None


def _kind(name: str, home: str, about: str, **facts: Any) -> ReadoutKind:
    return ReadoutKind(f"{name}.v1", f"bertology.readouts.{home}", about, **facts)


_L2 = "its L2 penalty chosen on dev"
_SPANS = "perceptron on pooled spans of"
LINEAR_V1 = _kind("linear", "linear:LinearReadout", f"softmax regression, {_L2}")
RIDGE_V1 = _kind("ridge", "linear:RidgeReadout", f"least squares on one-hot labels, {_L2}")
_NUMBERS = f"least squares on numbers, {_L2}"
RIDGE_REGRESSION_V1 = _kind("ridge_regression", "linear:RidgeRegression", _NUMBERS, reads="numbers")
MLP_V1 = _kind("mlp", "_neural:MlpReadout", "perceptron with one hidden layer (Hewitt & Liang 2019)")
LOWRANK_V1 = _kind("lowrank", "_neural:LowRankReadout", "softmax over a matrix of low rank (Hewitt & Liang 2019)")
_BAYES = "linear readout or perceptron under Bayesian compression (Louizos et al. 2017)"
BAYES_V1 = _kind("bayes", "_neural:BayesReadout", _BAYES, has_posterior=True)
EDGE_V1 = _kind("edge", "_edge:EdgeReadout", f"{_SPANS} one layer (Tenney et al. 2019a)", reads="spans")
_CUMULATIVE = f"{_SPANS} a mix of each layer and all below it (Tenney et al. 2019b)"
_BELOW: dict[str, Any] = {"reads": "spans", "columns": "below"}
EDGE_CUMULATIVE_V1 = _kind("edge_cumulative", "_edge:EdgeCumulativeReadout", _CUMULATIVE, **_BELOW)
_MIX = f"{_SPANS} a mix of all layers (Tenney et al. 2019b)"
EDGE_MIX_V1 = _kind("edge_mix", "_edge:EdgeMixReadout", _MIX, reads="spans", columns="all")
_CAT = f"{_SPANS} the first and the last layer side by side (Tenney et al. 2019a)"
EDGE_CAT_V1 = _kind("edge_cat", "_edge:EdgeCatReadout", _CAT, reads="spans", columns="all")
_TREES = "linear map whose squared distances are those of trees (Hewitt & Manning 2019)"
_TOGETHER: dict[str, Any] = {"reads": "trees", "fitted_together": "rank", "settings_problem": _rank_problem}
STRUCTURAL_V1 = _kind("structural", "structural:StructuralReadout", _TREES, **_TOGETHER)
