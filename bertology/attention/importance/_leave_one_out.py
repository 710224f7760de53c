"""What the loss and the score of a task become without one head, or without a whole layer's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.attention._statistic import HeadRatios
from bertology.attention.importance._curve_ratios import CurveRatios
from bertology.attention.importance._names import Head, Way, Without
from bertology.attention.importance._scores import TaskScores, scores_without
from bertology.attention.importance._task import ScoredTask
from bertology.errors import ModelError

Floats = NDArray[np.float64]
DELTAS = ("delta_loss_bits", "delta_accuracy")


def leave_one_out(
    task: ScoredTask, *, way: Way = "zero", layers: Sequence[int] | None = None, progress: Progress = silent
) -> HeadRatios:
    """What a task's loss and score change by when one head is disabled, on the same items (Michel et al. 2019, §3.2).

    Args:
        task: what the model does.
        way: ``"zero"``, or ``"uniform"``: the head attends to every piece alike (Kovaleva et al. 2019, section 4.4),
            in families that are built as BERT is.
        layers: whose heads, from 1; all when left out.
        progress: told how many passes are done.

    Returns:
        ``delta_loss_bits``, above 0 where the head is missed, and ``delta_accuracy``, below 0 where it is; both a mean
        over items.

    Raises:
        ModelError: a layer that the model does not have, or its heads cannot be disabled in that way.
    """
    encoder = task.encoder
    chosen = checked_layers(task, layers)
    heads = [(layer, head) for layer in chosen for head in range(1, encoder.n_heads + 1)]
    states = [Without(frozenset()), *(Without(frozenset({head}), way) for head in heads)]
    over, under = deltas(scores_without(task, states, progress=progress))
    shape = (len(DELTAS), len(chosen), encoder.n_heads, task.n_clusters)
    return HeadRatios(DELTAS, chosen, over.reshape(shape), under[None, None, None].repeat(len(DELTAS), axis=0))


def without_layers(
    task: ScoredTask, *, way: Way = "zero", layers: Sequence[int] | None = None, progress: Progress = silent
) -> CurveRatios:
    """What a task's loss and score change by when all heads of a layer are disabled, layer by layer.

    The residual stream still passes the layer by, and its feed-forward part still works (Kovaleva et al. 2019, section
    4.4, disable whole layers by uniform attention).

    Args:
        task: what the model does.
        way: how heads are disabled.
        layers: from 1; all when left out.
        progress: told how many passes are done.
    """
    chosen = checked_layers(task, layers)
    groups = [f"layer {layer}, no head" for layer in chosen]
    states = [Without(_heads(task, layer), way) for layer in chosen]
    return _delta_curve(task, groups, states, progress)


def layers_of_one_head(
    task: ScoredTask,
    importance: Floats,
    *,
    way: Way = "zero",
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> CurveRatios:
    """What a task's loss and score change by when a layer keeps its most important head alone (Michel et al. 2019, §3.3).

    Args:
        task: what the model does.
        importance: ``[layer, head]`` of all layers.
        way: how the other heads are disabled.
        layers: from 1; all when left out.
        progress: told how many passes are done.
    """
    check_importance(task, importance)
    chosen = checked_layers(task, layers)
    best = {layer: int(importance[layer - 1].argmax()) + 1 for layer in chosen}
    groups = [f"layer {layer}, head {best[layer]} alone" for layer in chosen]
    states = [Without(_heads(task, layer) - {(layer, best[layer])}, way) for layer in chosen]
    return _delta_curve(task, groups, states, progress)


def deltas(scores: TaskScores) -> tuple[Floats, Floats]:
    """``[statistic, state, cluster]`` changes of loss and score from the first state, and ``[cluster]`` items."""
    return np.stack([scores.bits[1:] - scores.bits[0], scores.right[1:] - scores.right[0]]), scores.items


def checked_layers(task: ScoredTask, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Layers in ascending order, each once.

    Raises:
        ModelError: one of them the model does not have, or there is none.
    """
    n_layers = task.encoder.n_layers
    chosen = tuple(range(1, n_layers + 1)) if layers is None else tuple(sorted(set(layers)))
    wrong = [layer for layer in chosen if not 1 <= layer <= n_layers]
    if wrong or not chosen:
        asked = f"layer {wrong[0]}" if wrong else "no layer"
        raise ModelError(f"{asked} asked for: heads of {task.encoder.name} are in layers 1…{n_layers}")
    return chosen


def check_importance(task: ScoredTask, importance: Floats) -> None:
    """Refuse importances that are not one finite number for each head.

    Raises:
        ModelError: they are not.
    """
    shape = (task.encoder.n_layers, task.encoder.n_heads)
    if importance.shape != shape or not np.isfinite(importance).all():
        raise ModelError(
            f"importances are {list(importance.shape)}: give finite numbers [layer, head], {list(shape)}, as "
            "head_importance(task).of('importance') is"
        )


def _heads(task: ScoredTask, layer: int) -> frozenset[Head]:
    return frozenset((layer, head) for head in range(1, task.encoder.n_heads + 1))


def _delta_curve(
    task: ScoredTask, groups: Sequence[str], states: Sequence[Without], progress: Progress
) -> CurveRatios:
    scores = scores_without(task, [Without(frozenset()), *states], progress=progress)
    over, under = deltas(scores)
    return CurveRatios.of_groups(DELTAS, groups, over, under)
