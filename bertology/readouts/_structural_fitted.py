"""Structural probes after fitting: what they say of sentences, and how they are kept in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._spans import SpanSource
from bertology.readouts._structural_batches import Asks
from bertology.readouts._structural_training import squared_distances


@dataclass(frozen=True, eq=False)
class FittedStructural:
    """Linear maps as they were after the epoch with the lowest dev loss."""

    readout: str
    """Registered name of what fitted them."""
    asks: Asks
    maps: Tensor
    """``[problem, layer, dim, rank]``"""
    layers: tuple[int, ...]
    """``[layer]`` numbers of the layers they were fitted on."""
    dev_loss: NDArray[np.float64]
    """``[problem, layer]`` the lowest there was: the mean absolute difference, over sentences."""
    epochs: NDArray[np.int64]
    """``[problem, layer]`` how many there were."""
    converged: NDArray[np.bool_]
    """``[problem, layer]`` whether the dev loss had stopped falling."""

    @property
    def rank(self) -> int:
        """Dimensions that vectors are mapped to."""
        return int(self.maps.shape[3])

    @property
    def dim(self) -> int:
        """How wide the vectors are."""
        return int(self.maps.shape[2])

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer's map for one problem."""
        return self.dim * self.rank

    def read(self, source: SpanSource) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """What the maps say of every sentence of ``source``, in the order of its chunks.

        Yields:
            The number of a sentence, and its squared distances ``[problem, layer, word, word]`` or depths
            ``[problem, layer, word]``.

        Raises:
            FitError: the source has other layers or another width than the maps were fitted on.
        """
        if (source.n_layers, source.dim) != (len(self.layers), self.dim):
            raise FitError(
                f"the probe was fitted on {len(self.layers)} layers of width {self.dim}: "
                f"it cannot read {source.n_layers} layers of width {source.dim}"
            )
        n_problems, n_layers = self.maps.shape[:2]
        flat = self.maps.permute(1, 2, 0, 3).flatten(2)  # [layer, dim, problem × rank]
        for chunk in source.chunks():
            mapped = torch.bmm(chunk.words, flat).view(n_layers, -1, n_problems, self.rank).permute(2, 0, 1, 3)
            for item, (start, end) in zip(chunk.items.tolist(), chunk.spans[:, 0].tolist(), strict=True):
                vectors = mapped[:, :, start:end]
                if self.asks == "distances":
                    yield item, squared_distances(vectors).clamp_(min=0).numpy()
                else:
                    yield item, vectors.square().sum(-1).numpy()
