"""Some of the items of a source, as a source of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._features import ArrayFeatures, FeatureSource, used_chunks


class SubsetFeatures:
    """The chosen items of a source, numbered anew in their order.

    Args:
        source: the vectors.
        chosen: ``[item]`` bool.

    Raises:
        FitError: there is not one choice for each item.
    """

    def __init__(self, source: FeatureSource, chosen: NDArray[np.bool_]) -> None:
        if chosen.shape != (source.n_items,):
            raise FitError(f"{source.n_items} items and choices of shape {list(chosen.shape)}: give one for each item")
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


def held(source: FeatureSource, *, memory: int) -> FeatureSource:
    """The same vectors in memory if they take no more than ``memory`` bytes, or else the source itself."""
    if 4 * source.n_layers * source.n_items * source.dim > memory:
        return source
    values = torch.empty(source.n_layers, source.n_items, source.dim)
    for items, vectors in source.chunks():
        values[:, items] = vectors
    return ArrayFeatures(values, layers=source.layers)
