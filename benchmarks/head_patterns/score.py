"""How well classifiers of maps agree with labels of real ones given by eye, and how far their confidence goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.head_patterns.labels import LabelledMap
from benchmarks.head_patterns.maps import PieceMap
from benchmarks.head_patterns.train import probabilities
from bertology.attention.patterns import CONFIDENCE, PATTERNS, ClassifierKind, assigned

Floats = NDArray[np.float64]
_BINS: Final = (0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_RESAMPLES: Final = 2000


@dataclass(frozen=True, eq=False)
class PatternScore:
    """A classifier held against labels."""

    n_maps: int
    confusion: NDArray[np.int64]
    """``[label, class found]``"""
    macro_f1: float
    """Mean F1 of the classes that have a label."""
    interval: tuple[float, float]
    """95 % of it, bootstrap over maps."""
    accuracy: float
    either: float
    """Share of maps whose class is their label or their second label."""
    n_clear: int
    """Maps without a second label."""
    clear_macro_f1: float
    """Mean F1 on those."""
    calibration_error: float
    """Expected calibration error of the likeliest class's probability, in the bins of ``reliability``."""
    reliability: tuple[tuple[float, float, int, float, float], ...]
    """A bin each: from, to, maps, their mean probability, the share of them that is right."""

    def of_classes(self) -> dict[str, tuple[float, float, float, int]]:
        """Precision, recall, F1 and number of labels of each class; NaN where there is nothing to divide by."""
        hits, found, labels = np.diag(self.confusion), self.confusion.sum(0), self.confusion.sum(1)
        rows = zip(
            PATTERNS, _ratio(hits, found), _ratio(hits, labels), _ratio(2 * hits, found + labels), labels, strict=True
        )
        return {name: (float(p), float(r), float(f), int(n)) for name, p, r, f, n in rows}


def score_classifier(
    kind: ClassifierKind, maps: Sequence[PieceMap], labels: Sequence[LabelledMap], *, seed: int = 0
) -> PatternScore:
    """Hold a classifier against labels.

    Args:
        kind: which classifier.
        maps: what was labelled.
        labels: of each.
        seed: of the bootstrap.
    """
    likely = probabilities(kind, maps)
    found = assigned(torch.from_numpy(likely), confidence=CONFIDENCE).numpy()
    return score_classes(found, likely, labels, seed=seed)


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far two labellers of the same maps agree."""

    confusion: NDArray[np.int64]
    """``[label of the first, label of the second]``"""
    same: float
    """Share of maps that got the same label of both."""
    kappa: float
    """Of Cohen (1960): the share above what labels drawn by each one's frequencies would share, over the most there
    could be."""
    macro_f1: float
    """Of the second labeller against the first, as a classifier's."""
    either: float
    """Share of maps whose label by one is the label, or the second label, by the other."""


def agreement(first: Sequence[LabelledMap], second: Sequence[LabelledMap]) -> Agreement:
    """Hold a labeller against another.

    Args:
        first: labels of some maps.
        second: other labels of the same maps, in the same order.
    """
    one, other = (np.array([PATTERNS.index(each.label) for each in labels]) for labels in (first, second))
    confusion = _confusion(one, other)
    same = float((one == other).mean())
    chance = float((confusion.sum(0) * confusion.sum(1)).sum() / len(one) ** 2)
    within = [a.label in (b.label, b.second) or b.label == a.second for a, b in zip(first, second, strict=True)]
    return Agreement(
        confusion=confusion,
        same=same,
        kappa=(same - chance) / (1 - chance) if chance < 1 else 1.0,
        macro_f1=_macro_f1(confusion, confusion.sum(1) > 0),
        either=float(np.mean(within)),
    )


def score_classes(
    found: NDArray[np.int64], likely: Floats, labels: Sequence[LabelledMap], *, seed: int = 0
) -> PatternScore:
    """Hold classes, and the probabilities they come from, against labels.

    Args:
        found: ``[map]`` the class each was put into.
        likely: ``[map, class]``
        labels: of each.
        seed: of the bootstrap.
    """
    gold = np.array([PATTERNS.index(one.label) for one in labels])
    second = np.array([PATTERNS.index(one.second) if one.second else -1 for one in labels])
    confusion = _confusion(gold, found)
    has_label = confusion.sum(1) > 0
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(gold), size=(_RESAMPLES, len(gold)))
    resampled = [_macro_f1(_confusion(gold[rows], found[rows]), has_label) for rows in drawn]
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    clear = second < 0
    of_clear = _confusion(gold[clear], found[clear])
    bins = _reliability(likely, gold)
    return PatternScore(
        n_maps=len(gold),
        confusion=confusion,
        macro_f1=_macro_f1(confusion, has_label),
        interval=(float(low), float(high)),
        accuracy=float((found == gold).mean()),
        either=float(((found == gold) | (found == second)).mean()),
        n_clear=int(clear.sum()),
        clear_macro_f1=_macro_f1(of_clear, of_clear.sum(1) > 0),
        calibration_error=sum(n * abs(mean - right) for _, _, n, mean, right in bins) / len(gold),
        reliability=bins,
    )


def _confusion(gold: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    n = len(PATTERNS)
    return np.bincount(gold * n + found, minlength=n * n).reshape(n, n)


def _macro_f1(confusion: NDArray[np.int64], counted: NDArray[np.bool_]) -> float:
    f1 = _ratio(2 * np.diag(confusion), confusion.sum(0) + confusion.sum(1))[counted]
    # A resample may hold neither a label nor a find of a rare class, which then has no F1.
    return float(f1[~np.isnan(f1)].mean()) if (~np.isnan(f1)).any() else float("nan")


def _ratio(over: NDArray[np.int64], under: NDArray[np.int64]) -> Floats:
    values = np.full(len(over), np.nan)
    np.divide(over, under, out=values, where=under > 0)
    return values


def _reliability(likely: Floats, gold: NDArray[np.int64]) -> tuple[tuple[float, float, int, float, float], ...]:
    top, right = likely.max(1), likely.argmax(1) == gold
    found = []
    for low, high in pairwise(_BINS):
        inside = (top > low) & (top <= high)
        if inside.any():
            found.append((low, high, int(inside.sum()), float(top[inside].mean()), float(right[inside].mean())))
    return tuple(found)
