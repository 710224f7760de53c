"""A task done with some heads disabled: gated by 0, or made to attend to everything alike."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bertology.activations import Progress, silent
from bertology.attention._ratios import Floats
from bertology.attention.importance._task import ScoredTask, TaskBatch, summed
from bertology.encoders import Encoder
from bertology.encoders.interventions import Replay, check_gates, head_projection, value_projection, watching

Head = tuple[int, int]
"""Layer and head, both from 1."""
Way = Literal["off", "uniform"]
"""Gated by 0 (Michel et al. 2019), or made to attend to everything alike (Kovaleva et al. 2019)."""


@dataclass(frozen=True)
class Without:
    """A model with some heads disabled."""

    heads: frozenset[Head] = frozenset()
    """By layer and head; the whole model where there are none."""
    way: Way = "off"

    @property
    def lowest(self) -> int | None:
        """The first layer with a disabled head; None where there is none."""
        return min((layer for layer, _ in self.heads), default=None)


@dataclass(frozen=True, eq=False)
class TaskScores:
    """Sums over the items of each cluster of sentences, for several states of a model."""

    bits: Floats
    """``[state, cluster]`` loss."""
    right: Floats
    """``[state, cluster]`` number of items on which the model was correct."""
    items: Floats
    """``[cluster]`` number of items."""


def scores_without(task: ScoredTask, states: Sequence[Without], *, progress: Progress = silent) -> TaskScores:
    """Scores of a task with each of some sets of heads disabled, on the same items.

    Each batch is read once by the whole model; then, for every state, only from the first layer with a disabled head,
    since nothing below has changed. A batch goes to a core.

    Args:
        task: of the model.
        states: each a set of heads that are disabled together.
        progress: counts passes.

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


@contextlib.contextmanager
def uniform_heads(encoder: Encoder, heads: frozenset[Head]) -> Iterator[None]:
    """Replace the attention of some heads by the same weight for every piece but padding, in passes inside the block
    (Kovaleva et al. 2019, section 4.4).

    The output of such a head is the mean of its values, the same for every piece; so the values are read, and their
    mean replaces what the head would have computed.

    Args:
        encoder: of a family that is built as BERT is.
        heads: by (layer, head), both from 1.

    Raises:
        ModelError: a head that the model does not have, or it is not known where the family has its values.
    """
    check_gates(dict.fromkeys(heads, 1.0), n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    blocks, n_heads = list(dict.fromkeys(encoder.model.blocks)), encoder.n_heads
    state: dict[str, Tensor | None] = {"mask": None, "values": None}

    def keep_mask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state["mask"] = args[1] if len(args) > 1 else kwargs.get("attention_mask")

    def keep_values(module: nn.Module, args: Any, output: Tensor) -> None:
        state["values"] = output

    def put_mean(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        own = [head for layer, head in heads if layer == watch.current]
        if not own:
            return None
        # [batch, 1, head, dim / head]
        mean = _mean(state["values"], state["mask"]).unflatten(-1, (n_heads, -1))  # type: ignore[no-untyped-call]
        chosen = torch.zeros(n_heads, dtype=torch.bool, device=mean.device)
        chosen[[head - 1 for head in own]] = True
        given = args[0].unflatten(-1, (n_heads, -1))
        return (torch.where(chosen[:, None], mean, given).flatten(-2), *args[1:])

    with watching(encoder.model.body, encoder.model.blocks) as watch, contextlib.ExitStack() as stack:
        stack.callback(encoder.model.body.register_forward_pre_hook(keep_mask, with_kwargs=True).remove)
        for block in blocks:
            values = value_projection(block, encoder.family)
            stack.callback(values.register_forward_hook(keep_values).remove)
            projection = head_projection(block, encoder.family)
            stack.callback(projection.register_forward_pre_hook(put_mean).remove)
        yield


def _mean(values: Tensor | None, mask: Tensor | None) -> Tensor:
    """``[batch, 1, dim]`` over the pieces that are not padding."""
    assert values is not None, "values are projected before the heads are mixed"
    if mask is None:
        return values.mean(1, keepdim=True)
    real = mask[:, :, None].to(values)
    return (values * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
