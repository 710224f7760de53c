"""What the loss and the score of a task become without one head, or without a layer's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.attention import HeadRatios
from bertology.attention.importance._names import Way, Without
from bertology.attention.importance._scores import TaskScores, scores_without
from bertology.attention.importance._task import ScoredTask
from bertology.errors import ModelError

Floats = NDArray[np.float64]
DELTAS = ("delta_loss_bits", "delta_accuracy")
"""Changes of the loss, above 0 where heads are missed, and of the score, below 0 where they are; means over items."""
REDUCED = ("all off", "all but one off")


def leave_one_out(
    task: ScoredTask,
    *,
    ways: Sequence[Way] = ("off",),
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> tuple[HeadRatios, HeadRatios]:
    """What a task's loss and score change by when one head is disabled, on the same items (Michel et al. 2019, §3.2).

    Args:
        task: what the model does.
        ways: how: ``"off"`` gates a head by 0; with ``"uniform"`` it attends to every piece alike (Kovaleva et al.
            2019, section 4.4), in families that are built as BERT is.
        layers: whose heads, from 1; all when left out.
        progress: told how many passes are done.

    Returns:
        ``delta_loss_bits`` and ``delta_accuracy`` of each head, a statistic a way.

    Raises:
        ModelError: a layer that the model does not have, or its heads cannot be disabled in that way.
    """
    chosen, n_heads = checked_layers(task, layers), task.encoder.n_heads
    _check_ways(ways)
    heads = [(layer, head) for layer in chosen for head in range(1, n_heads + 1)]
    states = [Without(frozenset({head}), way) for way in ways for head in heads]
    scores = scores_without(task, [Without(), *states], progress=progress)
    loss, score = _changes(scores, shape=(len(ways), len(chosen), n_heads, task.n_clusters))
    under = np.broadcast_to(scores.items, (len(ways), 1, 1, task.n_clusters))
    return (
        HeadRatios(tuple(ways), chosen, loss, under, metric=DELTAS[0]),
        HeadRatios(tuple(ways), chosen, score, under, metric=DELTAS[1]),
    )


def leave_one_layer_out(
    task: ScoredTask,
    importance: Floats,
    *,
    way: Way = "off",
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> tuple[HeadRatios, HeadRatios]:
    """What a task's loss and score change by when a layer keeps none of its heads, or its most important one alone.

    What comes into a layer still passes it by, and its feed-forward part still works (whole layers: Kovaleva et al.
    2019, section 4.4; layers of one head: Michel et al. 2019, section 3.3).

    Args:
        task: what the model does.
        importance: ``[layer, head]`` of all layers, as ``head_importance(task).of("importance")``.
        way: how heads are disabled.
        layers: from 1; all when left out.
        progress: told how many passes are done.

    Returns:
        ``delta_loss_bits`` and ``delta_accuracy`` of each layer, the statistics ``all off`` and ``all but one off``.

    Raises:
        ModelError: a layer that the model does not have, importances of another model, or the heads cannot be disabled
            in that way.
    """
    check_importance(task, importance)
    _check_ways([way])
    chosen = checked_layers(task, layers)
    all_of = {layer: frozenset((layer, head + 1) for head in range(task.encoder.n_heads)) for layer in chosen}
    best = {layer: (layer, int(importance[layer - 1].argmax()) + 1) for layer in chosen}
    states = [Without(all_of[layer], way) for layer in chosen]
    states += [Without(all_of[layer] - {best[layer]}, way) for layer in chosen]
    scores = scores_without(task, [Without(), *states], progress=progress)
    loss, score = _changes(scores, shape=(len(REDUCED), len(chosen), 1, task.n_clusters))
    under = np.broadcast_to(scores.items, (len(REDUCED), 1, 1, task.n_clusters))
    return (
        HeadRatios(REDUCED, chosen, loss, under, metric=DELTAS[0], unit="layer"),
        HeadRatios(REDUCED, chosen, score, under, metric=DELTAS[1], unit="layer"),
    )


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
            "head_importance finds them"
        )


def _changes(scores: TaskScores, *, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Changes of loss and score from the first state."""
    return (scores.bits[1:] - scores.bits[0]).reshape(shape), (scores.right[1:] - scores.right[0]).reshape(shape)


def _check_ways(ways: Sequence[Way]) -> None:
    known = get_args(Way)
    if not ways or set(ways) - set(known):
        raise ModelError(f"ways to disable heads are {list(ways)}: give {' or '.join(known)}")
