"""Where a readout takes its vectors from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError

CHUNK_ITEMS = 2048
"""Items handed out at once by :class:`ArrayFeatures`: a few megabytes a layer, which stay in the processor's cache."""


class Shaped(Protocol):
    """How many vectors there are of what."""

    @property
    def n_layers(self) -> int:
        """How many layers there are."""
        ...

    @property
    def n_items(self) -> int:
        """How many items there are."""
        ...

    @property
    def dim(self) -> int:
        """How wide a vector is."""
        ...


class FeatureSource(Protocol):
    """Vectors of the same items in several layers, handed out in chunks as often as they are asked for."""

    @property
    def n_layers(self) -> int:
        """How many layers there are."""
        ...

    @property
    def n_items(self) -> int:
        """How many items (words) there are."""
        ...

    @property
    def dim(self) -> int:
        """How wide a vector is."""
        ...

    @property
    def layers(self) -> Sequence[int]:
        """``[layer]`` the number of each layer in its model, to name it in messages."""
        ...

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All items once, in an order that is the same from pass to pass.

        Yields:
            ``[m]`` int64 item numbers and their ``[layer, m, dim]`` float32 vectors. Whoever receives them does not
            change them.
        """
        ...


class ArrayFeatures:
    """Features held in one array.

    Args:
        values: ``[layer, item, dim]``, any floating type (kept as it is, converted chunk by chunk).
        layers: the number of each layer in its model, ``0 … layer − 1`` when left out.
        chunk_items: how many items a chunk holds.

    Raises:
        FitError: the array has another shape.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int = CHUNK_ITEMS,
    ) -> None:
        self._values = values
        is_float = values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"
        if values.ndim != 3 or not is_float:
            raise FitError(
                f"features have shape {list(values.shape)} of {values.dtype}: give floats [layer, item, dim]"
            )
        self._layers = tuple(range(self.n_layers)) if layers is None else tuple(layers)
        if len(self._layers) != self.n_layers:
            raise FitError(f"{len(self._layers)} layer numbers for {self.n_layers} layers: give one for each")
        self._chunk_items = chunk_items

    @property
    def n_layers(self) -> int:
        """How many layers there are."""
        return int(self._values.shape[0])

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self._values.shape[1])

    @property
    def dim(self) -> int:
        """How wide a vector is."""
        return int(self._values.shape[2])

    @property
    def layers(self) -> Sequence[int]:
        """``[layer]`` the number of each layer in its model."""
        return self._layers

    def at(self, places: Tensor) -> ArrayFeatures:
        """Some of the layers, by their places."""
        layers = [self._layers[place] for place in places.tolist()]
        return ArrayFeatures(self._values[places], layers=layers, chunk_items=self._chunk_items)

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All items in order, as ``[m]`` item numbers and ``[layer, m, dim]`` float32 vectors."""
        for first in range(0, self.n_items, self._chunk_items):
            last = min(first + self._chunk_items, self.n_items)
            part = self._values[:, first:last]
            if not isinstance(part, Tensor):  # torch wants to be able to write, which a memory map may refuse
                part = torch.from_numpy(part.astype(np.float32, copy=not part.flags.writeable))
            yield torch.arange(first, last), part.float()


class LayersOf:
    """Some of the layers of a source, as a source of their own.

    Args:
        source: the vectors.
        places: ``[layer]`` which of its layers, by their places.
    """

    def __init__(self, source: FeatureSource, places: NDArray[np.int64]) -> None:
        self._source, self._places = source, torch.from_numpy(places)
        self.n_layers, self.n_items, self.dim = len(places), source.n_items, source.dim
        self.layers: Sequence[int] = tuple(source.layers[place] for place in places.tolist())

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The chunks of the source, in fewer layers."""
        for items, vectors in self._source.chunks():
            yield items, vectors[self._places.to(vectors.device)]


def used_chunks(source: FeatureSource, used: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of ``source`` without the items that nobody uses, whatever their vectors hold.

    Args:
        source: the vectors.
        used: ``[item]`` bool, on the processor.
    """
    for chunk in source.chunks():
        items, vectors = without_unused(*chunk, used)
        if len(items):
            yield items, vectors


def without_unused(items: Tensor, vectors: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """A chunk without the items that are not ``used`` ``[item]``."""
    wanted = used[items]
    return (items, vectors) if wanted.all() else (items[wanted], vectors[:, wanted])
