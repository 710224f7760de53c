"""Metrics of cloze tasks: ranks of answers, choices between two, agreement of predictions, effects of a changed text.

An item belongs to a group (a relation, a construction) and to a cluster (a fact, a frame). Metrics are means over
groups, as the papers report them; those called micro are means over all items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures._metric import Bounds, CountKind, Floats, Metric, ratio, ratio_of_sums

_RANKS = 1, 5, 10, 100
_SENSITIVE = 0.01
"""Least difference between two probabilities that counts as one (Ettinger 2020, section 5.2)."""


@dataclass(frozen=True)
class Grouped:
    """Items of a cloze task by cluster and group, and the counts that metrics need of them.

    All counts are ``[cell, cluster, group, kind]``.
    """

    cluster: NDArray[np.integer[Any]]
    """``[item]`` number of its cluster."""
    group: NDArray[np.integer[Any]]
    """``[item]`` number of its group."""
    n_clusters: int
    n_groups: int

    def count_answers(self, ranks: NDArray[np.integer[Any]]) -> Floats:
        """``[…, 6]`` items scored; items whose answer is among the first 1, 5, 10 and 100; the sum of reciprocal ranks.

        From ``[cell, item]`` ranks of the correct answer, 1 for the first; 0 where an item was not scored.
        """
        scored = ranks > 0
        among_first = [scored & (ranks <= most) for most in _RANKS]
        return self._sums([scored, *among_first, ratio(scored, np.where(scored, ranks, 1))])

    def count_choices(self, scores: Floats, distractors: Floats) -> Floats:
        """``[…, 4]`` choices made; correct ones; items scored; items with a correct answer more probable by over 0.01.

        A tie is no choice: it counts neither as correct nor as wrong.

        Args:
            scores: ``[cell, item]`` log probability of the correct answer; NaN where it was not scored.
            distractors: ``[cell, item]`` log probability of the best distractor.
        """
        scored = ~(np.isnan(scores) | np.isnan(distractors))
        with np.errstate(invalid="ignore"):
            kinds = [
                scored & (scores != distractors),
                scored & (scores > distractors),
                scored,
                scored & (np.exp(scores) - np.exp(distractors) > _SENSITIVE),
            ]
        return self._sums(kinds)

    def count_changes(self, ranks: NDArray[np.integer[Any]], scores: Floats, before: Floats) -> Floats:
        """``[…, 3]`` items scored; items with another prediction in a changed text; the sum of lost probability.

        Args:
            ranks: ``[cell, item]`` rank in the changed text of the word predicted before it; 0 where not scored.
            scores: ``[cell, item]`` its log probability in the changed text.
            before: ``[cell, item]`` its log probability in the original text.
        """
        scored = ranks > 0
        lost = np.where(scored, np.exp(np.where(scored, before, 0)) - np.exp(np.where(scored, scores, 0)), 0.0)
        return self._sums([scored, scored & (ranks > 1), lost])

    def count_agreement(self, pred: NDArray[np.integer[Any]], ranks: NDArray[np.integer[Any]]) -> Floats:
        """``[…, 4]`` pairs of items of one cluster and group; pairs with the same prediction; clusters; clusters whose
        items are all correct (Elazar et al. 2021, section 4.2). Clusters of one item have no pair.

        Args:
            pred: ``[cell, item]`` number of the predicted word.
            ranks: ``[cell, item]`` rank of the correct answer; 0 where an item was not scored.
        """
        scored, correct = ranks > 0, ranks == 1
        counts = np.zeros((len(pred), self.n_clusters * self.n_groups, 4))
        for cell in range(len(pred)):
            place = self._place[scored[cell]]
            n = np.bincount(place, minlength=counts.shape[1])
            # Of every word that is predicted n times in a cluster, n (n − 1) / 2 pairs agree.
            keys, times = np.unique(np.stack([place, pred[cell, scored[cell]]]), axis=1, return_counts=True)
            agreeing = np.bincount(keys[0], weights=times * (times - 1) / 2, minlength=counts.shape[1])
            n_correct = np.bincount(self._place[correct[cell]], minlength=counts.shape[1])
            counts[cell] = np.stack([n * (n - 1) / 2, agreeing, n > 0, (n > 0) & (n_correct == n)], axis=1)
        return counts.reshape(len(pred), self.n_clusters, self.n_groups, 4)

    @property
    def _place(self) -> NDArray[np.int64]:
        """``[item]`` number of its pair of cluster and group."""
        return np.asarray(np.asarray(self.cluster, dtype=np.int64) * self.n_groups + self.group)

    def _sums(self, kinds: Sequence[NDArray[Any]]) -> Floats:
        """Sums of ``[cell, item]`` kinds."""
        place, size = self._place, self.n_clusters * self.n_groups
        sums = [[np.bincount(place, weights=values, minlength=size) for values in kind] for kind in kinds]
        shape = len(kinds[0]), self.n_clusters, self.n_groups, len(kinds)
        return np.stack(sums, axis=-1).reshape(shape).astype(np.float64, copy=False)


def mean_over_groups(name: str, description: str, *, of: Metric, which: Callable[[str], bool]) -> Metric:
    """A metric of a cloze task, a mean like ``of``, over the groups whose names ``which`` accepts."""

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        members = [number for number, label in enumerate(labels) if which(label)]
        return of(counts[..., members, :])

    return Metric(name, of.higher_is_better, description, score, of.count_kind, which, bounds=of.bounds)


def _mean(numerator: int, denominator: int, counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """The mean over groups of one kind of counts over another."""
    occurs = counts[..., denominator] > 0
    shares = ratio(counts[..., numerator], counts[..., denominator])
    return ratio(np.where(occurs, shares, 0.0).sum(axis=-1), occurs.sum(axis=-1))


def _metric(name: str, count_kind: CountKind, score: tuple[Callable[..., Floats], int, int], what: str) -> Metric:
    over = "over all items" if name.startswith("micro_") else "its mean over groups"
    function, numerator, denominator = score
    bounds: Bounds = "correlation" if name == "probability_lost" else "share"
    return Metric(name, True, f"{what}, {over}", partial(function, numerator, denominator), count_kind, bounds=bounds)


CLOZE_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _metric("p_at_1", "answers", (_mean, 1, 0), "share of answers that come first"),
        _metric("p_at_5", "answers", (_mean, 2, 0), "share of answers among the first 5"),
        _metric("p_at_10", "answers", (_mean, 3, 0), "share of answers among the first 10"),
        _metric("p_at_100", "answers", (_mean, 4, 0), "share of answers among the first 100"),
        _metric("mrr", "answers", (_mean, 5, 0), "one over the answer's place"),
        _metric("micro_p_at_1", "answers", (ratio_of_sums, 1, 0), "share of answers that come first"),
        _metric("micro_mrr", "answers", (ratio_of_sums, 5, 0), "one over the answer's place"),
        _metric("choice_accuracy", "choices", (_mean, 1, 0), "share of choices that are right, ties left out"),
        _metric("micro_choice_accuracy", "choices", (ratio_of_sums, 1, 0), "share of choices that are right"),
        _metric("sensitivity", "choices", (_mean, 3, 2), "share of items whose answer is more probable by over 0.01"),
        _metric("consistency", "agreement", (_mean, 1, 0), "share of pairs of phrasings that are answered alike"),
        _metric("all_right", "agreement", (_mean, 3, 2), "share of facts that are right in all phrasings"),
        _metric("moved", "changes", (_mean, 1, 0), "share of items whose best word is another one in the changed text"),
        _metric(
            "probability_lost", "changes", (_mean, 2, 0), "probability that the best word loses in the changed text"
        ),
    )
}
"""The metrics of cloze probes, by name."""
