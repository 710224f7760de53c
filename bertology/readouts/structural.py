"""Structural probes (Hewitt & Manning 2019): a linear map under which squared distances are distances in a tree."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._machine import Workers
from bertology._spans import SpanChunk
from bertology.errors import FitError
from bertology.readouts._base import Floats, Integers, Progress, check_same_shape, checked_weights
from bertology.readouts._fitting import AdamState, EarlyStopping, FitLoop, TrainingData, drawn_alike, moved
from bertology.readouts._sources import JoinedChunks, SpanSource, check_finite

Asks = Literal["distances", "depths"]
_BLOCK_WORDS = 2048  # how many words are computed in the same products, at most (but for a single sentence)
_START = 0.05  # maps begin uniform within ± this (as the authors' code has it)
_RANK = 64  # the rank of a map where none is given, of vectors that are as wide
_LEAST_GAIN = 1e-4  # minimum improvement of the dev loss for early stopping (as in the authors' code)


@dataclass(frozen=True)
class TreeTargets:
    """Distances or depths in the trees of the sentences of a source.

    Raises:
        FitError: shapes that do not fit, or weights that are negative or not finite.
    """

    asks: Asks
    values: Sequence[NDArray[np.integer[Any]]]
    """For each sentence ``[word, word]`` distances, or ``[word]`` depths."""
    weights: NDArray[np.float32] | None = None
    """``[problem, sentence]`` how often each counts in each problem (resampling by seed); one problem in which each
    counts once when left out."""

    def __post_init__(self) -> None:
        if self.asks not in ("distances", "depths"):
            raise FitError(f"asks is {self.asks!r}: give distances or depths")
        n_axes, kind = (2, "[word, word]") if self.asks == "distances" else (1, "[word]")
        for number, value in enumerate(self.values):
            if value.ndim != n_axes or not value.size:
                raise FitError(f"sentence {number}: {self.asks} of shape {list(value.shape)}: give {kind}")
        if self.weights is not None:
            checked_weights(self.weights, (len(self.weights), len(self.values)))

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return 1 if self.weights is None else len(self.weights)


@dataclass(frozen=True)
class Block:
    """Sentences in rows of ``n`` words, as long as the longest of them; short ones stand in a row one after another.

    Where pairs of words are asked about, what is computed of two words in different sentences is for nothing; but
    operations are few, and where batches are small that saves more than it costs.
    """

    first: int  # words of the batch that come before theirs, those that fill rows up counted
    gold: Tensor  # [row, n, n] distances, or [row, n] depths; 0 between sentences and where rows are filled up
    share: Tensor
    """Shaped as ``gold``: 1 over the number of a sentence's pairs (or words), 0 between sentences and where filled."""
    weights: Tensor | None  # [problem, row, n] how often the sentence that a word is in counts

    @property
    def words(self) -> slice:
        """The words of the batch that are in the block, row after row."""
        n_rows, n = self.gold.shape[:2]
        return slice(self.first, self.first + n_rows * n)


@dataclass(frozen=True)
class TreeBatch:
    """Sentences that go through the probes together."""

    words: Tensor
    """``[word]`` places of their words in the window, block after block and row after row; where a row is filled up,
    that of any word."""
    n_sentences: int
    blocks: tuple[Block, ...]

    def gathered(self, words: Tensor, layers: Sequence[int]) -> Tensor:
        """``[layer, word, dim]`` the words of the batch in some layers, from the contiguous words of its window."""
        # One selection of whole rows, so that no more of the window is touched than the batch needs.
        starts = torch.tensor(layers, device=words.device)[:, None] * words.shape[1]
        rows = words.view(-1, words.shape[2]).index_select(0, (starts + self.words).flatten())
        return rows.view(len(layers), -1, words.shape[2])


def cut_batches(
    chunk: SpanChunk, targets: TreeTargets, size: int | None = None, random: torch.Generator | None = None
) -> list[TreeBatch]:
    """Batches of the sentences of a chunk (one span each), shuffled if by ``random``; of all of them without a size.

    Raises:
        FitError: a sentence has another number of words than its tree.
    """
    items, spans = chunk.items.numpy(), chunk.spans[:, 0].numpy()
    for item, length in zip(items.tolist(), (spans[:, 1] - spans[:, 0]).tolist(), strict=True):
        if len(targets.values[item]) != length:
            raise FitError(
                f"sentence {item} has {length} words and {targets.asks} of {len(targets.values[item])}: "
                "give one tree over all of its words"
            )
    order = np.arange(len(items)) if random is None else torch.randperm(len(items), generator=random).numpy()
    cuts = (order[at : at + (size or len(order))] for at in range(0, len(order), size or len(order)))
    return [_batch(items[cut], spans[cut], targets) for cut in cuts]


