"""A task done with and without some heads."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.attention.importance._names import Without
from bertology.attention.importance._share import summed
from bertology.attention.importance._task import ScoredTask, TaskBatch
from bertology.attention.importance._uniform import uniform_heads
from bertology.encoders import Encoder
from bertology.encoders.interventions import Replay, check_gates, value_projection

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TaskScores:
    """Sums over the items of each cluster of sentences, for several states of a model."""

    bits: Floats
    """``[state, cluster]`` loss"""
    right: Floats
    """``[state, cluster]`` items that were done right"""
    items: Floats
    """``[cluster]``"""


def scores_without(task: ScoredTask, states: Sequence[Without], *, progress: Progress = silent) -> TaskScores:
    """Do a task with each of some sets of heads disabled, on the same items.

    Each batch is read once as it is; then, for every state, only from the first layer in which something is disabled,
    since nothing below has changed. A batch goes to a core.

    Args:
        task: what is done.
        states: the heads that are disabled, together.
        progress: told how many passes are done.

    Raises:
        ModelError: a head that the model does not have; or the family's heads cannot be disabled in that way.
    """
    distinct = list(dict.fromkeys(states))
    encoder = task.encoder
    for state in distinct:
        check_gates(dict.fromkeys(state.heads, 0.0), n_layers=encoder.n_layers, n_heads=encoder.n_heads)
        if state.way == "uniform":
            value_projection(encoder.model.blocks[0], encoder.family)

    def add(reader: Encoder, batch: TaskBatch, sums: Sequence[Floats]) -> None:
        _add_batch(reader, batch, distinct, sums, progress)

    by_state = len(distinct), task.n_clusters
    shapes = [by_state, by_state, (task.n_clusters,)]
    bits, right, items = summed(task, shapes, add, passes=len(distinct), progress=progress)
    place = [distinct.index(state) for state in states]
    return TaskScores(bits=bits[place], right=right[place], items=items)


def _add_batch(
    encoder: Encoder,
    batch: TaskBatch,
    states: Sequence[Without],
    sums: Sequence[Floats],
    progress: Progress,
) -> None:
    loss, right, items = sums
    replay = Replay(encoder.model.body, encoder.model.blocks)
    with replay.recording():
        whole = batch.ask(encoder)
    cluster = batch.clusters[whole.rows.cpu().numpy()]
    np.add.at(items, cluster, 1)
    for number, state in enumerate(states):
        answers = whole
        if state.lowest is not None:
            with replay.from_layer(state.lowest), _disabled(encoder, state):
                answers = batch.ask(encoder)
        bits = answers.nats.cpu().double().numpy() / math.log(2)
        loss[number] += np.bincount(cluster, weights=bits, minlength=len(items))
        right[number] += np.bincount(cluster, weights=answers.right.cpu().numpy(), minlength=len(items))
        progress.advance(1)


def _disabled(encoder: Encoder, state: Without) -> contextlib.AbstractContextManager[None]:
    if state.way == "uniform":
        return uniform_heads(encoder, state.heads)
    return encoder.gated_heads(dict.fromkeys(state.heads, 0.0))
