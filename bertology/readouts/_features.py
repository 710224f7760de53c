"""Sources of vectors that readouts are fitted to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHUNK_ITEMS = 2048
"""Items handed out at once by :class:`ArrayFeatures`: a few megabytes a layer, which stay in the processor's cache."""
_CHUNK_ON_ACCELERATOR = 1 << 14
"""The same where vectors are on an accelerator, which needs larger products to be busy."""
_RESIDENT_PART = 0.4
"""Part of an accelerator's free memory that the vectors of one split may take."""


class Shaped(Protocol):
    """How many vectors there are, and of which layers."""

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        ...

    @property
    def n_items(self) -> int:
        """Number of items."""
        ...

    @property
    def dim(self) -> int:
        """Width of a vector."""
        ...

    @property
    def layers(self) -> Sequence[int]:
        """``[layer]`` the number of each layer in its model, to name it in messages."""
        ...


class FeatureSource(Shaped, Protocol):
    """Vectors of the same items in several layers, handed out in chunks as often as they are asked for."""

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All items once, in an order that is the same from pass to pass.

        Yields:
            ``[m]`` int64 item numbers and their ``[layer, m, dim]`` float32 vectors. They must not be
            changed.
        """
        ...


class ArrayFeatures:
    """Features held in one array.

    Args:
        values: ``[layer, item, dim]``, any floating type (kept as it is, converted chunk by chunk).
        layers: the number of each layer in its model, ``0 … layer − 1`` when left out.
        chunk_items: how many items a chunk holds; as many as suit the array's device when left out.

    Raises:
        FitError: the array has another shape.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int | None = None,
    ) -> None:
        self._values = values
        is_float = values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"
        if values.ndim != 3 or not is_float:
            raise FitError(
                f"features have shape {list(values.shape)} of {values.dtype}: give floats [layer, item, dim]"
            )
        self.n_layers, self.n_items, self.dim = map(int, values.shape)
        self.layers: Sequence[int] = numbered(layers, self.n_layers)
        is_near = not isinstance(values, Tensor) or values.device.type == "cpu"
        self._chunk_items = chunk_items or (CHUNK_ITEMS if is_near else _CHUNK_ON_ACCELERATOR)

    def at(self, places: Tensor) -> ArrayFeatures:
        """Some of the layers, by their places."""
        layers = [self.layers[place] for place in places.tolist()]
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

    def __init__(self, source: FeatureSource, places: Integers) -> None:
        self._source, self._places = source, torch.from_numpy(places)
        self.n_layers, self.n_items, self.dim = len(places), source.n_items, source.dim
        self.layers: Sequence[int] = tuple(source.layers[place] for place in places.tolist())

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The chunks of the source, in fewer layers."""
        for items, vectors in self._source.chunks():
            yield items, vectors[self._places.to(vectors.device)]


def numbered(layers: Sequence[int] | None, n_layers: int) -> tuple[int, ...]:
    """``[layer]`` numbers of layers, ``0 … n_layers − 1`` when left out.

    Raises:
        FitError: there is not one number for each layer.
    """
    numbers = tuple(range(n_layers)) if layers is None else tuple(layers)
    if len(numbers) != n_layers:
        raise FitError(f"{len(numbers)} layer numbers for {n_layers} layers: give one for each")
    return numbers


def in_memory(source: FeatureSource, *, device: torch.device, memory: int) -> FeatureSource:
    """The vectors of a source held on ``device`` if they take no more than ``memory`` bytes, else the source itself."""
    if 4 * source.n_layers * source.n_items * source.dim > memory:
        return source
    values = torch.empty(source.n_layers, source.n_items, source.dim, device=device)
    for items, vectors in source.chunks():
        values[:, items.to(device)] = vectors.to(device)
    return ArrayFeatures(values, layers=source.layers)


def resident(source: FeatureSource, device: torch.device) -> FeatureSource:
    """A source for a fit that goes through its vectors many times.

    On CUDA, vectors that fit are copied to the device once; on the processor the source stays as it is.
    """
    if device.type != "cuda":
        return source
    free, _ = torch.cuda.mem_get_info(device)
    return in_memory(source, device=device, memory=int(_RESIDENT_PART * free))


def used_chunks(source: FeatureSource, used: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of ``source`` without items that no problem uses, whatever their vectors hold.

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


class SubsetFeatures:
    """The chosen items of a source, numbered anew in their order.

    Args:
        source: the vectors.
        chosen: ``[item]`` bool.

    Raises:
        FitError: there is not one choice for each item.
    """

    def __init__(self, source: FeatureSource, chosen: NDArray[np.bool_]) -> None:
        check_choice(source, chosen)
        self._source = source
        self._chosen = torch.from_numpy(chosen)
        self._numbers = self._chosen.cumsum(0) - 1
        self.n_layers, self.dim, self.layers = source.n_layers, source.dim, source.layers
        self.n_items = int(np.count_nonzero(chosen))

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The chosen items, chunk by chunk of the source."""
        for items, vectors in used_chunks(self._source, self._chosen):
            yield self._numbers[items], vectors


def check_choice(source: Shaped, chosen: NDArray[np.bool_]) -> None:
    """Raise :class:`FitError` unless ``chosen`` ``[item]`` says of every item of ``source`` whether it is one."""
    if chosen.shape != (source.n_items,):
        raise FitError(f"{source.n_items} items and choices of shape {list(chosen.shape)}: give one for each item")
