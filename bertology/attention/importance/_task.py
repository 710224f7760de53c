"""What a model is asked to do while its heads are measured: a loss and a score by item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._batch import Scope
from bertology.encoders import Encoder

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answers:
    """How well the items of a batch were done."""

    nats: Tensor
    """``[item]`` loss, −ln of the probability of what is right; gradients flow from it to the gates of heads."""
    right: Tensor
    """``[item]`` bool"""
    rows: Tensor
    """``[item]`` the row of the batch that each is in."""


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """A few texts, and how to ask a model about them."""

    ids: Tensor
    """``[row, piece]`` what the model reads."""
    mask: Tensor | None
    """``[row, piece]`` 1 for pieces, 0 for padding; None where nothing is padded."""
    clusters: Integers
    """``[row]`` the cluster of sentences that each belongs to."""
    ask: Callable[[Encoder], Answers]
    """Read the texts with the task's encoder, or a twin of it, as it is now: heads gated, hooks on its blocks."""

    @property
    def real(self) -> Tensor:
        """``[row, piece]`` bool: all but padding."""
        return torch.ones_like(self.ids, dtype=torch.bool) if self.mask is None else self.mask.bool()


class ScoredTask(ABC):
    """Something that a model does well or badly, item by item; the items are the same whatever is done to the model.

    Args:
        encoder: what is asked.
        n_texts: how many; of many some neighbours share a cluster.
    """

    def __init__(self, encoder: Encoder, n_texts: int) -> None:
        self._encoder = encoder
        self._scope = Scope(n_texts, tuple(range(1, encoder.n_layers + 1)), encoder.n_heads, "piece")

    @property
    @abstractmethod
    def name(self) -> str:
        """What is asked, in one word: ``masked_words``."""

    @property
    @abstractmethod
    def batches(self) -> tuple[TaskBatch, ...]:
        """All items, each once."""

    @property
    def encoder(self) -> Encoder:
        """What is asked."""
        return self._encoder

    @property
    def n_clusters(self) -> int:
        """Clusters of texts over which scores are summed: one a text, as long as there are few enough."""
        return self._scope.n_clusters


def row_loss(answers: Answers, n_rows: int) -> tuple[Tensor, Tensor]:
    """The loss of each text: the mean over its items, in nats; and whether it has any.

    Returns:
        ``[row]`` floats, 0 where a row has no item, and ``[row]`` bool.
    """
    n_items = torch.bincount(answers.rows, minlength=n_rows)
    sums = answers.nats.new_zeros(n_rows).index_add(0, answers.rows, answers.nats)
    return sums / n_items.clamp_min(1), n_items > 0
