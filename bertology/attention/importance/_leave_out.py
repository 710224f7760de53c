"""What a task loses without one head, without a layer's heads, or with more and more heads disabled."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from bertology.activations import Progress, silent
from bertology.attention._pass import checked_layers
from bertology.attention._ratios import Floats, HeadRatios
from bertology.attention.importance._tasks import ScoredTask, TaskBatch, summed
from bertology.encoders import Encoder
from bertology.encoders.interventions import Replay, check_gates, head_projection, value_projection, watching
from bertology.errors import ModelError

SCORES = ("loss_bits", "accuracy")
DELTAS = ("delta_loss_bits", "delta_accuracy")
"""Changes of the loss, above 0 where heads are missed, and of the score, below 0 where they are; means over items."""
REDUCED = ("all off", "all but one off")
ORDERS = ("least important", "most important", "random")
"""Which heads are off."""

Head = tuple[int, int]
"""Layer and head, both from 1."""
Way = Literal["off", "uniform"]
"""Gated by 0 (Michel et al. 2019), or made to attend to everything alike (Kovaleva et al. 2019)."""


def leave_one_out(
    task: ScoredTask,
    *,
    ways: Sequence[Way] = ("off",),
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> tuple[HeadRatios, HeadRatios]:
    """The change of a task's loss and score when one head is disabled, on the same items (Michel et al. 2019, §3.2).

    Args:
        task: of the model.
        ways: how: ``"off"`` gates a head by 0; with ``"uniform"`` it attends to every piece alike (Kovaleva et al.
            2019, section 4.4), in families that are built as BERT is.
        layers: whose heads, from 1; all when left out.
        progress: counts passes.

    Returns:
        ``delta_loss_bits`` and ``delta_accuracy`` of each head, a statistic a way.

    Raises:
        ModelError: a layer that the model does not have, or its heads cannot be disabled in that way.
    """
    known, chosen = get_args(Way), checked_layers(task.encoder, layers)
    if not ways or set(ways) - set(known):
        raise ModelError(f"ways to disable heads are {list(ways)}: give {' or '.join(known)}")
    heads = product(chosen, range(1, task.encoder.n_heads + 1))
    states = [Without(frozenset({head}), way) for way, head in product(ways, heads)]
    return _changes(scores_without(task, [Without(), *states], progress=progress), tuple(ways), chosen, "head")


def leave_one_layer_out(
    task: ScoredTask,
    importance: Floats,
    *,
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> tuple[HeadRatios, HeadRatios]:
    """The change of a task's loss and score when a layer keeps none of its heads, or its most important one alone.

    What comes into a layer still passes it by, and its feed-forward part still works (whole layers: Kovaleva et al.
    2019, section 4.4; layers of one head: Michel et al. 2019, section 3.3).

    Args:
        task: of the model.
        importance: ``[layer, head]`` of all layers, as ``head_importance(task).of("importance")``.
        layers: from 1; all when left out.
        progress: counts passes.

    Returns:
        ``delta_loss_bits`` and ``delta_accuracy`` of each layer, the statistics ``all off`` and ``all but one off``.

    Raises:
        ModelError: a layer that the model does not have, importances of another model, or heads that cannot be gated.
    """
    _check_importance(task, importance)
    chosen = checked_layers(task.encoder, layers)
    all_of = {layer: frozenset((layer, head + 1) for head in range(task.encoder.n_heads)) for layer in chosen}
    best = {layer: (layer, int(importance[layer - 1].argmax()) + 1) for layer in chosen}
    states = [Without(all_of[layer]) for layer in chosen]
    states += [Without(all_of[layer] - {best[layer]}) for layer in chosen]
    return _changes(scores_without(task, [Without(), *states], progress=progress), REDUCED, chosen, "layer")


def pruning_curves(
    task: ScoredTask,
    importance: HeadRatios,
    *,
    n_steps: int = 10,
    seeds: Sequence[int] = (0, 1, 2),
    folds: int = 2,
    progress: Progress = silent,
) -> tuple[HeadRatios, ...]:
    """The loss and score of a task as more and more heads are disabled (Michel et al. 2019, section 4.2).

    Three orders: the least important heads first; the most important first; and at random, the mean over several
    orders. So that no order has seen what it is scored on, heads are ranked anew for each fold of the clusters by
    their importance in the others.

    Args:
        task: of the model.
        importance: of :func:`head_importance`, for all layers and over the task's own clusters.
        n_steps: from the whole model to none of its heads: 10 % of them at a time.
        seeds: of the random orders.
        folds: of the clusters; 1 ranks and scores on the same items.
        progress: counts passes.

    Returns:
        ``loss_bits`` and ``accuracy``, means over items, then how much they differ from those of the whole model on the
        same items, ``delta_loss_bits`` and ``delta_accuracy``, whose intervals tell from where on heads are missed.
        Statistics are named by the heads that are off, such as ``least important 10 %``.

    Raises:
        ModelError: importances that do not fit the task, no step or order, or folds without clusters.
    """
    ranks = importance.over[importance.names.index("importance")]  # [layer, head, cluster]
    _check(task, ranks, n_steps, seeds, folds)
    heads = list(product(range(1, len(ranks) + 1), range(1, ranks.shape[1] + 1)))
    orders = []  # [fold, upwards and downwards]
    for fold in range(folds):
        known = np.arange(task.n_clusters) % folds != fold if folds > 1 else np.ones(task.n_clusters, dtype=bool)
        rising = np.argsort(ranks[..., known].sum(-1).ravel(), kind="stable")
        orders += [rising, rising[::-1]]
    orders += [np.random.default_rng(seed).permutation(len(heads)) for seed in seeds]
    sizes = [round(step / n_steps * len(heads)) for step in range(n_steps + 1)]
    states = [Without(frozenset(heads[number] for number in order[:size])) for order in orders for size in sizes]
    bits, right, items = scores_without(task, states, progress=progress)
    percents = [f"{100 * step / n_steps:.3g} %" for step in range(n_steps + 1)]
    names = tuple(f"{order} {percent}" for order in ORDERS for percent in percents)
    under = np.broadcast_to(items, (len(names), 1, 1, task.n_clusters))
    curves = [_curves(sums, len(orders), folds) for sums in (bits, right)]
    # The first state of every order is the whole model.
    changes = [curve - sums[:1] for curve, sums in zip(curves, (bits, right), strict=True)]
    return tuple(
        HeadRatios(names, (), over[:, None, None], under, metric=metric, unit="model")
        for metric, over in zip((*SCORES, *DELTAS), (*curves, *changes), strict=True)
    )


def _curves(sums: Floats, n_orders: int, folds: int) -> Floats:
    """Each cluster's sums from the orders of its fold: ``[order · step, cluster]``."""
    by_order = sums.reshape(n_orders, -1, sums.shape[-1])  # [order, step, cluster]
    ranked = by_order[: 2 * folds].reshape(folds, 2, -1, sums.shape[-1])
    fold = np.arange(sums.shape[-1]) % folds
    mine = np.take_along_axis(ranked, fold[None, None, None], axis=0)[0]  # [up or down, step, cluster]
    return np.concatenate([mine, by_order[2 * folds :].mean(0, keepdims=True)]).reshape(-1, sums.shape[-1])


