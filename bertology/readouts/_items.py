"""The training items of a fit: how their vectors are spread, a sample of them kept in memory, batches and windows."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.errors import FitError
from bertology.readouts._base import Targets
from bertology.readouts._sources import ArrayFeatures, FeatureSource, SpanSource, check_finite, only_items, used_chunks

_WINDOW_BYTES = 256 << 20  # vectors that are shuffled among each other before they are cut into batches
_SPAN_WINDOW_BYTES = 128 << 20  # bytes of words in spans that are shuffled among each other


@dataclass(frozen=True)
class Items:
    """Labels and weights of every training item in every problem."""

    labels: Tensor  # [problem, item] class; of an item that a problem does not use, any class that it has
    weights: Tensor  # [problem, item] float32, 0 where a problem does not use an item
    frequency: Tensor  # [problem, class] part of the training items' weight that the class has

    @classmethod
    def of(cls, targets: Targets, device: torch.device) -> Items:
        by_class = torch.from_numpy(targets.class_weights()).to(device)
        labels = torch.from_numpy(targets.labels).to(device)
        usable = (labels >= 0) & (by_class.gather(1, labels.clamp(min=0)) > 0)
        labels = torch.where(usable, labels, by_class.argmax(1)[:, None])
        weights = torch.from_numpy(targets.item_weights()).to(device)
        return cls(labels, weights, (by_class / by_class.sum(1, keepdim=True)).float())

    @functools.cached_property
    def total(self) -> Tensor:
        return self.weights.sum(1, dtype=torch.float64)

    @functools.cached_property
    def are_equal(self) -> bool:
        return bool((self.weights == 1).all())

    @property
    def used(self) -> Tensor:
        """``[item]`` whether some problem uses an item; on the processor, where sources are read."""
        return (self.weights > 0).any(0).cpu()

    def at(self, items: Tensor) -> Items:
        items = items.to(self.labels.device)
        return Items(self.labels[:, items], self.weights[:, items], self.frequency)

    def only(self, problems: Tensor) -> Items:
        return Items(self.labels[problems], self.weights[problems], self.frequency[problems])


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of the vectors of each layer under each weighting of the items."""

    mean: Tensor  # [weighting, layer, dim] float64
    std: Tensor  # [weighting, layer, dim] float64, infinite where a feature is constant, which leaves 0 of it

    def only(self, weightings: Tensor) -> Moments:
        return Moments(self.mean[weightings], self.std[weightings])


@dataclass(frozen=True)
class Sample:
    """Some of the items, or all that are used, held in memory."""

    items: Tensor  # [place] their numbers in the source
    source: ArrayFeatures  # their vectors, on the device, in the type that they have in the source
    is_everything: bool  # whether no used item was left out


