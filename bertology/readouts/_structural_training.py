"""Training linear maps side by side: gradients by hand, since a sign and three products are all there is to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.readouts._structural_batches import Asks, Batch, Block, Window

_DECAYS = 0.9, 0.999
_EPSILON = 1e-8
_START = 0.05
"""Maps begin uniform within ± this (as the authors' code has it)."""
_LEAST_GAIN = 1e-4
"""By which a dev loss must fall to be a new minimum (as the authors' code has it)."""


@dataclass(frozen=True)
class Maps:
    """The linear maps of one rank, of all layers and problems, and the state of their optimiser."""

    rank: int
    values: Tensor
    """``[layer, problem, rank, dim]``, in which both products of a step are fastest"""
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
        """A copy of those of some layers."""
        index = torch.tensor(layers, device=self.values.device)
        parts = (self.values, self.first, self.second, self.steps, self.rates)
        return Maps(self.rank, *(part[index] for part in parts))

    def put(self, layers: Sequence[int], other: Maps) -> None:
        """Take those of some layers back."""
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

    def step(self, gradients: Tensor) -> None:
        """One step of Adam (Kingma & Ba 2015) on gradients shaped as ``values``."""
        self.steps.add_(1)
        self.first.lerp_(gradients, 1 - _DECAYS[0])
        self.second.mul_(_DECAYS[1]).addcmul_(gradients, gradients, value=1 - _DECAYS[1])
        root = (1 - _DECAYS[1] ** self.steps).sqrt()
        scale = self.rates * root / (1 - _DECAYS[0] ** self.steps)
        width = self.second.sqrt().add_((_EPSILON * root)[:, :, None, None])
        self.values.sub_(torch.div(self.first, width, out=width).mul_(scale[:, :, None, None]))


def learn(maps: Maps, words: Tensor, batch: Batch, asks: Asks) -> None:
    """Take maps through a batch.

    Args:
        maps: of some layers.
        words: ``[layer, word, dim]`` of these layers, those of the batch.
        batch: what is true of them.
        asks: what is learnt.
    """
    mapped = torch.bmm(words, maps.values.flatten(1, 2).transpose(1, 2))  # [layer, word, problem × rank]
    pull = torch.empty_like(mapped)
    for block in batch.blocks:
        where = slice(block.first, block.first + len(block.places))
        pull[:, where] = _gradient(mapped, block, maps, asks)
    gradients = torch.bmm(pull.transpose(1, 2), words).div_(batch.n_sentences)
    maps.step(gradients.view_as(maps.values))


def losses(maps: Maps, words: Tensor, batch: Batch, asks: Asks) -> Tensor:
    """``[layer, problem]`` the loss of a batch, summed over its sentences, each weighing the same in all problems."""
    total = torch.zeros(len(words), maps.values.shape[1], dtype=torch.float64, device=words.device)
    mapped = torch.bmm(words, maps.values.flatten(1, 2).transpose(1, 2))
    for block in batch.blocks:
        vectors = _padded(mapped, block, maps)
        found = squared_distances(vectors) if asks == "distances" else vectors.square().sum(-1)
        total += found.sub_(block.gold).abs_().mul_(block.share).flatten(2).sum(-1)
    return total


def squared_distances(vectors: Tensor) -> Tensor:
    """``[…, n, n]`` squared distances between ``[…, n, dim]`` vectors."""
    products = vectors @ vectors.transpose(-1, -2)
    norms = products.diagonal(dim1=-2, dim2=-1).clone()
    return products.mul_(-2).add_(norms[..., :, None]).add_(norms[..., None, :])


def _padded(mapped: Tensor, block: Block, maps: Maps) -> Tensor:
    """``[layer, problem, sentence, n, rank]`` mapped vectors of a block."""
    n_problems, rank = maps.values.shape[1:3]
    vectors = mapped.index_select(1, block.rows.flatten()).view(len(mapped), *block.rows.shape, n_problems, rank)
    return vectors.permute(0, 3, 1, 2, 4)


def _gradient(mapped: Tensor, block: Block, maps: Maps, asks: Asks) -> Tensor:
    """``[layer, word, problem × rank]`` gradient of the loss (Hewitt & Manning 2019, section 2.2 and 2.3)."""
    vectors = _padded(mapped, block, maps).contiguous()
    found = squared_distances(vectors) if asks == "distances" else vectors.square().sum(-1)
    # The slope of |found − gold|: a sign, times how much the pair (or word) counts.
    slope = found.sub_(block.gold).sign_().mul_(block.share)
    if block.weights is not None:
        slope = slope * block.weights.view(*block.weights.shape, *[1] * (block.gold.ndim - 1))
    if asks == "distances":
        # Σ_j s_ij · 2 (v_i − v_j), twice, since every pair stands in both orders.
        pull = (slope.sum(-1, keepdim=True) * vectors).sub_(slope @ vectors).mul_(4)
    else:
        pull = (slope[..., None] * vectors).mul_(2)
    flat = pull.permute(0, 2, 3, 1, 4).reshape(len(mapped), block.rows.numel(), -1)
    return flat.index_select(1, block.places)


class Plateau:
    """Early stopping and slower learning for every layer and problem on its own (Hewitt & Manning 2019, appendix).

    Args:
        shape: numbers of layers and problems.
        patience: epochs without a new minimum of the dev loss after which a fit ends.
    """

    def __init__(self, shape: tuple[int, int], patience: int) -> None:
        self._patience = patience
        self.running = np.ones(shape, dtype=bool)
        self.loss = np.full(shape, np.inf)
        self.best_epoch = np.zeros(shape, dtype=np.int64)
        self.epochs = np.zeros(shape, dtype=np.int64)

    def judge(self, epoch: int, loss: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """What comes of dev losses ``[layer, problem]``.

        Returns:
            Which fits are better than ever and are to be kept, and which are to go on more slowly.
        """
        better: NDArray[np.bool_] = self.running & (loss < self.loss - _LEAST_GAIN)
        self.loss[better], self.best_epoch[better] = loss[better], epoch
        self.epochs[self.running] = epoch
        self.running &= epoch - self.best_epoch < self._patience
        return better, self.running & ~better


@dataclass
class Squad:
    """Maps of one rank and some layers, which one worker trains."""

    rank: int
    """Which of the ranks."""
    layers: list[int]
    """Places of the layers."""
    maps: Maps


class Trainer:
    """All maps that have not ended yet, and who computes them.

    Args:
        maps: by rank.
        asks: what is learnt.
        workers: who does it.
    """

    def __init__(self, maps: Sequence[Maps], asks: Asks, workers: Workers) -> None:
        self._maps, self._asks, self._workers = maps, asks, workers
        self._shares: list[list[Squad]] = []

    def begin(self, running: Sequence[NDArray[np.bool_]]) -> None:
        """Share the maps out for an epoch, the largest first, to whoever has least.

        Args:
            running: by rank, ``[layer, problem]`` what goes on.
        """
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
        self._shares = [
            [Squad(place, sorted(chosen), self._maps[place].some(sorted(chosen))) for place, chosen in share.items()]
            for share in layers
        ]

    def learn(self, window: Window) -> None:
        """Take all maps through a window."""

        def work(worker: int) -> None:
            for batch in window.batches:
                for squad, words in _gathered(window, batch, self._shares[worker]):
                    learn(squad.maps, words, batch, self._asks)

        self._workers.map(work, len(self._shares))

    def losses(self, window: Window) -> list[Tensor]:
        """By rank, ``[layer, problem]`` losses summed over the window's sentences; 0 for what has ended."""
        found = [torch.zeros(maps.steps.shape, dtype=torch.float64) for maps in self._maps]

        def work(worker: int) -> None:
            for batch in window.batches:
                for squad, words in _gathered(window, batch, self._shares[worker]):
                    found[squad.rank][squad.layers] += losses(squad.maps, words, batch, self._asks).cpu()

        self._workers.map(work, len(self._shares))
        return found

    def end(self) -> None:
        """Take the maps back."""
        for share in self._shares:
            for squad in share:
                self._maps[squad.rank].put(squad.layers, squad.maps)


def _gathered(window: Window, batch: Batch, squads: Sequence[Squad]) -> Iterator[tuple[Squad, Tensor]]:
    """Squads with the words of a batch in their layers, which squads of the same layers share."""
    found: dict[tuple[int, ...], Tensor] = {}
    for squad in squads:
        layers = tuple(squad.layers)
        if layers not in found:
            found[layers] = window.gathered(batch, layers)
        yield squad, found[layers]
