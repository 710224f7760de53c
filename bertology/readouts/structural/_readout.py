"""The structural probe: a linear map under which squared distances are distances in a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bertology._workers import Workers
from bertology.errors import FitError
from bertology.readouts._base import Progress, Settings
from bertology.readouts._features import Floats
from bertology.readouts._spans import SpanSource
from bertology.readouts.structural._batches import Asks, TreeTargets, TreeWindows, held_out
from bertology.readouts.structural._fitted import FittedStructural
from bertology.readouts.structural._training import Maps, MapTrainer, Plateau

_RANK = 64


@dataclass(frozen=True)
class StructuralReadout(Settings):
    """A linear map of rank ``rank`` (Hewitt & Manning 2019, sections 2.2 and 2.3).

    Squared distances between mapped vectors are fitted to distances in the tree, or their squared lengths to depths,
    by the mean absolute difference, of which every sentence has the same share. Adam in batches of whole sentences;
    after an epoch without a new minimum of the dev loss it begins anew at a tenth of its rate. The maps of all layers,
    problems and ranks are trained on the same batches and share no parameter. Memory is bounded by a window
    of words, whatever the corpus.
    """

    rank: int | None = None
    """Dimensions that vectors are mapped to, at most those they have; 64, or the width of narrower vectors, when left
    out."""
    learning_rate: float = 1e-3
    batch_sentences: int = 20
    max_epochs: int = 40
    patience: int = 5
    """Epochs without a new minimum after which a fit ends."""
    slow_down: float = 0.1
    """What the learning rate is multiplied by after an epoch without a new minimum."""

    @property
    def name(self) -> str:
        """Registered name, with its version."""
        return "structural.v1"

    def fit(
        self,
        train: SpanSource,
        targets: TreeTargets,
        *,
        dev: SpanSource,
        dev_targets: TreeTargets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> FittedStructural:
        """Fit the map of every layer and problem: :func:`fit_ranks` of this rank alone."""
        chosen: dict[str, Any] = {"seed": seed, "device": device, "progress": progress}
        return fit_ranks([self], train, targets, dev=dev, dev_targets=dev_targets, **chosen)[0]


def fit_ranks(
    readouts: Sequence[StructuralReadout],
    train: SpanSource,
    targets: TreeTargets,
    *,
    dev: SpanSource,
    dev_targets: TreeTargets,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[FittedStructural]:
    """Fit the maps of several ranks, of all layers and problems, in the same passes over the data.

    The result of a rank does not depend on the other ranks.

    Args:
        readouts: alike but for their rank.
        train: sentences to fit on, one span an item.
        targets: their trees.
        dev: other sentences, to see when to slow down and when to stop.
        dev_targets: their trees.
        seed: of the initial maps (each problem its own) and of the order of the sentences.
        device: where to compute, as torch names it.
        progress: called with one line about how far the fit has come.

    Raises:
        FitError: a rank above the width of the vectors, a setting out of bounds, readouts that differ in more than
            their rank, sentences that do not fit their trees, or vectors that are not finite.
    """
    _check(readouts, train, targets, dev, dev_targets)
    plain, place = readouts[0], torch.device(device)
    races = [_Race.start(readout, train, targets, seed, place) for readout in readouts]
    random = torch.Generator().manual_seed(seed)
    learnt = TreeWindows(train, targets, batch_sentences=plain.batch_sentences, device=place)
    unweighted = replace(dev_targets, weights=None)
    n_fits = sum(race.plateau.running.size for race in races)
    with Workers(place) as workers:
        trainer = MapTrainer([race.maps for race in races], targets.asks, workers)
        for epoch in range(1, plain.max_epochs + 1):
            trainer.begin([race.plateau.running for race in races])
            for window in learnt.all(random):
                trainer.learn(window.to(place))
            losses = [loss / dev.n_items for loss in _dev_losses(trainer, dev, unweighted, place)]
            trainer.end()
            for race, loss in zip(races, losses, strict=True):
                race.judge(epoch, loss)
            n_ended = n_fits - sum(int(race.plateau.running.sum()) for race in races)
            if progress is not None:
                progress(f"structural probes: epoch {epoch}, {n_ended} of {n_fits} have ended")
            if n_ended == n_fits:
                break
    return [race.fitted(targets.asks, train.layers) for race in races]


@dataclass(frozen=True)
class _Race:
    """The fits of one rank: as they are, at their best, and whether they go on."""

    readout: StructuralReadout
    maps: Maps
    best: torch.Tensor
    plateau: Plateau

    @classmethod
    def start(
        cls, readout: StructuralReadout, train: SpanSource, targets: TreeTargets, seed: int, device: torch.device
    ) -> _Race:
        """Before the first epoch."""
        maps = Maps.start(
            min(_RANK, train.dim) if readout.rank is None else readout.rank,
            n_layers=train.n_layers,
            dim=train.dim,
            n_problems=targets.n_problems,
            seed=seed,
            rate=readout.learning_rate,
            device=device,
        )
        plateau = Plateau((train.n_layers, targets.n_problems), readout.patience)
        return cls(readout, maps, maps.values.clone(), plateau)

    def judge(self, epoch: int, loss: Floats) -> None:
        """Keep what is better than ever and slow down what is not, by dev losses ``[layer, problem]``."""
        better, slower = self.plateau.judge(epoch, loss)
        for layer, problem in np.argwhere(better).tolist():
            self.best[layer, problem] = self.maps.values[layer, problem]
        self.maps.slow_down(slower, self.readout.slow_down)

    def fitted(self, asks: Asks, layers: Sequence[int]) -> FittedStructural:
        """The probe of the best epochs."""
        return FittedStructural(
            readout=self.readout.name,
            asks=asks,
            maps=self.best.permute(1, 0, 3, 2).contiguous().cpu(),
            layers=tuple(layers),
            dev_loss=self.plateau.loss.T,
            epochs=self.plateau.epochs.T,
            converged=~self.plateau.running.T,
        )


def _dev_losses(trainer: MapTrainer, dev: SpanSource, targets: TreeTargets, device: torch.device) -> list[Floats]:
    """By rank, ``[layer, problem]`` the losses of dev sentences, summed."""
    total: list[Floats] = []
    for window in held_out(dev, targets):
        losses = [loss.numpy() for loss in trainer.losses(window.to(device))]
        total = [a + b for a, b in zip(total, losses, strict=True)] if total else losses
        del window  # or it would be held while the next is read
    return total


def _check(
    readouts: Sequence[StructuralReadout],
    train: SpanSource,
    targets: TreeTargets,
    dev: SpanSource,
    dev_targets: TreeTargets,
) -> None:
    plain = readouts[0]
    if any(replace(readout, rank=plain.rank) != plain for readout in readouts):
        raise FitError("readouts that are fitted together differ in more than their rank: fit them one by one")
    for readout in readouts:
        if readout.rank is not None and not 1 <= readout.rank <= train.dim:
            raise FitError(f"rank {readout.rank} of vectors that are {train.dim} wide: give 1 to {train.dim}")
    for name in ("batch_sentences", "max_epochs", "patience"):
        if getattr(plain, name) < 1:
            raise FitError(f"{name} is {getattr(plain, name)}: give 1 or more")
    if not (plain.learning_rate > 0 and math.isfinite(plain.learning_rate) and 0 < plain.slow_down <= 1):
        raise FitError("learning_rate must be above 0, slow_down above 0 and at most 1")
    for what, source, values in (("train", train, targets), ("dev", dev, dev_targets)):
        if source.n_items != len(values.values) or not source.n_items:
            raise FitError(f"{what} has {source.n_items} sentences and {len(values.values)} trees: give one for each")
        if source.n_spans != 1:
            raise FitError(f"{what} has items of {source.n_spans} spans: give one, the whole sentence")
    if dev_targets.asks != targets.asks or (dev.n_layers, dev.dim) != (train.n_layers, train.dim):
        raise FitError("train and dev are of different layers, widths or kinds of target: give the same")
    if targets.weights is not None and not (targets.weights > 0).any(axis=1).all():
        raise FitError("a problem has no training sentence: give some of them a weight above 0")