def choose_items(weights: Tensor, size: int, *, seed: int = 0) -> Tensor:
    """``[item]`` whether an item is in a sample of about ``size`` that has items of every problem.

    Problems that use different items, whose ``weights [problem, item]`` are above 0, share the sample.
    """
    used = (weights > 0).cpu().numpy()
    chosen = used.any(axis=0)
    if np.count_nonzero(chosen) > size:
        supports = {row.tobytes(): row for row in used}
        order = np.random.default_rng(seed).permutation(used.shape[1])
        chosen = np.zeros(used.shape[1], dtype=bool)
        for row in supports.values():
            chosen[order[row[order]][: max(1, size // len(supports))]] = True
    return torch.from_numpy(chosen)


def survey(source: FeatureSource, weights: Tensor, in_sample: Tensor | None = None) -> tuple[Moments, Sample]:
    """Weighted mean and standard deviation of every feature, and the vectors of a sample.

    Sums are over differences from each layer's first vector, so that a feature far from zero keeps its digits, and a
    constant one is exactly constant.

    Args:
        source: the vectors.
        weights: ``[problem, item]``, on the device to compute on.
        in_sample: ``[item]`` which items the sample has; none when left out.

    Raises:
        FitError: a layer has vectors that are not finite.
    """
    used = (weights > 0).any(dim=0).cpu()
    if in_sample is None:
        in_sample = torch.zeros(source.n_items, dtype=torch.bool)
    size, n_kept = int(in_sample.sum()), 0
    kept_items = torch.empty(size, dtype=torch.int64)
    kept = torch.empty(source.n_layers, size, source.dim, dtype=source.dtype, device=weights.device)
    origin: Tensor | None = None  # [layer, 1, dim]
    first = torch.zeros(source.n_layers, len(weights), source.dim, dtype=torch.float64, device=weights.device)
    second = torch.zeros_like(first)
    for items, vectors in used_chunks(source, used):
        inside = in_sample[items]
        places = slice(n_kept, n_kept + int(inside.sum()))
        kept_items[places] = items[inside]
        kept[:, places] = vectors if inside.all() else vectors[:, inside]
        n_kept = places.stop
        if origin is None:
            origin = vectors[:, :1].to(weights.device, copy=True)
        of_chunk = weights[:, items.to(weights.device)]  # [problem, m]
        offsets = vectors.to(weights.device) - origin
        first += torch.matmul(of_chunk, offsets)
        second += torch.matmul(of_chunk, offsets.square_())
        del vectors, offsets  # or they would be held while the next are read
    if origin is None:
        raise FitError("there are no vectors to fit on: give at least one item")
    check_finite(source, second)
    total = weights.sum(dim=1, dtype=torch.float64)
    offset_mean = (first / total[:, None]).transpose(0, 1)  # [problem, layer, dim]
    variance = (second / total[:, None]).transpose(0, 1) - offset_mean.square()
    std = variance.clamp_(min=0).sqrt_()
    constant = std <= 1e-6 * offset_mean.abs()  # float32 sums cannot tell a smaller spread from none
    moments = Moments(offset_mean + origin.squeeze(1), torch.where(constant, torch.inf, std))
    return moments, Sample(kept_items, ArrayFeatures(kept), bool(in_sample[used].all()))


def shuffled_batches(
    train: FeatureSource, items: Items, size: int, random: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Used items in batches of ``size``, shuffled inside windows of neighbouring chunks.

    What is left of a window goes into the next one; the last batch of all may be smaller.
    """
    device = items.weights.device
    most = max(size, _WINDOW_BYTES // (4 * train.n_layers * train.dim))
    window: list[tuple[Tensor, Tensor]] = []

    def cut(*, last: bool) -> Iterator[tuple[Tensor, Tensor]]:
        numbers = torch.cat([part for part, _ in window])
        vectors = torch.cat([part for _, part in window], dim=1)
        order = torch.randperm(len(numbers), generator=random).to(device)
        end = len(order) if last else len(order) - len(order) % size
        for first in range(0, end, size):
            chosen = order[first : min(first + size, end)]
            yield numbers[chosen], vectors[:, chosen]
        window[:] = [(numbers[order[end:]], vectors[:, order[end:]])]

    for numbers, vectors in used_chunks(train, items.used):
        window.append((numbers.to(device), vectors.to(device)))
        if sum(len(part) for part, _ in window) >= most:
            yield from cut(last=False)
    if sum(len(part) for part, _ in window):
        yield from cut(last=True)


class JoinedChunks:
    """The ``used`` ``[item]`` items once in each pass, in neighbouring chunks joined to as many as there is room for.

    Each chunk is copied, to ``device`` or the processor, as it comes to where those of the last window were, so that a
    window is done with before the next is asked for, and no more is held than a window and a chunk. Items that fit into
    one window are read in the first pass alone. A chunk larger than a window stays where it is.
    """

    def __init__(self, source: SpanSource, used: Tensor, *, device: torch.device | None = None) -> None:
        self._source, self._used, self._device = source, used, device
        self._room: Tensor | None = None  # [layer, word, dim]
        self._only: SpanChunk | None = None

    def __iter__(self) -> Iterator[SpanChunk]:
        """One pass. Behind the last word of a window there may be room left, with nothing in it."""
        if self._only is not None:
            yield self._only
            return
        n_windows = 0
        for joined in self._joined():
            n_windows += 1
            yield joined
        if n_windows == 1:
            self._only = joined

    def _joined(self) -> Iterator[SpanChunk]:
        """Neighbouring chunks as one, as many as there is room for; a chunk too large for it comes alone."""
        held: list[SpanChunk] = []
        filled = 0
        for chunk in self._source.chunks():
            chunk = only_items(chunk, self._used[chunk.items])
            if not len(chunk.items):
                continue
            # A sum is far cheaper than a look at every number.
            check_finite(self._source, chunk.words.sum(dim=(1, 2)))
            n_layers, n_words, dim = chunk.words.shape
            most = _SPAN_WINDOW_BYTES // (chunk.words.nbytes // n_words)
            if held and filled + n_words > most:
                yield self._one(held)
                held, filled = [], 0
            if n_words > most:
                yield chunk
                continue
            if self._room is None:
                self._room = torch.empty(n_layers, most, dim, device=self._device)
            words = self._room[:, filled : filled + n_words]
            held.append(SpanChunk(chunk.items, words.copy_(chunk.words), chunk.spans + filled))
            filled += n_words
            del chunk  # or it would be held while the next is read
        if held:
            yield self._one(held)

    def _one(self, held: list[SpanChunk]) -> SpanChunk:
        assert self._room is not None, "what is held was copied there"
        # all of the room: a part of it would be copied whenever words are taken from it
        return SpanChunk(torch.cat([c.items for c in held]), self._room, torch.cat([c.spans for c in held]))
