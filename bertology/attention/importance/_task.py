"""What a model does while its heads are measured: a loss and a score by item, from batches shared among cores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology._workers import Workers
from bertology.activations import Progress
from bertology.attention._ratios import Floats, Integers, Scope
from bertology.encoders import Encoder
from bertology.errors import ModelError

_MOST_WORKERS = 16
"""Each holds the activations of a batch, for a backward pass too."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Loss and score of the items of a batch."""

    nats: Tensor
    """``[item]`` loss, −ln of the probability of what is correct; gradients flow from it to the gates of heads."""
    right: Tensor
    """``[item]`` bool, whether the model is correct."""
    rows: Tensor
    """``[item]`` the row of the batch that each is in."""


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """A few texts, and how a model is scored on them."""

    ids: Tensor
    """``[row, piece]`` vocabulary numbers."""
    mask: Tensor | None
    """``[row, piece]`` 1 for pieces, 0 for padding; None where nothing is padded."""
    clusters: Integers
    """``[row]`` the cluster of sentences that each belongs to."""
    ask: Callable[[Encoder], Answers]
    """Read the texts with the task's encoder, or a twin of it, in its present state: heads gated, hooks on its blocks.
    """

    @property
    def real(self) -> Tensor:
        """``[row, piece]`` bool: all but padding."""
        return torch.ones_like(self.ids, dtype=torch.bool) if self.mask is None else self.mask.bool()


class ScoredTask(ABC):
    """A task that a model does item by item; the items are the same whatever is done to the model.

    Args:
        encoder: the model.
        n_texts: number of texts; of many some neighbours share a cluster.
    """

    def __init__(self, encoder: Encoder, n_texts: int) -> None:
        self._encoder = encoder
        self._scope = Scope(n_texts, tuple(range(1, encoder.n_layers + 1)), encoder.n_heads, "piece")

    @property
    @abstractmethod
    def batches(self) -> tuple[TaskBatch, ...]:
        """All items, each once."""

    @property
    def encoder(self) -> Encoder:
        """The model."""
        return self._encoder

    @property
    def n_clusters(self) -> int:
        """Number of clusters of texts over which scores are summed: one a text, as long as there are few enough."""
        return self._scope.n_clusters


AddBatch = Callable[[Encoder, TaskBatch, Sequence[Floats]], None]
"""Adds the results of a batch, computed with an encoder, to some sums."""


def summed(
    task: ScoredTask, shapes: Sequence[tuple[int, ...]], add: AddBatch, *, passes: int, progress: Progress
) -> list[Floats]:
    """Sums over all batches of a task, a batch a core.

    Args:
        task: whose batches.
        shapes: of the sums, which begin at 0.
        add: called with each batch, and an encoder that no other thread uses; advances ``progress``.
        passes: in a batch.
        progress: counts passes.

    Raises:
        ModelError: heads are gated already, so that the model would not be measured as it is.
    """
    encoder = task.encoder
    if encoder.is_gated:
        raise ModelError("heads are gated already: measure them outside gated_heads")
    workers = Workers(torch.device(encoder.device), most=min(_MOST_WORKERS, len(task.batches)))
    readers = [encoder, *(encoder.twin() for _ in range(workers.n - 1))]
    progress.start(len(task.batches) * passes, unit="passes")

    def work(number: int) -> list[Floats]:
        sums = [np.zeros(shape) for shape in shapes]
        for batch in task.batches[number :: workers.n]:
            add(readers[number], batch, sums)
        return sums

    with workers:
        first, *others = workers.map(work, workers.n)
    progress.finish()
    for other in others:
        for total, part in zip(first, other, strict=True):
            total += part
    return first