def _batch(items: Integers, spans: Integers, targets: TreeTargets) -> TreeBatch:
    lengths = spans[:, 1] - spans[:, 0]
    # The longest come first, so that sentences of like length are neighbours.
    order = np.argsort(-lengths, kind="stable")
    items, spans, lengths = items[order], spans[order], lengths[order]
    words: list[Integers] = []
    blocks: list[Block] = []
    first = n_words = 0
    ends = lengths.cumsum()
    while first < len(items):
        before = int(ends[first] - lengths[first])
        last = max(first + 1, int(np.searchsorted(ends, before + _BLOCK_WORDS, side="right")))
        part = slice(first, last)
        places, block = _block(items[part], spans[part], targets, n_words)
        words.append(places)
        blocks.append(block)
        first, n_words = last, n_words + len(places)
    return TreeBatch(torch.from_numpy(np.concatenate(words)), len(items), tuple(blocks))


def _block(items: Integers, spans: Integers, targets: TreeTargets, before: int) -> tuple[Integers, Block]:
    """The places of the words of a block in the window, and the block; sentences come longest first."""
    lengths = (spans[:, 1] - spans[:, 0]).tolist()
    is_pairs = targets.asks == "distances"
    n = lengths[0] if is_pairs else sum(lengths)  # nothing is computed for words that are not asked about in pairs
    places, n_rows = _rows(lengths, n)
    words = np.full((n_rows, n), spans[0, 0])
    gold = np.zeros((n_rows, n, n) if is_pairs else (n_rows, n), np.float32)
    share = np.zeros_like(gold)
    weights = None if targets.weights is None else np.zeros((targets.n_problems, n_rows, n), np.float32)
    for item, start, length, (row, at) in zip(items.tolist(), spans[:, 0].tolist(), lengths, places, strict=True):
        inside = slice(at, at + length)
        area = (row, inside, inside) if is_pairs else (row, inside)
        words[row, inside] = np.arange(start, start + length)
        gold[area] = targets.values[item]
        share[area] = 1 / (length * length if is_pairs else length)
        if weights is not None and targets.weights is not None:
            weights[:, row, inside] = targets.weights[:, item, None]
    word_weights = None if weights is None else torch.from_numpy(weights)
    return words.ravel(), Block(before, torch.from_numpy(gold), torch.from_numpy(share), word_weights)


def _rows(lengths: Sequence[int], n: int) -> tuple[list[tuple[int, int]], int]:
    """Lay sentences, the longest first, into rows of ``n`` words: each where least room is left after it.

    Returns the row of each and where in it the sentence begins; and how many rows there are.
    """
    places: list[tuple[int, int]] = []
    rooms: list[tuple[int, int]] = []  # what is free in a row, and which row; in order
    n_rows = 0
    for length in lengths:
        best = bisect_left(rooms, (length, -1))
        if best == len(rooms):
            free, row = n, n_rows
            n_rows += 1
        else:
            free, row = rooms.pop(best)
        places.append((row, n - free))
        insort(rooms, (free - length, row))
    return places, n_rows


@dataclass(frozen=True)
class MapShard:
    """Maps of one rank in some layers, which one worker trains."""

    rank: int
    layers: list[int]
    n_problems: int
    state: AdamState  # numbered by layer, and by problem within a layer
    rates: list[float]

    @property
    def values(self) -> Tensor:
        """The maps ``[layer, problem, rank, dim]``."""
        maps = self.state.parameters["map"]
        return maps.view(-1, self.n_problems, *maps.shape[1:])

    def learn(self, words: Tensor, batch: TreeBatch, asks: Asks) -> None:
        """One optimiser step of the maps on a batch with word vectors ``[layer, word, dim]``."""
        mapped = self._mapped(words)
        pulls = [_by_word(_pull(self._vectors(mapped, block), block, asks)) for block in batch.blocks]
        pull = torch.cat(pulls, dim=1) if len(pulls) > 1 else pulls[0]
        # Distances pull both words of a pair, each of which stands in two pairs.
        scale = (4.0 if asks == "distances" else -2.0) / batch.n_sentences
        gradients = torch.bmm(pull.transpose(1, 2), words).mul_(scale)
        self.state.step([gradients.view_as(self.state.parameters["map"])], self.rates)

    def losses(self, words: Tensor, batch: TreeBatch, asks: Asks) -> Tensor:
        """``[layer, problem]`` the loss of a batch, summed over its sentences, each weighing the same in all problems.

        Words are as for :meth:`learn`.
        """
        total = torch.zeros(self.values.shape[:2], dtype=torch.float64, device=words.device)
        mapped = self._mapped(words)
        for block in batch.blocks:
            missing = _missing(self._vectors(mapped, block), block, asks)
            total += missing.abs_().mul_(block.share).flatten(2).sum(-1)
        return total.mul_(2) if asks == "distances" else total

    def _mapped(self, words: Tensor) -> Tensor:
        """``[layer, word, problem × rank]`` vectors under the maps."""
        # Products with a transpose are slow where it is not a matrix in memory.
        return torch.bmm(words, self.values.flatten(1, 2).transpose(1, 2).contiguous())

    def _vectors(self, mapped: Tensor, block: Block) -> Tensor:
        """``[layer, problem, row, n, rank]`` the mapped vectors of a block."""
        vectors = mapped[:, block.words].view(len(mapped), *block.gold.shape[:2], self.n_problems, -1)
        return vectors.permute(0, 3, 1, 2, 4).contiguous()


