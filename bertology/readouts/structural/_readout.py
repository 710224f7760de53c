"""The structural probe: a linear map under which squared distances are distances in a tree, and its files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.errors import FitError, ResultsError
from bertology.readouts._base import Progress, Settings, check_same_shape
from bertology.readouts._fitting import moved
from bertology.readouts._kept import load_fit, save_fit
from bertology.readouts._sources import Floats, Integers, SpanSource
from bertology.readouts.structural._batches import Asks, TreeTargets, TreeWindows, held_out
from bertology.readouts.structural._training import Maps, MapTrainer, Plateau, squared_distances

_RANK = 64


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
    dev_loss: Floats
    """``[problem, layer]`` the lowest dev loss: the mean absolute difference, over sentences."""
    epochs: Integers
    """``[problem, layer]`` number of epochs."""
    converged: NDArray[np.bool_]
    """``[problem, layer]`` whether the dev loss had stopped falling."""

    @property
    def rank(self) -> int:
        """Dimensions that vectors are mapped to."""
        return int(self.maps.shape[3])

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self.maps.shape[2])

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer's map for one problem."""
        return self.dim * self.rank

    def read(self, source: SpanSource) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The number of each sentence, in the order of the chunks of ``source``, and its squared distances
        ``[problem, layer, word, word]`` or depths ``[problem, layer, word]``.

        Raises:
            FitError: the source has other layers or another width than the maps were fitted on.
        """
        check_same_shape(source, len(self.layers), self.dim, what="probe")
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
        return "structural.v1"


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

    The result of a rank does not depend on the other ranks. Arguments that are not named here are as in
    :meth:`Readout.fit`, of whole sentences, one span an item.

    Args:
        readouts: alike but for their rank.
        dev: other sentences, to see when to slow down and when to stop.
        seed: of the initial maps (each problem its own) and of the order of the sentences.

    Raises:
        FitError: a rank above the width of the vectors, a setting out of bounds, readouts that differ in more than
            their rank, sentences that do not fit their trees, or vectors that are not finite.
    """
    _check(readouts, train, targets, dev, dev_targets)
    plain, place, tell = readouts[0], torch.device(device), progress or (lambda line: None)
    fits = [_RankFits(readout, train, targets, seed, place) for readout in readouts]
    random = torch.Generator().manual_seed(seed)
    learnt = TreeWindows(train, targets, batch_sentences=plain.batch_sentences, device=place)
    unweighted = replace(dev_targets, weights=None)
    n_fits = sum(one.plateau.running.size for one in fits)
    with Workers(place) as workers:
        trainer = MapTrainer([one.maps for one in fits], targets.asks, workers)
        for epoch in range(1, plain.max_epochs + 1):
            trainer.begin([one.plateau.running for one in fits])
            for window in learnt.all(random):
                trainer.learn(moved(window, place))
            losses = [loss / dev.n_items for loss in _dev_losses(trainer, dev, unweighted, place)]
            trainer.end()
            for one, loss in zip(fits, losses, strict=True):
                one.judge(epoch, loss)
            n_ended = n_fits - sum(int(one.plateau.running.sum()) for one in fits)
            tell(f"structural probes: epoch {epoch}, {n_ended} of {n_fits} have ended")
            if n_ended == n_fits:
                break
    return [one.fitted(targets.asks, train.layers) for one in fits]


class _RankFits:
    """The fits of one rank: as they are, at their best, and whether they go on."""

    def __init__(
        self, readout: StructuralReadout, train: SpanSource, targets: TreeTargets, seed: int, device: torch.device
    ) -> None:
        self._readout = readout
        self.maps = Maps.start(
            min(_RANK, train.dim) if readout.rank is None else readout.rank,
            n_layers=train.n_layers,
            dim=train.dim,
            n_problems=targets.n_problems,
            seed=seed,
            rate=readout.learning_rate,
            device=device,
        )
        self._best = self.maps.values.clone()
        self.plateau = Plateau((train.n_layers, targets.n_problems), readout.patience)

    def judge(self, epoch: int, loss: Floats) -> None:
        """Keep what is better than ever and slow down what is not, by dev losses ``[layer, problem]``."""
        better, slower = self.plateau.judge(epoch, loss)
        for layer, problem in np.argwhere(better).tolist():
            self._best[layer, problem] = self.maps.values[layer, problem]
        self.maps.slow_down(slower, self._readout.slow_down)

    def fitted(self, asks: Asks, layers: Sequence[int]) -> FittedStructural:
        return FittedStructural(
            readout=self._readout.name,
            asks=asks,
            maps=self._best.permute(1, 0, 3, 2).contiguous().cpu(),
            layers=tuple(layers),
            dev_loss=self.plateau.loss.T,
            epochs=self.plateau.epochs.T,
            converged=~self.plateau.running.T,
        )


