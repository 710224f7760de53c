"""A task's batches shared among cores, and their sums brought together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bertology._workers import Workers
from bertology.activations import Progress
from bertology.attention.importance._task import ScoredTask, TaskBatch
from bertology.encoders import Encoder
from bertology.errors import ModelError

Floats = NDArray[np.float64]
AddBatch = Callable[[Encoder, TaskBatch, Sequence[Floats]], None]
"""Adds what a batch comes to, asked of an encoder, to some sums."""
_MOST_WORKERS = 16
"""Each holds the activations of a batch, for a backward pass too."""


def summed(
    task: ScoredTask, shapes: Sequence[tuple[int, ...]], add: AddBatch, *, passes: int, progress: Progress
) -> list[Floats]:
    """Sums over all batches of a task, a batch a core.

    Args:
        task: what is done.
        shapes: of the sums, which begin at 0.
        add: called with each batch, and an encoder that no other thread uses.
        passes: in a batch.
        progress: told that they are to be done; ``add`` tells of each that is.

    Raises:
        ModelError: heads are gated already, so that nothing would be measured on the model as it is.
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
