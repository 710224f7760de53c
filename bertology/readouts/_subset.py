"""Some of the items of a source, as a source of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.errors import FitError
from bertology.readouts._features import ArrayFeatures, FeatureSource, used_chunks
from bertology.readouts._spans import SpanSource, span_rows

Items = FeatureSource | SpanSource
"""Items with a vector each, or with spans of words."""


class SubsetFeatures:
    """The chosen items of a source, numbered anew in their order.

    Args:
        source: the vectors.
        chosen: ``[item]`` bool.

    Raises:
        FitError: there is not one choice for each item.
    """

    def __init__(self, source: FeatureSource, chosen: NDArray[np.bool_]) -> None:
        _check_choice(source, chosen)
        self._source = source
        self._chosen = torch.from_numpy(chosen)
        self._numbers = self._chosen.cumsum(0) - 1
        self.n_layers = source.n_layers
        self.dim = source.dim
        self.n_items = int(np.count_nonzero(chosen))

    @property
    def layers(self) -> Sequence[int]:
        """``[layer]`` the number of each layer in its model."""
        return self._source.layers

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The chosen items, chunk by chunk of the source."""
        for items, vectors in used_chunks(self._source, self._chosen):
            yield self._numbers[items], vectors


class SubsetSpans:
    """The chosen items of a source of spans, numbered anew in their order.

    Args:
        source: the spans.
        chosen: ``[item]`` bool.

    Raises:
        FitError: there is not one choice for each item.
    """

    def __init__(self, source: SpanSource, chosen: NDArray[np.bool_]) -> None:
        _check_choice(source, chosen)
        self._source = source
        self._chosen = torch.from_numpy(chosen)
        self._numbers = self._chosen.cumsum(0) - 1
        self.n_layers = source.n_layers
        self.n_spans = source.n_spans
        self.dim = source.dim
        self.n_items = int(np.count_nonzero(chosen))

    @property
    def layers(self) -> Sequence[int]:
        """``[layer]`` the number of each layer in its model."""
        return self._source.layers

    def chunks(self) -> Iterator[SpanChunk]:
        """The chosen items, chunk by chunk of the source, with the words of their spans alone."""
        for chunk in self._source.chunks():
            wanted = self._chosen[chunk.items]
            if not wanted.any():
                continue
            spans = chunk.spans[wanted]
            rows, _ = span_rows(spans.flatten(0, 1))
            words = torch.from_numpy(np.unique(rows.numpy()))
            place_of = torch.zeros(chunk.words.shape[1], dtype=torch.int64)
            place_of[words] = torch.arange(len(words))
            starts = place_of[spans[:, :, 0]]
            found = torch.stack([starts, starts + spans[:, :, 1] - spans[:, :, 0]], dim=2)
            yield SpanChunk(self._numbers[chunk.items[wanted]], chunk.words[:, words], found)


def subset(source: Items, chosen: NDArray[np.bool_]) -> Items:
    """Some of the items of a source of either kind."""
    return SubsetSpans(source, chosen) if isinstance(source, SpanSource) else SubsetFeatures(source, chosen)


def held(source: Items, *, memory: int) -> Items:
    """The same vectors in memory if they take no more than ``memory`` bytes, or else the source itself.

    Spans stay where they are: their readouts keep what they need.
    """
    if isinstance(source, SpanSource) or 4 * source.n_layers * source.n_items * source.dim > memory:
        return source
    values = torch.empty(source.n_layers, source.n_items, source.dim)
    for items, vectors in source.chunks():
        values[:, items] = vectors
    return ArrayFeatures(values, layers=source.layers)


def _check_choice(source: Items, chosen: NDArray[np.bool_]) -> None:
    if chosen.shape != (source.n_items,):
        raise FitError(f"{source.n_items} items and choices of shape {list(chosen.shape)}: give one for each item")
