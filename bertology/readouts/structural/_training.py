"""Training linear maps side by side, with gradients in closed form: a sign and three products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from bertology._workers import Workers
from bertology.readouts._fitting import ADAM
from bertology.readouts._sources import Floats
from bertology.readouts.structural._batches import Asks, Block, TreeBatch, TreeWindow

_START = 0.05
"""Maps begin uniform within ± this (as the authors' code has it)."""
_LEAST_GAIN = 1e-4
"""By which a dev loss must fall to be a new minimum (as the authors' code has it)."""


@dataclass(frozen=True)
class Maps:
    """The linear maps of one rank, of all layers and problems, and the state of their optimiser."""

    rank: int
    values: Tensor
    """``[layer, problem, rank, dim]``, in which steps of the optimiser go by maps"""
    first: Tensor
    """Running mean of gradients, shaped as ``values``."""
    second: Tensor
    """Running mean of their squares."""
    steps: Tensor
    """``[layer, problem]`` steps since the optimiser was last begun anew."""
    rates: Tensor
    """``[layer, problem]`` learning rates."""

    @classmethod
    def start(
        cls, rank: int, *, n_layers: int, dim: int, n_problems: int, seed: int, rate: float, device: torch.device
    ) -> Maps:
        """Maps as they begin: each problem its own, in which all layers begin alike."""
        drawn = [
            (2 * torch.rand(dim, rank, generator=torch.Generator().manual_seed(seed * 1_000_003 + problem)) - 1).T
            for problem in range(n_problems)
        ]
        values = (_START * torch.stack(drawn))[None].repeat(n_layers, 1, 1, 1).to(device)
        steps = torch.zeros(n_layers, n_problems, device=device)
        return cls(
            rank, values, torch.zeros_like(values), torch.zeros_like(values), steps, torch.full_like(steps, rate)
        )

    def some(self, layers: Sequence[int]) -> Maps:
        index = torch.tensor(layers, device=self.values.device)
        parts = (self.values, self.first, self.second, self.steps, self.rates)
        return Maps(self.rank, *(part[index] for part in parts))

    def put(self, layers: Sequence[int], other: Maps) -> None:
        self.values[layers], self.first[layers], self.second[layers] = other.values, other.first, other.second
        self.steps[layers] = other.steps

    def slow_down(self, which: NDArray[np.bool_], factor: float) -> None:
        """Begin the optimiser of some ``[layer, problem]`` anew, at a lower rate."""
        chosen = torch.from_numpy(which).to(self.values.device)
        kept = (~chosen).to(self.values.dtype)
        for part in (self.first, self.second):
            part.mul_(kept[:, :, None, None])
        self.steps.mul_(kept)
        self.rates.copy_(torch.where(chosen, self.rates * factor, self.rates))

    def mapped(self, words: Tensor) -> Tensor:
        """``[layer, word, problem × rank]`` vectors ``[layer, word, dim]`` under the maps."""
        # Products with a transpose are slow where it is not a matrix in memory.
        return torch.bmm(words, self.values.flatten(1, 2).transpose(1, 2).contiguous())

    @cached_property
    def _each(self) -> tuple[list[Tensor], ...]:
        """Of every map on its own its values, the state of its optimiser and its steps, all in the memory they are."""
        parts = (self.values, self.first, self.second)
        return (*(list(part.flatten(0, 1).unbind()) for part in parts), list(self.steps.flatten().unbind()))

    def step(self, gradients: Tensor) -> None:
        """One step of Adam (Kingma & Ba 2015) on gradients shaped as ``values``."""
        parts = (list(gradients.flatten(0, 1).unbind()), *self._each)
        rates = self.rates.flatten().tolist()
        for rate in sorted(set(rates)):
            chosen = [number for number, own in enumerate(rates) if own == rate]
            slopes, values, first, second, steps = ([part[number] for number in chosen] for part in parts)
            adam(values, slopes, first, second, [], steps, lr=rate, weight_decay=0.0, **ADAM)


def learn(maps: Maps, words: Tensor, batch: TreeBatch, asks: Asks) -> None:
    """Take maps through a batch, whose words are ``[layer, word, dim]`` of the layers of these maps."""
    mapped = maps.mapped(words)
    pulls = [_pull(_vectors(mapped, block, maps), block, asks) for block in batch.blocks]
    pull = torch.cat([_by_word(own) for own in pulls], dim=1) if len(pulls) > 1 else _by_word(pulls[0])
    # Distances pull both words of a pair, each of which stands in two pairs.
    scale = (4.0 if asks == "distances" else -2.0) / batch.n_sentences
    gradients = torch.bmm(pull.transpose(1, 2), words).mul_(scale)
    maps.step(gradients.view_as(maps.values))


def losses(maps: Maps, words: Tensor, batch: TreeBatch, asks: Asks) -> Tensor:
    """``[layer, problem]`` the loss of a batch, summed over its sentences, each weighing the same in all problems."""
    total = torch.zeros(maps.values.shape[:2], dtype=torch.float64, device=maps.values.device)
    mapped = maps.mapped(words)
    for block in batch.blocks:
        missing = _missing(_vectors(mapped, block, maps), block, asks)
        total += missing.abs_().mul_(block.share).flatten(2).sum(-1)
    return total.mul_(2) if asks == "distances" else total


def squared_distances(vectors: Tensor) -> Tensor:
    """``[…, n, n]`` squared distances between ``[…, n, dim]`` vectors."""
    products = vectors @ vectors.transpose(-1, -2)
    norms = products.diagonal(dim1=-2, dim2=-1).clone()
    return products.mul_(-2).add_(norms[..., :, None]).add_(norms[..., None, :])


def _vectors(mapped: Tensor, block: Block, maps: Maps) -> Tensor:
    """``[layer, problem, row, n, rank]`` the mapped vectors of a block."""
    n_problems, rank = maps.values.shape[1:3]
    vectors = mapped[:, block.words].view(len(mapped), *block.gold.shape[:2], n_problems, rank)
    return vectors.permute(0, 3, 1, 2, 4).contiguous()


def _by_word(vectors: Tensor) -> Tensor:
    """``[layer, word, problem × rank]`` from what :func:`_vectors` is shaped as."""
    return vectors.permute(0, 2, 3, 1, 4).flatten(3).flatten(1, 2)


def _missing(vectors: Tensor, block: Block, asks: Asks) -> Tensor:
    """What is missing to gold: ``[layer, problem, row, n]`` of depths, ``[…, n, n]`` half of it of distances."""
    if asks == "depths":
        return block.gold - vectors.square().sum(-1)
    flat = vectors.flatten(0, 2)
    products = torch.bmm(flat, flat.transpose(1, 2).contiguous())
    halves = products.diagonal(dim1=1, dim2=2) / 2
    products.sub_(halves[:, :, None]).sub_(halves[:, None])
    return products.view(*vectors.shape[:-1], -1).add_(block.gold, alpha=0.5)


def _pull(vectors: Tensor, block: Block, asks: Asks) -> Tensor:
    """Shaped as ``vectors``: the slope of the loss by them (Hewitt & Manning 2019, sections 2.2 and 2.3), unscaled."""
    # The slope of |missing|: a sign, times how much the pair (or word) counts.
    slope = _missing(vectors, block, asks).sign_().mul_(block.share)
    if block.weights is not None:
        slope.mul_(block.weights if asks == "depths" else block.weights[..., None])
    if asks == "depths":
        return slope[..., None] * vectors
    # Σ_j s_ij (v_j − v_i), as one product
    slope.diagonal(dim1=-2, dim2=-1).sub_(slope.sum(-1))
    return torch.bmm(slope.flatten(0, 2), vectors.flatten(0, 2)).view_as(vectors)


class Plateau:
    """Early stopping and slower learning for every layer and problem on its own (Hewitt & Manning 2019, appendix)."""

    def __init__(self, shape: tuple[int, int], patience: int) -> None:
        self._patience = patience
        self.running = np.ones(shape, dtype=bool)
        self.loss = np.full(shape, np.inf)
        self.best_epoch = np.zeros(shape, dtype=np.int64)
        self.epochs = np.zeros(shape, dtype=np.int64)

    def judge(self, epoch: int, loss: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """By ``[layer, problem]`` losses, which fits are better than ever, and which are to go on more slowly."""
        better: NDArray[np.bool_] = self.running & (loss < self.loss - _LEAST_GAIN)
        self.loss[better], self.best_epoch[better] = loss[better], epoch
        self.epochs[self.running] = epoch
        self.running &= epoch - self.best_epoch < self._patience
        return better, self.running & ~better


class MapShard(NamedTuple):
    """Maps of one rank and some layers, by their places, which one worker trains."""

    rank: int
    layers: list[int]
    maps: Maps


class MapTrainer:
    """All maps that have not ended yet, by rank, in shards for each worker."""

    def __init__(self, maps: Sequence[Maps], asks: Asks, workers: Workers) -> None:
        self._maps, self._asks, self._workers = maps, asks, workers
        self._shards: list[list[MapShard]] = []

    def begin(self, running: Sequence[NDArray[np.bool_]]) -> None:
        """Deal the maps out for an epoch, the largest first, to the worker with the least to compute."""
        jobs = [
            (maps.rank, place, layer)
            for place, maps in enumerate(self._maps)
            for layer in np.flatnonzero(running[place].any(axis=1)).tolist()
        ]
        loads = [0.0] * self._workers.n
        layers: list[dict[int, list[int]]] = [{} for _ in loads]
        for rank, place, layer in sorted(jobs, key=lambda job: (-job[0], job[1:])):
            worker = loads.index(min(loads))
            # What a map costs beside its products, in units of rank.
            loads[worker] += rank + 8
            layers[worker].setdefault(place, []).append(layer)
        self._shards = [
            [MapShard(place, sorted(chosen), self._maps[place].some(sorted(chosen))) for place, chosen in dealt.items()]
            for dealt in layers
        ]

    def learn(self, window: TreeWindow) -> None:
        self._each(window, lambda shard, words, batch: learn(shard.maps, words, batch, self._asks))

    def losses(self, window: TreeWindow) -> list[Tensor]:
        """By rank, ``[layer, problem]`` losses summed over the window's sentences; 0 for what has ended."""
        total = [torch.zeros(maps.steps.shape, dtype=torch.float64) for maps in self._maps]

        def add(shard: MapShard, words: Tensor, batch: TreeBatch) -> None:
            total[shard.rank][shard.layers] += losses(shard.maps, words, batch, self._asks).cpu()

        self._each(window, add)
        return total

    def _each(self, window: TreeWindow, job: Callable[[MapShard, Tensor, TreeBatch], None]) -> None:
        """Call ``job`` with every shard and batch, and the words of the batch in the shard's layers."""

        def work(worker: int) -> None:
            for batch in window.batches:
                gathered: dict[tuple[int, ...], Tensor] = {}  # shards of the same layers share them
                for shard in self._shards[worker]:
                    layers = tuple(shard.layers)
                    if layers not in gathered:
                        gathered[layers] = window.gathered(batch, layers)
                    job(shard, gathered[layers], batch)

        self._workers.map(work, len(self._shards))

    def end(self) -> None:
        for shards in self._shards:
            for shard in shards:
                self._maps[shard.rank].put(shard.layers, shard.maps)