def _check(task: ScoredTask, ranks: Floats, n_steps: int, seeds: Sequence[int], folds: int) -> None:
    _check_importance(task, ranks.sum(-1))
    if ranks.shape[-1] != task.n_clusters:
        raise ModelError(
            f"importances are of {ranks.shape[-1]} clusters and the task of {task.n_clusters}: give those that "
            "head_importance finds for this task"
        )
    if n_steps < 1 or not seeds:
        raise ModelError(f"{n_steps} steps and {len(seeds)} random orders: give at least one of each")
    if not 1 <= folds <= task.n_clusters:
        raise ModelError(f"{folds} folds of {task.n_clusters} clusters: give 1 … {task.n_clusters}")


def _check_importance(task: ScoredTask, importance: Floats) -> None:
    shape = (task.encoder.n_layers, task.encoder.n_heads)
    if importance.shape != shape or not np.isfinite(importance).all():
        raise ModelError(
            f"importances are {list(importance.shape)}: give finite numbers [layer, head], {list(shape)}, as "
            "head_importance finds them"
        )


def _changes(
    scores: TaskScores, names: tuple[str, ...], layers: tuple[int, ...], unit: Literal["head", "layer"]
) -> tuple[HeadRatios, HeadRatios]:
    """Changes of loss and score from the first state; the others are in order of names, layers and heads, if any."""
    *sums, items = scores
    under = np.broadcast_to(items, (len(names), 1, 1, len(items)))
    loss, score = (
        HeadRatios(names, layers, (of[1:] - of[0]).reshape(len(names), len(layers), -1, len(items)), under, delta, unit)
        for of, delta in zip(sums, DELTAS, strict=True)
    )
    return loss, score


