"""Vectors brought to the mean and spread of others in each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bertology.readouts._sources import AnySource, Derived, DerivedSpans, SpanSource


@dataclass(frozen=True)
class Moments:
    """Mean and spread of the vectors of a source."""

    mean: Tensor
    """``[layer, dim]`` in double precision."""
    deviation: Tensor
    """``[layer, dim]`` standard deviations."""

    def at(self, places: Sequence[int]) -> Moments:
        """Those of some of the layers, by their places."""
        return Moments(self.mean[list(places)], self.deviation[list(places)])


def moments(source: AnySource) -> Moments:
    """Mean and standard deviation of every dimension, of items or of the words of their spans, in one pass.

    A word that several spans hold counts as often as a chunk has it.
    """
    first = second = origin = torch.zeros(0)
    n_vectors = 0
    for chunk in source.chunks():
        vectors = (chunk[1] if isinstance(chunk, tuple) else chunk.words).double().cpu()
        if not n_vectors:
            # Sums are of differences from the first vector, so that a dimension far from zero keeps its digits.
            origin = vectors[:, :1]
            first, second = (torch.zeros(len(vectors), source.dim, dtype=torch.float64) for _ in range(2))
        first = first + (vectors - origin).sum(dim=1)
        second = second + (vectors - origin).square().sum(dim=1)
        n_vectors += vectors.shape[1]
    mean = first / n_vectors
    return Moments(origin[:, 0] + mean, (second / n_vectors - mean.square()).clamp(min=0).sqrt())


def rescaled(source: AnySource, own: Moments, other: Moments) -> AnySource:
    """The vectors of a source, each dimension with mean and spread of another in the place of its own.

    A dimension that is constant in the source has the other's mean.

    Args:
        source: the vectors.
        own: mean and spread that are theirs, such as of their training items.
        other: those that they are given.
    """
    factor = torch.where(own.deviation > 0, other.deviation / own.deviation, 0.0)
    shift = other.mean - own.mean * factor

    def moved(vectors: Tensor) -> Tensor:
        scale, offset = (part[:, None].to(vectors.device, vectors.dtype) for part in (factor, shift))
        return vectors * scale + offset

    def at(places: Sequence[int]) -> AnySource:
        return rescaled(source.at(places), own.at(places), other.at(places))

    shape = source.n_layers, source.n_items, source.dim, source.layers
    if isinstance(source, SpanSource):
        spans = source
        return DerivedSpans(
            *shape, lambda: (replace(one, words=moved(one.words)) for one in spans.chunks()), spans.n_spans, at=at
        )
    vectors_of = source
    return Derived(*shape, lambda: ((items, moved(vectors)) for items, vectors in vectors_of.chunks()), at=at)
