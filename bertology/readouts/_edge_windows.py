"""Spans in windows of bounded size, their items shuffled and cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bertology.readouts._edge_model import Batch, Rows
from bertology.readouts._span_windows import JoinedChunks
from bertology.readouts._spans import SpanSource, span_rows

_SCORED_AT_ONCE = 1024


@dataclass(frozen=True)
class Window:
    """Neighbouring chunks, their items in batches."""

    words: Tensor
    """``[layer, word, dim]``; behind the last word of a batch there may be room left, with nothing in it."""
    batches: list[Batch]

    def to(self, device: torch.device) -> Window:
        """The same on another device."""
        if self.words.device == device:
            return self
        return Window(self.words.to(device), [batch.to(device) for batch in self.batches])


@dataclass(frozen=True)
class Shuffle:
    """How training items are mixed and what is left out of the probes at random."""

    batch_items: int
    random: torch.Generator
    hidden: int = 0
    """Width of the hidden layer that dropout is for."""
    dropout: float = 0.0
    layer_dropout: float = 0.0

    def cut(self, spans: Tensor, items: Tensor, n_layers: int) -> list[Batch]:
        """Batches of all items of a window, of sizes as equal as can be, in random order."""
        order = torch.randperm(len(items), generator=self.random)
        n_batches = -(-len(order) // self.batch_items)
        masks: list[Tensor | None] = [None] * n_batches
        if self.hidden and self.dropout:
            kept = torch.rand(len(order), self.hidden, generator=self.random).ge_(self.dropout)
            masks = list(kept.div_(1 - self.dropout).tensor_split(n_batches))
        layers: list[Tensor | None] = [None] * n_batches
        if self.layer_dropout:
            layers = list(torch.rand(n_batches, n_layers, generator=self.random) < self.layer_dropout)
        parts = zip(order.tensor_split(n_batches), masks, layers, strict=True)
        return [Batch(items[part], _rows(spans[part]), mask, layer) for part, mask, layer in parts]


class TrainingWindows:
    """The ``used`` ``[item]`` items once in each pass, in shuffled batches; a window holds until the next is asked for.

    Items that fit into one window are read in the first pass, and only shuffled anew in those after it.
    """

    def __init__(self, source: SpanSource, used: Tensor, shuffle: Shuffle) -> None:
        self._joined, self._shuffle = JoinedChunks(source, used), shuffle

    def __iter__(self) -> Iterator[Window]:
        """One pass.

        Raises:
            FitError: a layer has vectors that are not finite.
        """
        for joined in self._joined:
            yield Window(joined.words, self._shuffle.cut(joined.spans, joined.items, len(joined.words)))


def scoring_windows(source: SpanSource) -> Iterator[Window]:
    """All items once, in the order of the source, in batches that are large but bounded."""
    for chunk in source.chunks():
        parts = zip(torch.split(chunk.items, _SCORED_AT_ONCE), torch.split(chunk.spans, _SCORED_AT_ONCE), strict=True)
        yield Window(chunk.words, [Batch(items, _rows(spans)) for items, spans in parts])


def _rows(spans: Tensor) -> tuple[Rows, ...]:
    """By part, the words of ``[m, part, 2]`` spans."""
    if bool((spans[:, :, 1] - spans[:, :, 0] == 1).all()):
        return tuple(Rows(spans[:, part, 0], None) for part in range(spans.shape[1]))
    return tuple(Rows(*span_rows(spans[:, part])) for part in range(spans.shape[1]))