def squared_distances(vectors: Tensor) -> Tensor:
    """``[…, n, n]`` squared distances between ``[…, n, dim]`` vectors."""
    products = vectors @ vectors.transpose(-1, -2)
    norms = products.diagonal(dim1=-2, dim2=-1).clone()
    return products.mul_(-2).add_(norms[..., :, None]).add_(norms[..., None, :])


def _by_word(vectors: Tensor) -> Tensor:
    """``[layer, word, problem × rank]`` from ``[layer, problem, row, n, rank]``."""
    return vectors.permute(0, 2, 3, 1, 4).flatten(3).flatten(1, 2)


def _missing(vectors: Tensor, block: Block, asks: Asks) -> Tensor:
    """Gold less prediction: ``[layer, problem, row, n]`` of depths, ``[…, n, n]`` half of it of distances."""
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


class MapLoop(FitLoop):
    """The training of the maps of several ranks (Hewitt & Manning 2019, appendix), in shards for each worker.

    After an epoch without a new minimum of the dev loss, the optimiser of a map begins anew at a lower rate.
    """

    what = "structural probes: epoch"

    def __init__(self, readouts: Sequence[StructuralReadout], data: TrainingData, workers: Workers) -> None:
        readout, train, targets = readouts[0], data.train, data.targets  # readouts are alike but for their rank
        shape = len(readouts), train.n_layers, targets.n_problems
        stopping = EarlyStopping(shape, readout.patience, least_gain=_LEAST_GAIN, floor=-np.inf)
        super().__init__(stopping, readout.max_epochs, data.progress)
        self._readout, self._targets, self._workers, self._device = readout, targets, workers, data.device
        self._dev, self._dev_targets = data.dev, replace(data.dev_targets, weights=None)
        used = torch.ones(train.n_items, dtype=torch.bool)
        if targets.weights is not None:
            used = torch.from_numpy((targets.weights > 0).any(axis=0))
        self._joined = JoinedChunks(train, used, device=data.device)
        self._random = torch.Generator().manual_seed(data.seed)
        self._rates = np.full(shape, readout.learning_rate, dtype=np.float32)
        self._states, self.best = [], []
        for one in readouts:
            rank = min(_RANK, train.dim) if one.rank is None else one.rank

            def draw(random: torch.Generator, rank: int = rank) -> dict[str, Tensor]:
                return {"map": _START * (2 * torch.rand(train.dim, rank, generator=random) - 1).T}

            maps = drawn_alike(shape[2], shape[1], data.seed, draw)["map"].transpose(0, 1).contiguous()
            maps = maps.to(data.device)
            self._states.append(AdamState.start({"map": maps.flatten(0, 1)}))
            self.best.append(maps.clone())
        self._shards: list[list[MapShard]] = []

    def learn(self) -> None:
        """See :meth:`FitLoop.learn`."""
        self._shards = self._dealt()

        def take(shard: MapShard, words: Tensor, batch: TreeBatch) -> None:
            shard.learn(words, batch, self._targets.asks)

        for chunk in self._joined:
            batches = cut_batches(chunk, self._targets, self._readout.batch_sentences, self._random)
            self._each(chunk, batches, take)

    def _dealt(self) -> list[list[MapShard]]:
        """The maps that go on, by worker: the largest first, to the worker with the least to compute."""
        jobs = [
            (best.shape[2], place, layer)
            for place, best in enumerate(self.best)
            for layer in np.flatnonzero(self.stopping.running[place].any(axis=1)).tolist()
        ]
        loads = [0.0] * self._workers.n
        layers: list[dict[int, list[int]]] = [{} for _ in loads]
        for rank, place, layer in sorted(jobs, key=lambda job: (-job[0], job[1:])):
            worker = loads.index(min(loads))
            # What a map costs beside its products, in units of rank.
            loads[worker] += rank + 8
            layers[worker].setdefault(place, []).append(layer)
        return [[self._shard(place, sorted(chosen)) for place, chosen in dealt.items()] for dealt in layers]

    def _shard(self, place: int, layers: list[int]) -> MapShard:
        state = self._states[place].some(self._fits(layers))
        return MapShard(place, layers, self._targets.n_problems, state, self._rates[place, layers].ravel().tolist())

    def _fits(self, layers: list[int]) -> list[int]:
        n_problems = self._targets.n_problems
        return [layer * n_problems + problem for layer in layers for problem in range(n_problems)]

    def dev_scores(self) -> tuple[Floats, None]:
        """``[rank, layer, problem]`` the dev loss, negative: the lower the better."""
        totals = np.zeros(self.stopping.running.shape)

        def add(shard: MapShard, words: Tensor, batch: TreeBatch) -> None:
            totals[shard.rank, shard.layers] += shard.losses(words, batch, self._targets.asks).cpu().numpy()

        for chunk in self._dev.chunks():
            check_finite(self._dev, chunk.words.sum(dim=(1, 2)))
            self._each(chunk, cut_batches(chunk, self._dev_targets), add)
            del chunk  # or it would be held while the next is read
        for shard in itertools.chain.from_iterable(self._shards):
            self._states[shard.rank].put(self._fits(shard.layers), shard.state)
        return -totals / self._dev.n_items, None

    def keep(self, better: NDArray[np.bool_]) -> None:
        """See :meth:`FitLoop.keep`."""
        slower = self.stopping.running & ~better
        self._rates = np.where(slower, self._rates * np.float32(self._readout.slow_down), self._rates)
        for place, state in enumerate(self._states):
            chosen = torch.from_numpy(better[place]).to(self._device)
            self.best[place][chosen] = state.parameters["map"].view_as(self.best[place])[chosen]
            state.reset(np.flatnonzero(slower[place]).tolist())

    def _each(
        self, chunk: SpanChunk, batches: list[TreeBatch], job: Callable[[MapShard, Tensor, TreeBatch], None]
    ) -> None:
        """Call ``job`` with every shard and batch, and the words of the batch in the shard's layers."""
        window, batches = moved((chunk.words.contiguous(), batches), self._device)

        def work(worker: int) -> None:
            for batch in batches:
                gathered: dict[tuple[int, ...], Tensor] = {}  # shards of the same layers share them
                for shard in self._shards[worker]:
                    layers = tuple(shard.layers)
                    if layers not in gathered:
                        gathered[layers] = batch.gathered(window, layers)
                    job(shard, gathered[layers], batch)

        self._workers.map(work, len(self._shards))


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
class StructuralReadout:
    """A linear map of rank ``rank`` (Hewitt & Manning 2019, sections 2.2 and 2.3).

    Squared distances between mapped vectors are fitted to distances in the tree, or their squared lengths to depths,
    by the mean absolute difference, of which every sentence has the same share. Adam in batches of whole sentences;
    after an epoch without a new minimum of the dev loss it begins anew at a tenth of its rate. The maps of all layers,
    problems and ranks are trained on the same batches and share no parameter. Memory is bounded by a window
    of words, whatever the corpus.
    """

    name: ClassVar[str] = "structural.v1"
    rank: int | None = None
    """Dimensions that vectors are mapped to, at most those they have; 64, or the width of narrower vectors, when left
    out."""
    learning_rate: float = 1e-3
    batch_sentences: int = 20
    max_epochs: int = 40
    patience: int = 5
    """Epochs without a new minimum after which a fit ends."""
    slow_down: float = 0.1
    """Factor of the learning rate after an epoch without a new minimum."""


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
    tell = progress or (lambda line: None)
    data = TrainingData(train, targets, dev, dev_targets, seed, torch.device(device), tell)
    _check(readouts, data)
    with Workers(data.device) as workers:
        loop = MapLoop(readouts, data, workers)
        stopping = loop.run()
    return [
        FittedStructural(
            readout=readout.name,
            asks=targets.asks,
            maps=loop.best[place].permute(1, 0, 3, 2).contiguous().cpu(),
            layers=tuple(train.layers),
            dev_loss=-stopping.score[place].T,
            epochs=stopping.epochs[place].T,
            converged=~stopping.running[place].T,
        )
        for place, readout in enumerate(readouts)
    ]


def _check(readouts: Sequence[StructuralReadout], data: TrainingData) -> None:
    train, targets, dev, dev_targets = data.train, data.targets, data.dev, data.dev_targets
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