@dataclass(frozen=True)
class Without:
    """A model with some heads disabled."""

    heads: frozenset[Head] = frozenset()
    """By layer and head; the whole model where there are none."""
    way: Way = "off"


class TaskScores(NamedTuple):
    """Sums over the items of each cluster of sentences, for several states of a model."""

    bits: Floats  # [state, cluster] loss
    right: Floats  # [state, cluster] number of items on which the model was correct
    items: Floats  # [cluster] number of items


def scores_without(task: ScoredTask, states: Sequence[Without], *, progress: Progress = silent) -> TaskScores:
    """Scores of a task with each of some sets of heads disabled, on the same items.

    Each batch is read once by the whole model; then, for every state, only from the first layer with a disabled head,
    since nothing below has changed. A batch goes to a core.
    """
    distinct = list(dict.fromkeys(states))
    encoder = task.encoder
    for state in distinct:
        check_gates(dict.fromkeys(state.heads, 0.0), n_layers=encoder.n_layers, n_heads=encoder.n_heads)
        if state.way == "uniform":
            value_projection(encoder.model.blocks[0], encoder.family)

    def add(reader: Encoder, batch: TaskBatch, sums: Sequence[Floats]) -> None:
        loss, right, items = sums
        replay = Replay(reader.model.body, reader.model.blocks)
        with replay.recording():
            whole = batch.ask(reader)
        cluster = batch.clusters[whole.rows.cpu().numpy()]
        np.add.at(items, cluster, 1)
        for number, state in enumerate(distinct):
            answers = whole
            if state.heads:
                lowest, off = min(layer for layer, _ in state.heads), dict.fromkeys(state.heads, 0.0)
                is_uniform = state.way == "uniform"
                disabled = uniform_heads(reader, state.heads) if is_uniform else reader.gated_heads(off)
                with replay.from_layer(lowest), disabled:
                    answers = batch.ask(reader)
            bits = answers.nats.cpu().double().numpy() / math.log(2)
            loss[number] += np.bincount(cluster, weights=bits, minlength=len(items))
            right[number] += np.bincount(cluster, weights=answers.right.cpu().numpy(), minlength=len(items))
            progress.advance(1)

    by_state = len(distinct), task.n_clusters
    loss, right, items = summed(task, [by_state, by_state, by_state[1:]], add, passes=len(distinct), progress=progress)
    place = [distinct.index(state) for state in states]
    return TaskScores(loss[place], right[place], items)


@contextlib.contextmanager
def uniform_heads(encoder: Encoder, heads: frozenset[Head]) -> Iterator[None]:
    """Replace the attention of some heads by the same weight for every piece but padding, in passes inside the block
    (Kovaleva et al. 2019, section 4.4): the output of such a head is the mean of its values."""
    check_gates(dict.fromkeys(heads, 1.0), n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    n_heads = encoder.n_heads
    state: dict[str, Tensor | None] = {"mask": None, "values": None}

    def keep_mask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state["mask"] = args[1] if len(args) > 1 else kwargs.get("attention_mask")

    def keep_values(module: nn.Module, args: Any, output: Tensor) -> None:
        state["values"] = output

    def put_mean(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        chosen = [head - 1 for layer, head in heads if layer == watch.current]
        if not chosen:
            return None
        # [batch, 1, head, dim / head]
        mean = _mean(state["values"], state["mask"]).unflatten(-1, (n_heads, -1))  # type: ignore[no-untyped-call]
        is_chosen = torch.zeros(n_heads, dtype=torch.bool, device=mean.device)
        is_chosen[chosen] = True
        computed = args[0].unflatten(-1, (n_heads, -1))
        return (torch.where(is_chosen[:, None], mean, computed).flatten(-2), *args[1:])

    with watching(encoder.model.body, encoder.model.blocks) as watch, contextlib.ExitStack() as stack:
        stack.callback(encoder.model.body.register_forward_pre_hook(keep_mask, with_kwargs=True).remove)
        for block in dict.fromkeys(encoder.model.blocks):
            values, projection = value_projection(block, encoder.family), head_projection(block, encoder.family)
            stack.callback(values.register_forward_hook(keep_values).remove)
            stack.callback(projection.register_forward_pre_hook(put_mean).remove)
        yield


def _mean(values: Tensor | None, mask: Tensor | None) -> Tensor:
    """``[batch, 1, dim]`` over the pieces that are not padding."""
    assert values is not None, "values are projected before the heads are mixed"
    if mask is None:
        return values.mean(1, keepdim=True)
    real = mask[:, :, None].to(values)
    return (values * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
