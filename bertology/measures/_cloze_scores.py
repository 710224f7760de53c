"""Scores of what a masked language model says: places of answers, choices between two, agreement, what a change moves.

An item belongs to a group (a relation, a construction) and to a cluster (a fact, a frame). Scores are means over the
groups of what is found in each, as the papers report them, or over all items where they are called micro.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures._metric import Floats, Metric, ratio

_PLACES = 1, 5, 10, 100
_SENSITIVE = 0.01
"""By which a probability must be higher than another to be told from it (Ettinger 2020, section 5.2)."""


@dataclass(frozen=True)
class Grouped:
    """Where items belong."""

    cluster: NDArray[np.integer[Any]]
    """``[item]`` number of its cluster."""
    group: NDArray[np.integer[Any]]
    """``[item]`` number of its group."""
    n_clusters: int
    n_groups: int

    def sums(self, kinds: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """``[cell, cluster, group, kind]`` sums of ``[cell, item]`` kinds."""
        shape = (len(kinds[0]), self.n_clusters, self.n_groups, len(kinds))
        place = np.asarray(self.cluster, dtype=np.int64) * self.n_groups + self.group
        found = np.empty(shape)
        for number, kind in enumerate(kinds):
            for cell, values in enumerate(kind):
                counted = np.bincount(place, weights=values, minlength=self.n_clusters * self.n_groups)
                found[cell, :, :, number] = counted.reshape(self.n_clusters, self.n_groups)
        return found


def count_answers(ranks: NDArray[np.integer[Any]], items: Grouped) -> NDArray[np.float64]:
    """What metrics of answers are made of.

    Args:
        ranks: ``[cell, item]`` place of the right answer, 1 for the first; 0 where an item was not scored.
        items: where they belong.

    Returns:
        ``[cell, cluster, group, 6]``: items scored; those whose answer is among the first 1, 5, 10 and 100; the sum
        of one over the place.
    """
    there = ranks > 0
    kinds = [there, *(there & (ranks <= most) for most in _PLACES), ratio(there, np.where(there, ranks, 1))]
    return items.sums(kinds)


def count_choices(scores: Floats, rivals: Floats, items: Grouped) -> NDArray[np.float64]:
    """What metrics of choices are made of. A tie is no choice: it counts neither as right nor as wrong.

    Args:
        scores: ``[cell, item]`` natural logarithm of the probability of what is right; NaN where it was not scored.
        rivals: ``[cell, item]`` that of the best of what is wrong.
        items: where they belong.

    Returns:
        ``[cell, cluster, group, 4]``: choices made; right ones; items scored; those in which the right probability is
        higher by more than 0.01.
    """
    there = ~(np.isnan(scores) | np.isnan(rivals))
    with np.errstate(invalid="ignore"):
        kinds = [
            there & (scores != rivals),
            there & (scores > rivals),
            there,
            there & (np.exp(scores) - np.exp(rivals) > _SENSITIVE),
        ]
    return items.sums(kinds)


def count_changes(ranks: NDArray[np.integer[Any]], scores: Floats, before: Floats, items: Grouped) -> Floats:
    """What is left of the word that was the best before a text was changed.

    Args:
        ranks: ``[cell, item]`` its place in the changed text; 0 where an item was not scored.
        scores: ``[cell, item]`` natural logarithm of its probability in the changed text.
        before: ``[cell, item]`` that in the text as it was.
        items: where they belong.

    Returns:
        ``[cell, cluster, group, 3]``: items scored; those in which another word is the best now; the sum of the
        probability lost.
    """
    there = ranks > 0
    lost = np.where(there, np.exp(np.where(there, before, 0)) - np.exp(np.where(there, scores, 0)), 0.0)
    return items.sums([there, there & (ranks > 1), lost])


def count_agreement(
    pred: NDArray[np.integer[Any]], ranks: NDArray[np.integer[Any]], items: Grouped
) -> NDArray[np.float64]:
    """How far the items of a cluster are answered alike (Elazar et al. 2021, section 4.2).

    Args:
        pred: ``[cell, item]`` number of the word that is predicted.
        ranks: ``[cell, item]`` place of the right answer; 0 where an item was not scored.
        items: where they belong; clusters of one item have no pair.

    Returns:
        ``[cell, cluster, group, 4]``: pairs of items of one cluster and group; those with the same prediction;
        clusters; those of which all items are right.
    """
    there, right = ranks > 0, ranks == 1
    n_places = items.n_clusters * items.n_groups
    place = np.asarray(items.cluster, dtype=np.int64) * items.n_groups + items.group
    found = np.zeros((len(pred), n_places, 4))
    for cell in range(len(pred)):
        kept = place[there[cell]]
        n = np.bincount(kept, minlength=n_places)
        # Of every word that is predicted n times in a cluster, n (n − 1) / 2 pairs agree.
        keys, times = np.unique(np.stack([kept, pred[cell, there[cell]]]), axis=1, return_counts=True)
        alike = np.bincount(keys[0], weights=times * (times - 1) / 2, minlength=n_places)
        n_right = np.bincount(place[right[cell]], minlength=n_places)
        found[cell] = np.stack([n * (n - 1) / 2, alike, n > 0, (n > 0) & (n_right == n)], axis=1)
    return found.reshape(len(pred), items.n_clusters, items.n_groups, 4)


def mean_over_groups(name: str, description: str, *, of: Metric, which: Callable[[str], bool]) -> Metric:
    """A metric of a cloze task over some of its groups.

    Args:
        name: what it is called.
        description: one line that says what is averaged over what.
        of: a metric that is a mean over groups.
        which: whether a group of that name takes part.
    """

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        members = [number for number, label in enumerate(labels) if which(label)]
        return of(counts[..., members, :])

    return Metric(name, of.higher_is_better, description, score, of.tally, which)


def _macro(over: int, under: int) -> Callable[[NDArray[Any], Sequence[str]], Floats]:
    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        there = counts[..., under] > 0
        shares = ratio(counts[..., over], np.where(there, counts[..., under], 0))
        return ratio(np.where(there, shares, 0.0).sum(axis=-1), there.sum(axis=-1))

    return score


def _micro(over: int, under: int) -> Callable[[NDArray[Any], Sequence[str]], Floats]:
    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        return ratio(counts[..., over].sum(axis=-1), counts[..., under].sum(axis=-1))

    return score


CLOZE_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(
            Metric(
                f"p_at_{most}",
                True,
                f"share of answers among the first {most}, its mean over groups"
                if most > 1
                else "share of answers that come first, its mean over groups",
                _macro(number, 0),
                "answers",
            )
            for number, most in enumerate(_PLACES, start=1)
        ),
        Metric("mrr", True, "one over the answer's place, its mean over groups", _macro(5, 0), "answers"),
        Metric("micro_p_at_1", True, "share of answers that come first, over all items", _micro(1, 0), "answers"),
        Metric("micro_mrr", True, "one over the answer's place, over all items", _micro(5, 0), "answers"),
        Metric(
            "choice_accuracy",
            True,
            "share of choices that are right, ties left out, its mean over groups",
            _macro(1, 0),
            "choices",
        ),
        Metric(
            "micro_choice_accuracy", True, "share of choices that are right, over all items", _micro(1, 0), "choices"
        ),
        Metric(
            "sensitivity",
            True,
            "share of items whose answer is more probable by over 0.01, its mean over groups",
            _macro(3, 2),
            "choices",
        ),
        Metric(
            "consistency",
            True,
            "share of pairs of phrasings that are answered alike, its mean over groups",
            _macro(1, 0),
            "agreement",
        ),
        Metric(
            "all_right",
            True,
            "share of facts that are right in all phrasings, its mean over groups",
            _macro(3, 2),
            "agreement",
        ),
        Metric(
            "moved",
            True,
            "share of items whose best word is another one in the changed text, its mean over groups",
            _macro(1, 0),
            "changes",
        ),
        Metric(
            "probability_lost",
            True,
            "probability that the best word loses in the changed text, its mean over groups",
            _macro(2, 0),
            "changes",
        ),
    )
}
"""The metrics of cloze probes, by name."""