def _dev_losses(trainer: MapTrainer, dev: SpanSource, targets: TreeTargets, device: torch.device) -> list[Floats]:
    """By rank, ``[layer, problem]`` the losses of dev sentences, summed."""
    total: list[Floats] = []
    for window in held_out(dev, targets):
        losses = [loss.numpy() for loss in trainer.losses(moved(window, device))]
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


@dataclass(frozen=True)
class ProbeOrigin:
    """What a probe was fitted on, which decides to which vectors it applies."""

    model: str
    model_fingerprint: str
    layer: int
    dim: int
    pooling: str
    task: str
    corpus: str
    train_fingerprint: str
    """Of the sentences it was fitted on."""
    readout: str
    relations: tuple[str, ...] = ()
    """Names of the relations, in the order of the probe's."""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TreeProbe:
    """Linear maps of one layer: of distances, of depths, of relations, or of several of these.

    Raises:
        FitError: a map has another width than the vectors, or that of relations another number of them.
    """

    origin: ProbeOrigin
    distance: Tensor | None = None
    """``[dim, rank]``"""
    depth: Tensor | None = None
    """``[dim, rank]``"""
    relation: Tensor | None = None
    """``[dim + 1, relation]``, the last row what is added."""

    def __post_init__(self) -> None:
        for name, value in self._tensors().items():
            wide = self.origin.dim + (name == "relation")
            if value.ndim != 2 or len(value) != wide:
                raise FitError(f"the map of {name} has shape {list(value.shape)}: give [{wide}, …]")
        names = self.origin.relations
        if self.relation is not None and self.relation.shape[1] != len(names):
            raise FitError(
                f"the map of relation is of {self.relation.shape[1]} relations, of which {len(names)} have names"
            )

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"distance": self.distance, "depth": self.depth, "relation": self.relation}
        return {name: value for name, value in tensors.items() if value is not None}

    def check(self, *, model_fingerprint: str, layer: int, pooling: str) -> None:
        """Raise :class:`FitError` unless vectors of this model, layer and pooling are what the probe was fitted on."""
        origin = self.origin
        if model_fingerprint != origin.model_fingerprint:
            raise FitError(
                f"the probe was fitted on {origin.model}: it cannot read another encoder's vectors; "
                "ask it of that one, or fit one on this"
            )
        if layer != origin.layer:
            raise FitError(f"the probe was fitted on layer {origin.layer}: it cannot read layer {layer}")
        if pooling != origin.pooling:
            raise FitError(
                f"the probe was fitted on the {origin.pooling} of a word's pieces: it cannot read their {pooling}"
            )

    def distances(self, vectors: Tensor) -> NDArray[np.float32] | None:
        """``[word, word]`` squared distances of ``[word, dim]`` vectors; None where the probe has no map for them."""
        mapped = self._mapped(vectors, self.distance)
        return None if mapped is None else np.asarray(squared_distances(mapped).clamp_(min=0).numpy())

    def depths(self, vectors: Tensor) -> NDArray[np.float32] | None:
        """``[word]`` depths of ``[word, dim]`` vectors; None where the probe has no map for them."""
        mapped = self._mapped(vectors, self.depth)
        return None if mapped is None else np.asarray(mapped.square().sum(-1).numpy())

    def relations(self, vectors: Tensor) -> tuple[str, ...] | None:
        """``[word]`` the most probable relation of each word to its head; None where the probe has no map for them."""
        if self.relation is None:
            return None
        mapped = self._mapped(vectors, self.relation[:-1])
        assert mapped is not None
        scores = mapped + self.relation[-1]
        return tuple(self.origin.relations[place] for place in scores.argmax(1).tolist())

    def _mapped(self, vectors: Tensor, by: Tensor | None) -> Tensor | None:
        if vectors.ndim != 2 or vectors.shape[1] != self.origin.dim:
            raise FitError(
                f"the probe was fitted on vectors {self.origin.dim} wide: it cannot read {list(vectors.shape)}"
            )
        return None if by is None else vectors.float() @ by

    def save(self, path: Path) -> None:
        """Write ``path.safetensors``, then ``path.json``, which makes the probe whole."""
        save_fit(path, self._tensors(), asdict(self.origin))

    @classmethod
    def load(cls, path: Path) -> TreeProbe:
        """Read what :meth:`save` wrote.

        Raises:
            ResultsError: a file is missing, broken or of another format.
        """
        tensors, plain = load_fit(path)
        try:
            return cls(ProbeOrigin(**{**plain, "relations": tuple(plain["relations"])}), **tensors)
        except (KeyError, TypeError, FitError) as error:
            raise ResultsError(f"{path}.json: no whole probe there ({error}); fit it anew") from error
