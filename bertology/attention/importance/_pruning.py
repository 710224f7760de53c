"""Heads taken out a tenth at a time, in one order or another (Michel et al. 2019, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.attention import HeadRatios
from bertology.attention.importance._leave_one_out import DELTAS, check_importance
from bertology.attention.importance._names import Head, Way, Without
from bertology.attention.importance._scores import scores_without
from bertology.attention.importance._task import ScoredTask
from bertology.errors import ModelError

Floats = NDArray[np.float64]
ORDERS = ("least important", "most important", "random")
"""Which heads are off."""
SCORES = ("loss_bits", "accuracy")


def pruning_curves(
    task: ScoredTask,
    importance: HeadRatios,
    *,
    by: str = "importance",
    n_steps: int = 10,
    seeds: Sequence[int] = (0, 1, 2),
    folds: int = 2,
    way: Way = "off",
    progress: Progress = silent,
) -> tuple[HeadRatios, ...]:
    """The loss and score of a task as more and more heads are disabled (Michel et al. 2019, section 4.2).

    Three orders: the least important heads first; the most important first; and at random, the mean over several
    orders. So that no order has seen what it is scored on, heads are ranked anew for each fold of the clusters by
    their importance in the others.

    Args:
        task: what the model does.
        importance: of :func:`head_importance`, for all layers and over the task's own clusters.
        by: which of its statistics ranks heads.
        n_steps: from the whole model to none of its heads: 10 % of them at a time.
        seeds: of the random orders.
        folds: of the clusters; 1 ranks and scores on the same items.
        way: how heads are disabled.
        progress: told how many passes are done.

    Returns:
        ``loss_bits`` and ``accuracy``, means over items, then how much they differ from those of the whole model on the
        same items, ``delta_loss_bits`` and ``delta_accuracy``, whose intervals tell from where on heads are missed.
        Statistics are called by the heads that are off, such as ``least important 10 %``.

    Raises:
        ModelError: importances that do not fit the task, no step or order, or folds without clusters.
    """
    ranks = importance.over[importance.names.index(by)]  # [layer, head, cluster]
    _check(task, ranks, n_steps, seeds, folds)
    heads = [(layer, head) for layer in range(1, len(ranks) + 1) for head in range(1, ranks.shape[1] + 1)]
    orders = []  # [fold, upwards and downwards]
    for fold in range(folds):
        known = np.arange(task.n_clusters) % folds != fold if folds > 1 else np.ones(task.n_clusters, dtype=bool)
        rising = np.argsort(ranks[..., known].sum(-1).ravel(), kind="stable")
        orders += [rising, rising[::-1]]
    orders += [np.random.default_rng(seed).permutation(len(heads)) for seed in seeds]
    states = [
        Without(frozenset(_first(heads, order, step / n_steps)), way) for order in orders for step in range(n_steps + 1)
    ]
    scores = scores_without(task, states, progress=progress)
    percents = [f"{100 * step / n_steps:.3g} %" for step in range(n_steps + 1)]
    names = tuple(f"{order} {percent}" for order in ORDERS for percent in percents)
    under = np.broadcast_to(scores.items, (len(names), 1, 1, task.n_clusters))
    curves = [_curves(sums, len(orders), folds) for sums in (scores.bits, scores.right)]
    # The first state of every order is the whole model.
    changes = [curve - sums[:1] for curve, sums in zip(curves, (scores.bits, scores.right), strict=True)]
    return tuple(
        HeadRatios(names, (), over[:, None, None], under, metric=metric, unit="model")
        for metric, over in zip((*SCORES, *DELTAS), (*curves, *changes), strict=True)
    )


def _first(heads: Sequence[Head], order: NDArray[np.int64], share: float) -> list[Head]:
    return [heads[number] for number in order[: round(share * len(heads))]]


def _curves(sums: Floats, n_orders: int, folds: int) -> Floats:
    """Each cluster's sums from the orders of its fold: ``[order · step, cluster]``."""
    by_order = sums.reshape(n_orders, -1, sums.shape[-1])  # [order, step, cluster]
    ranked = by_order[: 2 * folds].reshape(folds, 2, -1, sums.shape[-1])
    fold = np.arange(sums.shape[-1]) % folds
    mine = np.take_along_axis(ranked, fold[None, None, None], axis=0)[0]  # [up or down, step, cluster]
    return np.concatenate([mine, by_order[2 * folds :].mean(0, keepdims=True)]).reshape(-1, sums.shape[-1])


def _check(task: ScoredTask, ranks: Floats, n_steps: int, seeds: Sequence[int], folds: int) -> None:
    check_importance(task, ranks.sum(-1))
    if ranks.shape[-1] != task.n_clusters:
        raise ModelError(
            f"importances are of {ranks.shape[-1]} clusters and the task of {task.n_clusters}: give those that "
            "head_importance finds for this task"
        )
    if n_steps < 1 or not seeds:
        raise ModelError(f"{n_steps} steps and {len(seeds)} random orders: give at least one of each")
    if not 1 <= folds <= task.n_clusters:
        raise ModelError(f"{folds} folds of {task.n_clusters} clusters: give 1 … {task.n_clusters}")
